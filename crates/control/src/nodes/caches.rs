//! The objects that one evaluation reads: those of the informer caches, as they are at its beginning, and what the controller adds to them.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

use api::agones::{Fleet, GameServer, GameServerSet};
use api::autoscaling::FleetAutoscaler;
use api::plimsoll::{NodeAutoscaler, NodeGroup};
use cluster::{CacheEntry, CachedGameServer, CachedObject, NodeCaches, Subscription};
use decide::nodes::GROUP_LABEL;
use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use serde_json::Value;

use super::known_pods::KnownPods;
use super::membership::Membership;
use super::observe::{self, Observation};
use super::watch::{self, Trigger};
use crate::context::Context;
use crate::lister::{Lister, Unreadable};

/// An object that is shared with its cache.
pub(super) struct SharedObject<K>(Arc<CachedObject<K>>);

impl<K> Borrow<K> for SharedObject<K> {
    fn borrow(&self) -> &K {
        &self.0.0
    }
}

/// What the controller adds to the objects of the caches.
#[derive(Clone, Default)]
pub(super) struct Additions {
    /// The groups.
    pub(super) groups: Vec<Arc<CachedObject<NodeGroup>>>,
    /// The group of each node.
    pub(super) membership: Membership,
    /// Pods that do not exist, and that nodes are added and kept for.
    pub(super) virtual_pods: Vec<Arc<CachedObject<Pod>>>,
}

impl Additions {
    /// Returns a group by name.
    pub(super) fn group(&self, name: &str) -> Option<&Arc<CachedObject<NodeGroup>>> {
        self.groups.iter().find(|group| group.metadata.name.as_deref() == Some(name))
    }

    /// Returns the group of a node, if it belongs to an existing one. All other nodes are unmanaged, and are not changed.
    pub(super) fn group_of<'a>(&'a self, node: &'a Node) -> Option<&'a str> {
        self.membership.group_of(node).filter(|name| self.group(name).is_some())
    }

    /// Returns the nodes that belong to an existing group.
    pub(super) fn managed_nodes(&self, caches: &NodeCaches) -> Vec<Arc<CachedObject<Node>>> {
        let mut nodes = caches.nodes.all();
        nodes.retain(|node| self.group_of(&node.0).is_some());
        nodes
    }
}

/// The objects of fleets; none, where their controllers do not run in this process.
#[derive(Default)]
pub(super) struct FleetObjects {
    fleets: Vec<Arc<Fleet>>,
    sets: Vec<Arc<GameServerSet>>,
    servers: Vec<Arc<CachedGameServer>>,
    autoscalers: Vec<Arc<FleetAutoscaler>>,
}

impl FleetObjects {
    /// Shares the objects of the caches, if fleets and nodes are scaled together.
    pub(super) fn new(cx: &Context) -> Self {
        if !cx.scales_fleets {
            return Self::default();
        }
        let caches = &cx.caches;
        Self {
            fleets: caches.fleets.all(),
            sets: caches.sets.all(),
            servers: caches.servers.all(),
            autoscalers: caches.autoscalers.all(),
        }
    }
}

/// A game server that is shared with its cache.
pub(super) struct SharedGameServer(Arc<CachedGameServer>);

impl Borrow<GameServer> for SharedGameServer {
    fn borrow(&self) -> &GameServer {
        &self.0.object
    }
}

/// Lists the objects of a namespace, or all.
fn listed<E: CacheEntry>(
    all: &[Arc<E>],
    namespace: Option<&str>,
) -> impl Iterator<Item = Result<Arc<E>, Unreadable>> {
    let is_in = move |entry: &&Arc<E>| {
        namespace.is_none_or(|n| entry.meta().namespace.as_deref() == Some(n))
    };
    all.iter().filter(is_in).map(|entry| Ok(Arc::clone(entry)))
}

impl Lister<Fleet> for Snapshot {
    type Item = Arc<Fleet>;

    fn list(
        &self,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = Result<Self::Item, Unreadable>> {
        listed(&self.fleets.fleets, namespace)
    }
}

impl Lister<GameServerSet> for Snapshot {
    type Item = Arc<GameServerSet>;

    fn list(
        &self,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = Result<Self::Item, Unreadable>> {
        listed(&self.fleets.sets, namespace)
    }
}

impl Lister<FleetAutoscaler> for Snapshot {
    type Item = Arc<FleetAutoscaler>;

