//! The objects that one evaluation reads: those of the informer caches, as they are at its beginning.

use std::borrow::Borrow;
use std::sync::Arc;

use api::plimsoll::{NodeAutoscaler, NodeGroup};
use cluster::{CacheEntry as _, CachedObject, NodeCaches, Subscription};
use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use serde_json::Value;

use super::watch::{self, Trigger};
use crate::lister::{Lister, Unreadable};

/// An object that is shared with its cache.
pub(super) struct SharedObject<K>(Arc<CachedObject<K>>);

impl<K> Borrow<K> for SharedObject<K> {
    fn borrow(&self) -> &K {
        &self.0.0
    }
}

macro_rules! snapshot {
    ($($field:ident: $kind:ty, $matters:path;)*) => {
        /// All objects that a decision about nodes depends on.
        pub(super) struct Snapshot {
            $($field: Vec<Arc<CachedObject<$kind>>>,)*
        }

        impl Snapshot {
            /// Shares the objects of the caches.
            pub(super) fn new(caches: &NodeCaches) -> Self {
                Self { $($field: caches.$field.all(),)* }
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
