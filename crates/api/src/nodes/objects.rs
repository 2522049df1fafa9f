//! The objects that a decision about nodes looks at, sorted by kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use decide::nodes::{Budget, Cluster, DaemonSet, Labels, Workload};
use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Pods, Volumes, constraints, requests, selectors};
use crate::plimsoll::NodeGroup;
use crate::{Problem, decode};

/// Namespace and name; the namespace is empty for what lives in none.
type Key = (String, String);
/// The objects of one kind. Of two with one name the later one counts, as if it had been applied after the first.
type Kept<T> = BTreeMap<Key, T>;

/// What a cluster holds, as far as decisions about nodes go.
#[derive(Default)]
pub struct Objects {
    nodes: Kept<core::Node>,
    pods: Kept<core::Pod>,
    groups: Kept<NodeGroup>,
    namespaces: Kept<core::Namespace>,
    budgets: Kept<PodDisruptionBudget>,
    daemon_sets: Kept<apps::DaemonSet>,
    replica_sets: Kept<apps::ReplicaSet>,
    stateful_sets: Kept<apps::StatefulSet>,
    jobs: Kept<Job>,
    replication_controllers: Kept<core::ReplicationController>,
    claims: Kept<core::PersistentVolumeClaim>,
    volumes: Kept<core::PersistentVolume>,
    classes: Kept<StorageClass>,
    csi_nodes: Kept<CSINode>,
}

impl Objects {
    /// Takes in an object of a kind that matters here, and passes over every other.
    pub fn add(&mut self, value: &Value) -> Result<(), Vec<Problem>> {
        let text = |field: &str| value[field].as_str().unwrap_or_default();
        match (text("apiVersion"), text("kind")) {
            ("v1", "Node") => keep(&mut self.nodes, value),
            ("v1", "Pod") => keep(&mut self.pods, value),
            ("v1", "Namespace") => keep(&mut self.namespaces, value),
            ("v1", "ReplicationController") => keep(&mut self.replication_controllers, value),
            ("v1", "PersistentVolumeClaim") => keep(&mut self.claims, value),
            ("v1", "PersistentVolume") => keep(&mut self.volumes, value),
            ("storage.k8s.io/v1", "StorageClass") => keep(&mut self.classes, value),
            ("storage.k8s.io/v1", "CSINode") => keep(&mut self.csi_nodes, value),
            ("policy/v1", "PodDisruptionBudget") => keep(&mut self.budgets, value),
            ("apps/v1", "DaemonSet") => keep(&mut self.daemon_sets, value),
            ("apps/v1", "ReplicaSet") => keep(&mut self.replica_sets, value),
            ("apps/v1", "StatefulSet") => keep(&mut self.stateful_sets, value),
            ("batch/v1", "Job") => keep(&mut self.jobs, value),
            ("plimsoll.dev/v1alpha1", "NodeGroup") => keep(&mut self.groups, value),
            _ => Ok(()),
        }
    }

    /// Gives what decisions read.
    pub fn cluster(&self) -> Cluster {
        let volumes = Volumes {
            claims: self.claims.iter().map(|(key, claim)| (borrow(key), claim)).collect(),
            volumes: self.volumes.iter().map(|((_, name), v)| (name.as_str(), v)).collect(),
            classes: self.classes.iter().map(|((_, name), c)| (name.as_str(), c)).collect(),
        };
        let csi = |node: &core::Node| {
            let name = node.metadata.name.clone().unwrap_or_default();
            self.csi_nodes.get(&(String::new(), name))
        };
        let mut pods = Pods::new(&volumes);
        Cluster {
            nodes: self.nodes.values().map(|n| super::node(n, csi(n))).collect(),
            pods: self.pods.values().map(|p| pods.read(p)).collect(),
            groups: self.groups.values().map(super::group).collect(),
            daemon_sets: self.daemon_sets.values().map(daemon_set).collect(),
            budgets: self.budgets.values().map(budget).collect(),
            workloads: self.workloads(),
            namespaces: self.namespaces.values().map(namespace).collect(),
        }
    }

    fn workloads(&self) -> Vec<Workload> {
        let one = |kind: &str, (namespace, name): &Key, replicas: Option<i32>| Workload {
            kind: kind.into(),
            namespace: namespace.as_str().into(),
            name: name.as_str().into(),
            // The API server fills in 1 where nothing is said.
            replicas: replicas.unwrap_or(1),
        };
        let mut all = Vec::new();
        for (key, rs) in &self.replica_sets {
            all.push(one("ReplicaSet", key, rs.spec.as_ref().and_then(|s| s.replicas)));
        }
        for (key, rc) in &self.replication_controllers {
            all.push(one("ReplicationController", key, rc.spec.as_ref().and_then(|s| s.replicas)));
        }
        for (key, set) in &self.stateful_sets {
            all.push(one("StatefulSet", key, set.spec.as_ref().and_then(|s| s.replicas)));
        }
        all.extend(self.jobs.keys().map(|key| one("Job", key, None)));
        all.extend(self.daemon_sets.keys().map(|key| one("DaemonSet", key, None)));
        all
    }
}

fn borrow((namespace, name): &Key) -> (&str, &str) {
    (namespace, name)
}

fn keep<T: DeserializeOwned>(kept: &mut Kept<T>, value: &Value) -> Result<(), Vec<Problem>> {
    let read: T = decode::lenient(value)?;
    let metadata = &value["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let kind = value["kind"].as_str().unwrap_or_default();
    let is_global =
        ["Node", "Namespace", "PersistentVolume", "StorageClass", "CSINode", "NodeGroup"]
            .contains(&kind);
    let namespace =
        if is_global { "" } else { metadata["namespace"].as_str().unwrap_or("default") };
    if name.is_empty() {
        return Err(vec![Problem::new("metadata.name", "required")]);
    }
    kept.insert((namespace.to_owned(), name.to_owned()), read);
    Ok(())
}

fn daemon_set(set: &apps::DaemonSet) -> DaemonSet {
    let template = set.spec.as_ref().map(|s| &s.template);
    let spec = template.and_then(|t| t.spec.as_ref());
    let labels = template.and_then(|t| t.metadata.as_ref()).and_then(|m| m.labels.as_ref());
    let mut pod = spec.map(|s| constraints::of(s, labels)).unwrap_or_default();
    pod.requests = spec.map(|s| requests::of(s, None)).unwrap_or_default();
    constraints::settle_namespace(&mut pod, namespace_of(&set.metadata));
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
    Budget {
        namespace: namespace_of(&budget.metadata).into(),
        name: budget.metadata.name.as_deref().unwrap_or_default().into(),
        selector: selectors::labels(selector),
        disruptions_allowed: budget
            .status
            .as_ref()
            .and_then(|s| s.disruptions_allowed)
            .unwrap_or(0),
    }
}

fn namespace(namespace: &core::Namespace) -> (Box<str>, Labels) {
    let name = namespace.metadata.name.as_deref().unwrap_or_default();
    // Every namespace carries its own name as a label: the API server sees to it.
    let own = [("kubernetes.io/metadata.name".to_owned(), name.to_owned())];
    let given = namespace.metadata.labels.iter().flatten().map(|(k, v)| (k.clone(), v.clone()));
    (name.into(), given.chain(own).collect())
}

/// Gives the namespace of an object, `default` where it does not say.
pub(super) fn namespace_of(metadata: &ObjectMeta) -> &str {
    metadata.namespace.as_deref().unwrap_or("default")
}