    fn list(
        &self,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = Result<Self::Item, Unreadable>> {
        listed(&self.fleets.autoscalers, namespace)
    }
}

impl Lister<GameServer> for Snapshot {
    type Item = SharedGameServer;

    fn list(
        &self,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = Result<Self::Item, Unreadable>> {
        listed(&self.fleets.servers, namespace).map(|server| server.map(SharedGameServer))
    }
}

/// Fires the trigger when fleets need other nodes, or other nodes can be emptied, until the subscriptions are dropped.
pub(super) fn subscribe_to_fleets(cx: &Context, trigger: &Arc<Trigger>) -> Vec<Subscription> {
    if !cx.scales_fleets {
        return Vec::new();
    }
    let fired = Arc::clone(trigger);
    let sets = cx.caches.sets.subscribe(move |old, new| {
        if watch::spec_changed::<GameServerSet>(old.map(|set| &**set), new.map(|set| &**set)) {
            fired.fire();
        }
    });
    let fired = Arc::clone(trigger);
    let servers = cx.caches.servers.subscribe(move |old, new| {
        if watch::server_changed(old.map(|one| &*one.view), new.map(|one| &*one.view)) {
            fired.fire();
        }
    });
    vec![sets, servers]
}

macro_rules! snapshot {
    ($($field:ident: $kind:ty, $matters:path;)*) => {
        /// All objects that a decision about nodes depends on.
        #[derive(Default)]
        pub(super) struct Snapshot {
            groups: Vec<Arc<CachedObject<NodeGroup>>>,
            $($field: Vec<Arc<CachedObject<$kind>>>,)*
            /// The group of each node whose label names another or none, by the name of the node.
            relabelled: BTreeMap<String, Option<String>>,
            fleets: FleetObjects,
        }

        impl Snapshot {
            /// Shares the objects of the caches, and adds to them.
            pub(super) fn new(cx: &Context, additions: &Additions) -> Self {
                let caches = &cx.caches.node_scaling;
                let mut snapshot = Self {
                    groups: additions.groups.clone(),
                    $($field: caches.$field.all(),)*
                    relabelled: BTreeMap::new(),
                    fleets: FleetObjects::new(cx),
                };
                snapshot.pods.extend(additions.virtual_pods.iter().map(Arc::clone));
                snapshot.relabelled = relabelled(&snapshot.nodes, &additions.membership);
                snapshot
            }

            /// Returns all objects as JSON, each after `reduce`. A node has the label of its group.
            pub(super) fn objects(&self, reduce: impl Fn(&mut Value)) -> Vec<Value> {
                let mut all = Vec::new();
                let mut add = |object: serde_json::Result<Value>| {
                    let mut object = object.unwrap_or_default();
                    self.relabel(&mut object);
                    reduce(&mut object);
                    all.push(object);
                };
                self.groups.iter().for_each(|entry| add(serde_json::to_value(&entry.0)));
                $(self.$field.iter().for_each(|entry| add(serde_json::to_value(&entry.0)));)*
                all
            }
        }

        /// Fires the trigger when something changes that a decision depends on, until the subscriptions are dropped.
        pub(super) fn subscribe(caches: &NodeCaches, trigger: &Arc<Trigger>) -> Vec<Subscription> {
            let autoscalers = {
                let trigger = Arc::clone(trigger);
                caches.autoscalers.subscribe(move |old, new| {
                    let (old, new) = (old.map(|old| &old.0), new.map(|new| &new.0));
                    if watch::spec_changed::<NodeAutoscaler>(old, new) {
                        trigger.fire();
                    }
                })
            };
            let groups = {
                let trigger = Arc::clone(trigger);
                caches.groups.subscribe(move |old, new| {
                    if watch::spec_changed(old.map(|old| &old.0), new.map(|new| &new.0)) {
                        trigger.fire();
                    }
                })
            };
            let new_pods = {
                let trigger = Arc::clone(trigger);
                caches.pods.subscribe(move |old, new| {
                    if let (None, Some(new)) = (old, new) {
                        trigger.pod_appeared(&new.0);
                    }
                })
            };
            let buffers = subscribe_to_buffers(caches, trigger);
            buffers.into_iter().chain([autoscalers, groups, new_pods, $({
                let trigger = Arc::clone(trigger);
                caches.$field.subscribe(move |old, new| {
                    if $matters(old.map(|old| &old.0), new.map(|new| &new.0)) {
                        trigger.fire();
                    }
                })
            },)*]).collect()
        }

        lists!(groups: NodeGroup);
        $(lists!($field: $kind);)*
    };
}

macro_rules! lists {
    ($field:ident: $kind:ty) => {
        impl Lister<$kind> for Snapshot {
            type Item = SharedObject<$kind>;

            fn list(
                &self,
                namespace: Option<&str>,
            ) -> impl Iterator<Item = Result<Self::Item, Unreadable>> {
                let is_in = move |entry: &&Arc<CachedObject<$kind>>| {
                    namespace.is_none_or(|n| entry.meta().namespace.as_deref() == Some(n))
                };
                self.$field.iter().filter(is_in).map(|entry| Ok(SharedObject(Arc::clone(entry))))
            }
        }
    };
}

snapshot! {
    nodes: Node, watch::node_changed;
    pods: Pod, watch::pod_changed;
    namespaces: Namespace, watch::labels_changed;
    budgets: PodDisruptionBudget, watch::budget_changed;
    daemon_sets: DaemonSet, watch::spec_changed;
    replica_sets: ReplicaSet, watch::spec_changed;
    stateful_sets: StatefulSet, watch::spec_changed;
    jobs: Job, watch::spec_changed;
    replication_controllers: ReplicationController, watch::spec_changed;
    claims: PersistentVolumeClaim, watch::spec_changed;
    volumes: PersistentVolume, watch::spec_changed;
    classes: StorageClass, watch::spec_changed;
    csi_nodes: CSINode, watch::spec_changed;
}

impl Snapshot {
    /// Observes the cluster. A node is in the group that its provider reports, as if its label named it.
    pub(super) fn observe(
        &self,
        autoscaler: &NodeAutoscaler,
        cx: &Context,
        known: &mut KnownPods,
    ) -> Result<Observation, Unreadable> {
        let (sidecar, now) = (&cx.settings.sidecar, cx.clock.now());
        let mut observed = observe::observe_known(autoscaler, self, sidecar, now, known)?;
        // Whether a group is rolling out is what its provider reports, not what was last written.
        observed.cluster.groups.iter_mut().for_each(|group| group.is_rolling_out = false);
        let nodes = &mut observed.cluster.nodes;
        for node in nodes.iter_mut().filter(|_| !self.relabelled.is_empty()) {
            let Some(group) = self.relabelled.get(&*node.name) else { continue };
            node.group = group.as_deref().map(Into::into);
            if let Some(group) = group {
                node.labels = node.labels.with(GROUP_LABEL, group);
            }
        }
        Ok(observed)
    }

