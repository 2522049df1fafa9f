//! A pod: what scheduling can see of it, where it is, and what draining its node would mean for it.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{LabelSelector, Labels, NodeTerm, Resources, Toleration};

/// One pod.
#[derive(Clone, Debug, Default)]
pub struct Pod {
    pub name: Box<str>,
    /// What scheduling can see. Pods of one kind may share it, but need not.
    pub spec: Arc<PodSpec>,
    pub scheduling: Scheduling,
    /// None when unset, which is never expendable.
    pub priority: Option<i32>,
    pub created_at: Option<Timestamp>,
    /// How long the pod itself asks to wait before it counts as pending.
    pub scale_up_delay: Option<SignedDuration>,
    /// Its controller.
    pub owner: Option<Arc<Owner>>,
    pub drain: Drain,
}

impl Pod {
    /// Names it as `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.spec.namespace, self.name)
    }

    /// Tells whether it belongs to a DaemonSet.
    pub fn is_daemon(&self) -> bool {
        self.drain.says_daemon || self.owner.as_ref().is_some_and(|o| &*o.kind == "DaemonSet")
    }
}

/// Where a pod is on its way to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scheduling {
    /// `spec.nodeName` names this node.
    On(Box<str>),
    /// The scheduler wants it on this node, once room was made there.
    Nominated(Box<str>),
    /// The scheduler found no node for it.
    Unschedulable,
    /// Anything else: gated, not looked at yet, being deleted without a node, finished.
    #[default]
    Other,
}

/// All that the scheduler looks at in a pod. Pods with equal specs are of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodSpec {
    pub namespace: Box<str>,
    pub labels: Labels,
    /// The effective request: the larger of containers with sidecars and the init peak, plus overhead.
    pub requests: Resources,
    pub node_selector: Labels,
    /// The required node affinity: one term must hold. None: any node.
    pub node_affinity: Option<Box<[NodeTerm]>>,
    pub tolerations: Box<[Toleration]>,
    /// Required pod affinity: every term.
    pub affinity: Box<[PodTerm]>,
    /// Required pod anti-affinity: every term.
    pub anti_affinity: Box<[PodTerm]>,
    /// `DoNotSchedule` constraints only.
    pub spread: Box<[SpreadConstraint]>,
    pub host_ports: Box<[HostPort]>,
    pub volumes: Box<[Volume]>,
    /// It is being deleted: spread constraints no longer count it.
    pub terminating: bool,
}

/// One required term of pod affinity or anti-affinity, with `matchLabelKeys` already part of the selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodTerm {
    pub topology_key: Box<str>,
    pub selector: LabelSelector,
    /// The named namespaces; the pod's own when neither these nor a selector were given. Sorted.
    pub namespaces: Box<[Box<str>]>,
    /// Namespaces by their labels, in addition; an empty selector means all of them.
    pub namespace_selector: Option<LabelSelector>,
}

/// One `DoNotSchedule` topology spread constraint, with `matchLabelKeys` already part of the selector.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpreadConstraint {
    pub topology_key: Box<str>,
    pub max_skew: u32,
    pub selector: LabelSelector,
    /// Fewer domains than this: the least count is 0.
    pub min_domains: u32,
    /// `nodeAffinityPolicy`: only nodes the pod selects count.
    pub honor_affinity: bool,
    /// `nodeTaintsPolicy`: only nodes whose taints the pod tolerates count.
    pub honor_taints: bool,
}

/// A port of the node that a pod takes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Box<str>,
    /// Empty or `0.0.0.0`: every address.
    pub ip: Box<str>,
    pub port: u16,
}

/// A persistent volume a pod uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Volume {
    /// Names the volume: two pods with the same one share it. Unbound claims go by `namespace/claim`.
    pub id: Box<str>,
    /// Whose attach limit it counts for; empty: nobody's.
    pub driver: Box<str>,
    /// Where it can be reached (the volume's node affinity, zone labels or a class's topologies): one term must
    /// hold. None: anywhere.
    pub reachable: Option<Box<[NodeTerm]>>,
    /// Only one pod in the cluster may use it (`ReadWriteOncePod`).
    pub exclusive: bool,
    /// The claim or its volume does not exist, so no node will do.
    pub missing: bool,
}

/// Who looks after a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    pub api_version: Box<str>,
    pub kind: Box<str>,
    pub name: Box<str>,
    pub uid: Box<str>,
}

/// What draining has to know about a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drain {
    /// A copy of a pod that the kubelet runs from a file.
    pub is_mirror: bool,
    /// It succeeded or failed for good: it takes no room any more.
    pub is_finished: bool,
    /// The annotation `cluster-autoscaler.kubernetes.io/daemonset-pod: "true"`.
    pub says_daemon: bool,
    pub safe_to_evict: SafeToEvict,
    /// It keeps data on the node, in a volume that is not declared safe to lose.
    pub has_local_storage: bool,
    /// `deletionTimestamp`.
    pub deletes_at: Option<Timestamp>,
    /// `terminationGracePeriodSeconds`.
    pub grace: Option<SignedDuration>,
}

/// The annotation `cluster-autoscaler.kubernetes.io/safe-to-evict`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SafeToEvict {
    #[default]
    Unsaid,
    Yes,
    No,
    OnCompletion,
}
