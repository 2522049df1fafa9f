//! The scheduler's view of the cluster: nodes with the requests of their pods, pending pods, namespaces and storage.
//!
//! A pod that was decided for a node counts as on it at once, before the API server has answered: it is assumed, until the watch
//! confirms it or its binding fails.

mod affinity;
mod pods;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::nodes::ClusterObjects;
use cluster::Key;
use decide::nodes::{Budget, Node, Scheduling};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::CSINode;
use process::Random;
use tokio::time::Instant;

use crate::preemption;
use crate::queue::SchedulingQueue;
use crate::storage::{self, Storage};
use crate::watches::{Delta, ListTracker, WatchEvent};
pub(crate) use affinity::{AffinityCounts, Namespaces, selects};
pub(crate) use pods::{CachedPod, PendingPod};
pub(crate) use usage::NodeUsage;

/// The attach limits of a node, by driver.
type VolumeLimits = Box<[(Box<str>, u32)]>;

/// The state of the cluster as far as scheduling depends on it.
pub(crate) struct ClusterState {
    scheduler_name: Box<str>,
    random: Random,
    lists: Lists,
    pub(crate) nodes: BTreeMap<Arc<str>, Node>,
    volume_limits: BTreeMap<Key, VolumeLimits>,
    pub(crate) namespaces: Namespaces,
    storage: Storage,
    /// A storage object changed since pods were last read with it.
    is_storage_stale: bool,
    pub(crate) pods: BTreeMap<Key, CachedPod>,
    /// What the pods of each node take.
    pub(crate) usage: BTreeMap<Box<str>, NodeUsage>,
    pub(crate) affinity: AffinityCounts,
    /// How many pods have affinity, spread constraints or volumes, so that it matters where each single pod is.
    pub(crate) constrained_pods: usize,
    pub(crate) queue: SchedulingQueue,
    budgets: BTreeMap<Key, Budget>,
    /// The pending pods for which room is being made on a node.
    pub(crate) nominated: BTreeSet<Key>,
    /// How many pods on nodes have each priority.
    priorities: BTreeMap<i32, usize>,
}

#[derive(Default)]
struct Lists {
    pods: ListTracker,
    nodes: ListTracker,
    namespaces: ListTracker,
    claims: ListTracker,
    volumes: ListTracker,
    classes: ListTracker,
    csi_nodes: ListTracker,
    budgets: ListTracker,
}

impl Lists {
    fn all(&self) -> [&ListTracker; 8] {
        let Self { pods, nodes, namespaces, claims, volumes, classes, csi_nodes, budgets } = self;
        [pods, nodes, namespaces, claims, volumes, classes, csi_nodes, budgets]
    }
}

impl ClusterState {
    /// Returns an empty state.
    pub(crate) fn new(scheduler_name: &str, random: Random) -> Self {
        Self {
            scheduler_name: scheduler_name.into(),
            random,
            lists: Lists::default(),
            nodes: BTreeMap::new(),
            volume_limits: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            storage: Storage::default(),
            is_storage_stale: false,
            pods: BTreeMap::new(),
            usage: BTreeMap::new(),
            affinity: AffinityCounts::default(),
            constrained_pods: 0,
            queue: SchedulingQueue::default(),
            budgets: BTreeMap::new(),
            nominated: BTreeSet::new(),
            priorities: BTreeMap::new(),
        }
    }

    /// Whether every first list is complete.
    pub(crate) fn is_synced(&self) -> bool {
        self.lists.all().iter().all(|list| list.is_synced())
    }

    /// Queues the pods whose backoff is over.
    pub(crate) fn activate_due(&mut self, now: Instant) {
        self.queue.activate_due(now);
    }

