//! The observed state of a cluster, in plain types.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::{Group, LabelSelector, Labels, Pod, PodSpec, Resources, Taint};

/// The input of a decision about nodes. The order does not matter; names are unique.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    pub nodes: Vec<Node>,
    pub pods: Vec<Pod>,
    pub groups: Vec<Group>,
    pub daemon_sets: Vec<DaemonSet>,
    pub budgets: Vec<Budget>,
    pub workloads: Vec<Workload>,
    /// The labels of namespaces, for terms that select namespaces by label.
    pub namespaces: BTreeMap<Box<str>, Labels>,
}

/// One node.
#[derive(Clone, Debug, Default)]
pub struct Node {
    pub name: Box<str>,
    /// Its group, by the label `plimsoll.dev/node-group`.
    pub group: Option<Box<str>>,
    pub labels: Labels,
    pub taints: Box<[Taint]>,
    /// Cordoned.
    pub unschedulable: bool,
    /// `Ready`, without disk pressure, and with a network. Cordons and taints are evaluated separately.
    pub is_ready: bool,
    /// When `Ready` last changed.
    pub ready_changed_at: Option<Timestamp>,
    pub created_at: Option<Timestamp>,
    pub capacity: Resources,
    pub allocatable: Resources,
    /// How many volumes of a driver it can attach (from CSINode); other drivers are unlimited.
    pub volume_limits: Box<[(Box<str>, u32)]>,
    /// `cluster-autoscaler.kubernetes.io/scale-down-disabled: "true"`.
    pub scale_down_disabled: bool,
}

/// A DaemonSet, which adds a pod to every new node that it selects.
#[derive(Clone, Debug, Default)]
pub struct DaemonSet {
    pub name: Box<str>,
    /// Its pod, without the tolerations that the DaemonSet controller adds.
    pub spec: Arc<PodSpec>,
    /// `system-node-critical`, and allowed to preempt.
    pub is_node_critical: bool,
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub selector: LabelSelector,
    pub disruptions_allowed: i32,
    /// The pods whose eviction was allowed, and that are already counted, but that are not gone yet: `status.disruptedPods`.
    pub disrupted_pods: BTreeSet<Box<str>>,
}

/// A controller that owns pods: ReplicaSet, StatefulSet, Job, DaemonSet, ReplicationController.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    pub kind: Box<str>,
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub replicas: i32,
}
