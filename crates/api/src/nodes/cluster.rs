//! The objects of a cluster as decisions about its nodes read them.

use std::collections::BTreeMap;
use std::sync::Arc;

use decide::nodes::{Budget, Cluster, DaemonSet, Labels, Workload};
use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;

use super::{Volumes, constraints, requests, selectors};
use crate::plimsoll::NodeGroup;

/// Namespace and name; the namespace is empty for what lives in none.
type Key<'a> = (&'a str, &'a str);

/// The objects of a cluster, in any order, without its pods: there are so many that they are read one by one. Of two
/// objects with one name the later one counts, as if it had been applied after the first.
#[derive(Default)]
pub struct ClusterObjects<'a> {
    /// Nodes.
    pub nodes: Vec<&'a core::Node>,
    /// Node groups.
    pub groups: Vec<&'a NodeGroup>,
    /// Namespaces.
    pub namespaces: Vec<&'a core::Namespace>,
    /// Disruption budgets.
    pub budgets: Vec<&'a PodDisruptionBudget>,
    /// Daemon sets.
    pub daemon_sets: Vec<&'a apps::DaemonSet>,
    /// Replica sets.
    pub replica_sets: Vec<&'a apps::ReplicaSet>,
    /// Stateful sets.
    pub stateful_sets: Vec<&'a apps::StatefulSet>,
    /// Jobs.
    pub jobs: Vec<&'a Job>,
    /// Replication controllers.
    pub replication_controllers: Vec<&'a core::ReplicationController>,
    /// Claims of volumes.
    pub claims: Vec<&'a core::PersistentVolumeClaim>,
    /// Volumes.
    pub volumes: Vec<&'a core::PersistentVolume>,
    /// Classes of volumes.
    pub classes: Vec<&'a StorageClass>,
    /// What the storage drivers of a node report.
    pub csi_nodes: Vec<&'a CSINode>,
}

impl<'a> ClusterObjects<'a> {
    /// Returns what decisions read. The pods are left to the caller.
    pub fn cluster(&self) -> Cluster {
        let csi_nodes = global(&self.csi_nodes);
        let csi = |node: &core::Node| csi_nodes.get(name(&node.metadata)).copied();
        Cluster {
            nodes: global(&self.nodes).into_values().map(|n| super::node(n, csi(n))).collect(),
            pods: Vec::new(),
            groups: global(&self.groups).into_values().map(super::group).collect(),
            daemon_sets: namespaced(&self.daemon_sets).into_values().map(daemon_set).collect(),
            budgets: namespaced(&self.budgets).into_values().map(budget).collect(),
            workloads: self.workloads(),
            namespaces: global(&self.namespaces).into_values().map(namespace).collect(),
        }
    }

    /// Returns what the volumes of pods are found by.
    pub fn storage(&self) -> Volumes<'a> {
        Volumes {
            claims: namespaced(&self.claims),
            volumes: global(&self.volumes),
            classes: global(&self.classes),
        }
    }

    fn workloads(&self) -> Vec<Workload> {
        let one = |kind: &str, (namespace, name): &Key<'_>, replicas: Option<i32>| Workload {
            kind: kind.into(),
            namespace: (*namespace).into(),
            name: (*name).into(),
            // The API server fills in 1 by default.
            replicas: replicas.unwrap_or(1),
        };
        let mut all = Vec::new();
        for (key, rs) in &namespaced(&self.replica_sets) {
            all.push(one("ReplicaSet", key, rs.spec.as_ref().and_then(|s| s.replicas)));
        }
        for (key, rc) in &namespaced(&self.replication_controllers) {
            all.push(one("ReplicationController", key, rc.spec.as_ref().and_then(|s| s.replicas)));
        }
        for (key, set) in &namespaced(&self.stateful_sets) {
            all.push(one("StatefulSet", key, set.spec.as_ref().and_then(|s| s.replicas)));
        }
        all.extend(namespaced(&self.jobs).keys().map(|key| one("Job", key, None)));
        all.extend(namespaced(&self.daemon_sets).keys().map(|key| one("DaemonSet", key, None)));
        all
    }
}

/// Sorts objects by namespace and name.
fn namespaced<'a, K: Resource>(objects: &[&'a K]) -> BTreeMap<Key<'a>, &'a K> {
    let key = |object: &'a K| (namespace_of(object.meta()), name(object.meta()));
    objects.iter().map(|object| (key(object), *object)).collect()
}

/// Sorts objects that live in no namespace by name.
fn global<'a, K: Resource>(objects: &[&'a K]) -> BTreeMap<&'a str, &'a K> {
    objects.iter().map(|object| (name(object.meta()), *object)).collect()
}

fn name(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

fn daemon_set(set: &apps::DaemonSet) -> DaemonSet {
    let template = set.spec.as_ref().map(|s| &s.template);
    let spec = template.and_then(|t| t.spec.as_ref());
    let labels = template.and_then(|t| t.metadata.as_ref()).and_then(|m| m.labels.as_ref());
    let mut pod = spec.map(|s| constraints::read(s, labels)).unwrap_or_default();
    pod.requests = spec.map(|s| requests::of_pod(s, None)).unwrap_or_default();
    constraints::resolve_namespace(&mut pod, namespace_of(&set.metadata));
    let says =
        |text: Option<&String>, wanted: &str| text.is_some_and(|text| text.as_str() == wanted);
    DaemonSet {
        name: set.metadata.name.as_deref().unwrap_or_default().into(),
        spec: Arc::new(pod),
        is_node_critical: spec.is_some_and(|s| {
            says(s.priority_class_name.as_ref(), "system-node-critical")
                && !says(s.preemption_policy.as_ref(), "Never")
        }),
    }
}

fn budget(budget: &PodDisruptionBudget) -> Budget {
    let selector = budget.spec.as_ref().and_then(|s| s.selector.as_ref());
    let disrupted = budget.status.iter().flat_map(|s| s.disrupted_pods.iter().flatten());
    Budget {
        namespace: namespace_of(&budget.metadata).into(),
        name: budget.metadata.name.as_deref().unwrap_or_default().into(),
        selector: selectors::labels(selector),
        disruptions_allowed: budget
            .status
            .as_ref()
            .and_then(|s| s.disruptions_allowed)
            .unwrap_or(0),
        disrupted_pods: disrupted.map(|(pod, _)| pod.as_str().into()).collect(),
    }
}

fn namespace(namespace: &core::Namespace) -> (Box<str>, Labels) {
    let name = namespace.metadata.name.as_deref().unwrap_or_default();
    // Every namespace carries its own name as a label: the API server sets it.
    let own = [("kubernetes.io/metadata.name".to_owned(), name.to_owned())];
    let given = namespace.metadata.labels.iter().flatten().map(|(k, v)| (k.clone(), v.clone()));
    (name.into(), given.chain(own).collect())
}

/// Returns the namespace of an object, `default` where it has none.
pub(super) fn namespace_of(metadata: &ObjectMeta) -> &str {
    metadata.namespace.as_deref().unwrap_or("default")
}
