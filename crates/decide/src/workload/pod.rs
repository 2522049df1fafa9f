//! Pods as the decisions about workloads need them.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

/// The phase of a pod, in the order in which pods are deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodPhase {
    /// Not all of its containers have started.
    #[default]
    Pending,
    /// Its node does not report.
    Unknown,
    /// It runs.
    Running,
    /// All containers ended without a failure.
    Succeeded,
    /// A container failed, and is not restarted.
    Failed,
}

/// A pod of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodView {
    /// The name.
    pub name: Arc<str>,
    /// The uid.
    pub uid: Arc<str>,
    /// The node that it is bound to; for a pod of a DaemonSet that is not bound, the node that it is meant for.
    pub node: Option<Arc<str>>,
    /// Whether it is bound.
    pub is_bound: bool,
    /// The phase.
    pub phase: PodPhase,
    /// Since when it is ready; `None`: it is not.
    pub ready_at: Option<Timestamp>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its last container ended; `None` while one runs.
    pub finished_at: Option<Timestamp>,
    /// Whether it is being deleted.
    pub is_terminating: bool,
    /// The annotation `controller.kubernetes.io/pod-deletion-cost`.
    pub deletion_cost: i32,
    /// The restarts of its most restarted container.
    pub most_restarts: i32,
    /// The restarts of all containers.
    pub restarts: i32,
}

impl PodView {
    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// Whether it counts as a replica: it neither has ended nor is being deleted.
    pub fn is_active(&self) -> bool {
        !self.is_finished() && !self.is_terminating
    }

    /// Returns when it has been ready for long enough; `None` while it is not ready.
    pub fn available_at(&self, min_ready_seconds: i32) -> Option<Timestamp> {
        let wait = SignedDuration::from_secs(i64::from(min_ready_seconds));
        self.ready_at.map(|at| at.saturating_add(wait).unwrap_or(Timestamp::MAX))
    }

    /// Whether it has been ready for long enough.
    pub fn is_available(&self, min_ready_seconds: i32, now: Timestamp) -> bool {
        let at = self.available_at(min_ready_seconds);
        at.is_some_and(|at| min_ready_seconds == 0 || at <= now)
    }
}