    /// Gives a node the label of its group.
    fn relabel(&self, object: &mut Value) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let Some(group) = self.relabelled.get(name).filter(|_| object["kind"] == "Node") else {
            return;
        };
        match group {
            Some(group) => object["metadata"]["labels"][GROUP_LABEL] = group.as_str().into(),
            None => {
                let labels = object["metadata"]["labels"].as_object_mut();
                labels.into_iter().for_each(|labels| drop(labels.remove(GROUP_LABEL)));
            }
        }
    }
}

/// Fires the trigger when buffers ask for other room, until the subscriptions are dropped.
fn subscribe_to_buffers(caches: &NodeCaches, trigger: &Arc<Trigger>) -> [Subscription; 3] {
    macro_rules! subscribe {
        ($field:ident) => {{
            let trigger = Arc::clone(trigger);
            caches.$field.subscribe(move |old, new| {
                if watch::spec_changed(old.map(|old| &old.0), new.map(|new| &new.0)) {
                    trigger.fire();
                }
            })
        }};
    }
    [subscribe!(buffers), subscribe!(pod_templates), subscribe!(deployments)]
}

/// Returns the group of each node whose label names another or none.
fn relabelled(
    nodes: &[Arc<CachedObject<Node>>],
    membership: &Membership,
) -> BTreeMap<String, Option<String>> {
    let mut found = BTreeMap::new();
    for node in nodes {
        let labels = node.metadata.labels.as_ref();
        let label = labels.and_then(|all| all.get(GROUP_LABEL)).map(String::as_str);
        let group = membership.group_of(&node.0);
        if group != label {
            let name = node.metadata.name.clone().unwrap_or_default();
            found.insert(name, group.map(str::to_owned));
        }
    }
    found
}
