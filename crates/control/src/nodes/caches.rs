//! The objects that one evaluation reads: those of the informer caches, as they are at its beginning.

use std::borrow::Borrow;
use std::sync::Arc;

use api::agones::{Fleet, GameServer, GameServerSet};
use api::autoscaling::FleetAutoscaler;
use api::plimsoll::{NodeAutoscaler, NodeGroup};
use cluster::{CacheEntry, CachedGameServer, CachedObject, NodeCaches, Subscription};
use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use serde_json::Value;

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
        pub(super) struct Snapshot {
            $($field: Vec<Arc<CachedObject<$kind>>>,)*
            fleets: FleetObjects,
        }

        impl Snapshot {
            /// Shares the objects of the caches.
            pub(super) fn new(caches: &NodeCaches, fleets: FleetObjects) -> Self {
                Self { $($field: caches.$field.all(),)* fleets }
            }

            /// Returns all objects as JSON, each after `reduce`.
            pub(super) fn objects(&self, reduce: impl Fn(&mut Value)) -> Vec<Value> {
                let mut all = Vec::new();
                $(for entry in &self.$field {
                    let mut object = serde_json::to_value(&entry.0).unwrap_or_default();
                    reduce(&mut object);
                    all.push(object);
                })*
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
            vec![autoscalers, $({
                let trigger = Arc::clone(trigger);
                caches.$field.subscribe(move |old, new| {
                    if $matters(old.map(|old| &old.0), new.map(|new| &new.0)) {
                        trigger.fire();
                    }
                })
            },)*]
        }

        $(impl Lister<$kind> for Snapshot {
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
        })*
    };
}

snapshot! {
    groups: NodeGroup, watch::spec_changed;
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

/// Returns the group of a node by its label.
pub(super) fn group_of(node: &Node) -> Option<&str> {
    let labels = node.metadata.labels.as_ref();
    labels.and_then(|all| all.get(decide::nodes::GROUP_LABEL)).map(String::as_str)
}

/// Returns the nodes that belong to an existing group. All others are unmanaged, and are not changed.
pub(super) fn managed_nodes(caches: &NodeCaches) -> Vec<Arc<CachedObject<Node>>> {
    let groups = caches.groups.all();
    let mut nodes = caches.nodes.all();
    nodes.retain(|node| {
        let group = group_of(&node.0);
        group.is_some_and(|name| groups.iter().any(|g| g.metadata.name.as_deref() == Some(name)))
    });
    nodes
}
