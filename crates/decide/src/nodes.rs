//! How many nodes there should be, and which: adding them for pods that wait, removing those nobody needs.
//!
//! A [`Cluster`] is what was seen, in plain types. A [`Snapshot`] is the same in a compact form that answers "would
//! this pod fit there?" at once, and takes what-ifs back cheaply. [`Settings`] and [`Status`] are the user's wishes and
//! what earlier looks found.

mod balance;
mod budgets;
mod cluster;
mod drain;
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
mod turn;
mod utilization;

pub use cluster::{Budget, Cluster, DaemonSet, Node, Workload};
pub use drain::Blocking;
pub use group::{Group, GroupOptions, GroupStatus, ScaleUpUnderWay, Template};
pub use health::{Readiness, Standing, readiness};
pub use labels::Labels;
pub use packing::{Bound, Force};
pub use pod::{
    Drain, HostPort, Owner, Pod, PodSpec, PodTerm, SafeToEvict, Scheduling, SpreadConstraint,
    Volume,
};
pub use refusal::Refusal;
pub use resources::Resources;
pub use scale_down::{Keep, Removal, ScaleDown};
pub use scale_up::{Place, Resize, ScaleUp, Unschedulable, Why};
pub use selector::{LabelSelector, NodeTerm, Operator, Requirement};
pub use settings::{
    Expander, Health, Limits, Range, ScaleDownSettings, ScaleUpSettings, Settings, Status,
};
pub use snapshot::{Mark, NodeId, PodId, Snapshot};
pub use taint::{Effect, Taint, Toleration};
pub use turn::Turn;

/// The label that says which group a node belongs to.
pub const GROUP_LABEL: &str = "plimsoll.dev/node-group";
/// The label that holds a node's own name.
pub const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";
/// The taint of a node that is being removed.
pub const TO_BE_DELETED_TAINT: &str = "ToBeDeletedByClusterAutoscaler";
/// The resources that make a node one with a GPU.
pub const GPU_RESOURCES: [&str; 3] = ["nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915"];
