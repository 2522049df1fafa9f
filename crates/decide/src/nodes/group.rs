//! Node groups.

use jiff::{SignedDuration, Timestamp};

use super::{Labels, Resources, Taint};

/// A node group.
#[derive(Clone, Debug, Default)]
pub struct Group {
    pub name: Box<str>,
    pub min: u32,
    pub max: u32,
    /// Per node and hour.
    pub price: Option<f64>,
    pub priority: i32,
    /// From 0 to `max` at once, and back.
    pub all_or_nothing: bool,
    /// The template of a new node, with annotations already applied.
    pub template: Option<Template>,
    pub options: GroupOptions,
    pub status: GroupStatus,
}

/// The template of a new node.
#[derive(Clone, Debug, Default)]
pub struct Template {
    pub labels: Labels,
    pub taints: Box<[Taint]>,
    pub capacity: Resources,
    pub allocatable: Resources,
}

/// A group's own settings; `None` means the autoscaler's.
#[derive(Clone, Debug, Default)]
pub struct GroupOptions {
    pub utilization_threshold: Option<f64>,
    pub gpu_utilization_threshold: Option<f64>,
    pub unneeded_for: Option<SignedDuration>,
    pub unready_for: Option<SignedDuration>,
    pub max_provision_time: Option<SignedDuration>,
    pub ignore_daemon_sets_utilization: Option<bool>,
}

/// State carried over from earlier evaluations.
#[derive(Clone, Debug, Default)]
pub struct GroupStatus {
    /// The desired size; `None`: its number of nodes.
    pub target: Option<u32>,
    pub scale_up: Option<ScaleUpUnderWay>,
    pub backoff_until: Option<Timestamp>,
}

/// A scale-up in progress.
#[derive(Clone, Copy, Debug)]
pub struct ScaleUpUnderWay {
    pub at: Timestamp,
    pub increase: u32,
}