    /// Takes in an event of a watch.
    pub(crate) fn handle(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Pod(event) => {
                self.lists.pods.delta(*event).into_iter().for_each(|delta| self.apply_pod(delta));
            }
            WatchEvent::Node(event) => {
                self.lists.nodes.delta(*event).into_iter().for_each(|delta| self.apply_node(delta));
            }
            WatchEvent::Namespace(event) => {
                let delta = self.lists.namespaces.delta(*event);
                delta.into_iter().for_each(|delta| self.apply_namespace(delta));
            }
            WatchEvent::CsiNode(event) => {
                let delta = self.lists.csi_nodes.delta(*event);
                delta.into_iter().for_each(|delta| self.apply_csi_node(delta));
            }
            WatchEvent::Budget(event) => {
                let delta = self.lists.budgets.delta(*event);
                delta.into_iter().for_each(|delta| self.apply_budget(delta));
            }
            WatchEvent::Claim(event) => {
                if let Some(delta) = self.lists.claims.delta(*event) {
                    storage::apply(&mut self.storage.claims, delta);
                    self.is_storage_stale = true;
                }
            }
            WatchEvent::Volume(event) => {
                if let Some(delta) = self.lists.volumes.delta(*event) {
                    storage::apply(&mut self.storage.volumes, delta);
                    self.is_storage_stale = true;
                }
            }
            WatchEvent::StorageClass(event) => {
                if let Some(delta) = self.lists.classes.delta(*event) {
                    storage::apply(&mut self.storage.classes, delta);
                    self.is_storage_stale = true;
                }
            }
        }
    }

    fn apply_node(&mut self, delta: Delta<core::Node>) {
        match delta {
            Delta::Upsert(key, object) => {
                let mut node = api::nodes::node(&object, None);
                node.volume_limits = self.volume_limits.get(&key).cloned().unwrap_or_default();
                if !self.nodes.get(&key.name).is_some_and(|known| is_same(known, &node)) {
                    self.queue.activate_unschedulable();
                }
                self.nodes.insert(key.name, node);
            }
            // The messages of unschedulable pods count the nodes.
            Delta::Remove(key) => {
                self.nodes.remove(&key.name);
                self.queue.activate_unschedulable();
            }
            Delta::Retain(listed) => {
                self.nodes.retain(|name, _| listed.contains(&Key::new("", Arc::clone(name))));
                self.queue.activate_unschedulable();
            }
        }
    }

    fn apply_csi_node(&mut self, delta: Delta<CSINode>) {
        match delta {
            Delta::Upsert(key, object) => {
                let limits = api::nodes::node(&core::Node::default(), Some(&object)).volume_limits;
                self.volume_limits.insert(key, limits);
            }
            Delta::Remove(key) => drop(self.volume_limits.remove(&key)),
            Delta::Retain(listed) => self.volume_limits.retain(|key, _| listed.contains(key)),
        }
        for (name, node) in &mut self.nodes {
            let limits = self.volume_limits.get(&Key::new("", Arc::clone(name)));
            let limits = limits.cloned().unwrap_or_default();
            if node.volume_limits != limits {
                node.volume_limits = limits;
                self.queue.activate_unschedulable();
            }
        }
    }

    /// Takes in a disruption budget. It decides only about victims, so no pod is decided again for it.
    fn apply_budget(&mut self, delta: Delta<PodDisruptionBudget>) {
        match delta {
            Delta::Upsert(key, object) => {
                let objects =
                    ClusterObjects { budgets: vec![&object], ..ClusterObjects::default() };
                self.budgets.extend(objects.cluster().budgets.pop().map(|budget| (key, budget)));
            }
            Delta::Remove(key) => drop(self.budgets.remove(&key)),
            Delta::Retain(listed) => self.budgets.retain(|key, _| listed.contains(key)),
        }
    }

    /// Returns the disruption budgets.
    pub(crate) fn budgets(&self) -> Vec<Budget> {
        self.budgets.values().cloned().collect()
    }

    /// Whether a pod on some node is less important than this.
    pub(crate) fn has_pods_below(&self, priority: i32) -> bool {
        self.priorities.first_key_value().is_some_and(|(lowest, _)| *lowest < priority)
    }

    /// Whether a pod on a node is less important than this, and is being deleted.
    pub(crate) fn has_terminating_below(&self, node: &str, priority: i32) -> bool {
        self.pods.values().any(|cached| {
            cached.pod.spec.terminating
                && cached.pod.scheduling == Scheduling::On(node.into())
                && preemption::priority(&cached.pod) < priority
        })
    }

    fn apply_namespace(&mut self, delta: Delta<core::Namespace>) {
        let before = self.namespaces.len();
        match delta {
            Delta::Upsert(key, object) => {
                let labels = object.metadata.labels.into_iter().flatten().collect();
                let old = self.namespaces.insert((&*key.name).into(), labels);
                if old.as_ref() == self.namespaces.get(&*key.name) {
                    return;
                }
            }
            Delta::Remove(key) => drop(self.namespaces.remove(&*key.name)),
            Delta::Retain(listed) => {
                self.namespaces.retain(|name, _| listed.contains(&Key::new("", &**name)));
                if self.namespaces.len() == before {
                    return;
                }
            }
        }
        // Terms may select namespaces by their labels.
        self.affinity.clear();
        if self.constrained_pods > 0 {
            self.queue.activate_unschedulable();
        }
    }

    /// Reads the pods that use storage again if any of it changed.
    pub(crate) fn refresh_volumes(&mut self) {
        if !std::mem::take(&mut self.is_storage_stale) {
            return;
        }
        let volumes = self.storage.lookup();
        let with_claims = self.pods.iter().filter_map(|(key, cached)| {
            let read = storage::read_pod(cached.with_claims.as_ref()?, &volumes).spec;
            (read.volumes != cached.pod.spec.volumes).then(|| (key.clone(), read.volumes.clone()))
        });
        let changed: Vec<_> = with_claims.collect();
        for (key, volumes) in changed {
            self.update_pod(&key, |cached| {
                Arc::make_mut(&mut cached.pod.spec).volumes = volumes;
            });
        }
        self.queue.activate_unschedulable();
    }
}

/// Whether a node is the same to every pod as it was.
fn is_same(one: &Node, other: &Node) -> bool {
    one.labels == other.labels
        && one.taints == other.taints
        && one.unschedulable == other.unschedulable
        && one.is_ready == other.is_ready
        && one.allocatable == other.allocatable
        && one.volume_limits == other.volume_limits
}
