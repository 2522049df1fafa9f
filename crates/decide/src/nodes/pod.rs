//! A pod: its scheduling constraints, its node, and what matters when its node is drained.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{LabelSelector, Labels, NodeTerm, Resources, Toleration};

/// One pod.
#[derive(Clone, Debug, Default)]
pub struct Pod {
    pub name: Box<str>,
    /// The scheduling constraints. Pods of one class may share them.
    pub spec: Arc<PodSpec>,
    pub scheduling: Scheduling,
    /// `None` when unset, which is never expendable.
    pub priority: Option<i32>,
    pub created_at: Option<Timestamp>,
    /// How long the pod waits before it causes a scale-up, by its own annotation.
    pub scale_up_delay: Option<SignedDuration>,
    /// Its controller.
    pub owner: Option<Arc<Owner>>,
    /// How its game server is used, if it has one that may be taken into account.
    pub game_server: Option<GameServerUse>,
    pub drain: Drain,
}

/// How a game server is used. Its node can be emptied unless it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GameServerUse {
    /// Nobody uses it, and its set replaces it.
    Idle,
    Allocated,
    Reserved,
    /// It is about to be deleted.
    Ending,
}

impl Pod {
    /// Returns `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.spec.namespace, self.name)
    }

    /// Returns whether it belongs to a DaemonSet.
    pub fn is_daemon(&self) -> bool {
        self.drain.is_marked_daemon || self.owner.as_ref().is_some_and(|o| &*o.kind == "DaemonSet")
    }
}

/// The scheduling state of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scheduling {
    /// `spec.nodeName` names this node.
    On(Box<str>),
    /// The scheduler nominated this node, pending preemption.
    Nominated(Box<str>),
    /// The scheduler found no node for it.
    Unschedulable,
    /// No scheduler has looked at it yet.
    Unprocessed,
    /// Anything else: gated, being deleted without a node, finished.
    #[default]
    Other,
}

/// Everything the scheduler considers in a pod. Pods with equal specs are of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodSpec {
    pub namespace: Box<str>,
    /// The scheduler that it waits for; empty: the default one.
    pub scheduler: Box<str>,
    pub labels: Labels,
    /// The effective request: the larger of containers with sidecars and the init peak, plus overhead.
    pub requests: Resources,
    pub node_selector: Labels,
    /// The required node affinity: one term must match. `None`: any node.
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
    /// With fewer domains than this, the minimum count is 0.
    pub min_domains: u32,
    /// `nodeAffinityPolicy`: only nodes that the pod selects count.
    pub honor_affinity: bool,
    /// `nodeTaintsPolicy`: only nodes whose taints the pod tolerates count.
    pub honor_taints: bool,
}

/// A host port of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Box<str>,
    /// Empty or `0.0.0.0`: every address.
    pub ip: Box<str>,
    pub port: u16,
}

/// A persistent volume of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Volume {
    /// The volume's identity: pods with the same one share it. Unbound claims use `namespace/claim`.
    pub id: Box<str>,
    /// The driver whose attach limit it counts towards; empty: none.
    pub driver: Box<str>,
    /// Where it is accessible (the volume's node affinity, zone labels or a class's topologies): one term must match.
    /// `None`: anywhere.
    pub reachable: Option<Box<[NodeTerm]>>,
    /// Only one pod in the cluster may use it (`ReadWriteOncePod`).
    pub exclusive: bool,
    /// The claim or its volume does not exist, so no node fits.
    pub missing: bool,
}

/// A pod's controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    pub api_version: Box<str>,
    pub kind: Box<str>,
    pub name: Box<str>,
    pub uid: Box<str>,
}

/// The facts about a pod that matter when its node is drained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drain {
    /// A mirror of a static pod.
    pub is_mirror: bool,
    /// It succeeded or failed: it no longer uses resources.
    pub is_finished: bool,
    /// The annotation `cluster-autoscaler.kubernetes.io/daemonset-pod: "true"`.
    pub is_marked_daemon: bool,
    pub safe_to_evict: SafeToEvict,
    /// It has local storage that is not declared safe to lose.
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
    Unset,
    Yes,
    No,
    OnCompletion,
}
