//! Node autoscaling: adds nodes for pending pods and removes unneeded ones.
//!
//! A [`Cluster`] is the observed state, in plain types. A [`Snapshot`] is the same in a compact form that answers quickly whether
//! a pod fits on a node, and reverts simulated changes cheaply. [`Settings`] are the user's configuration, [`Status`] is the
//! state carried over from earlier evaluations.

mod balance;
mod budgets;
mod cluster;
mod drain;
mod evaluation;
mod expander;
mod group;
mod health;
mod labels;
mod limits;
mod packing;
mod pending;
mod pod;
mod refusal;
mod resources;
mod scale_down;
mod scale_up;
mod selector;
mod settings;
mod snapshot;
mod taint;
mod templates;
mod timers;
mod utilization;

pub use cluster::{Budget, Cluster, DaemonSet, Node, Workload};
pub use drain::Blocking;
pub use evaluation::Evaluation;
pub use group::{Group, GroupOptions, GroupStatus, ScaleUpUnderWay, Template};
pub use health::{GroupState, Readiness, readiness};
pub use labels::Labels;
pub use packing::{Bound, Force};
pub use pending::{DEFAULT_SCHEDULER, is_pending};
pub use pod::{
    Drain, GameServerUse, HostPort, Owner, Pod, PodSpec, PodTerm, SafeToEvict, Scheduling,
    SpreadConstraint, Volume,
};
pub use refusal::Refusal;
pub use resources::Resources;
pub use scale_down::{DrainPlan, Removal, ScaleDown, UnremovableReason};
pub use scale_up::{
    Answer, GroupRefusal, Placement, Question, QuestionOption, Resize, ScaleUp, Unschedulable,
};
pub use selector::{LabelSelector, NodeTerm, Operator, Requirement};
pub use settings::{
    Expander, Health, LastChanges, Limits, Range, ScaleDownSettings, ScaleUpSettings, Settings,
    Status, Tolerances,
};
pub use snapshot::{Mark, NodeId, PodId, Snapshot};
pub use taint::{Effect, Taint, Toleration};

/// The label with the name of a node's group.
pub const GROUP_LABEL: &str = "plimsoll.dev/node-group";
/// The label with a node's host name.
pub const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";
/// The taint of a node that is being removed.
pub const TO_BE_DELETED_TAINT: &str = "ToBeDeletedByClusterAutoscaler";
/// The taint of a node that is unneeded.
pub const DELETION_CANDIDATE_TAINT: &str = "DeletionCandidateOfClusterAutoscaler";
/// The resources of a node with GPUs.
pub const GPU_RESOURCES: [&str; 3] = ["nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915"];
