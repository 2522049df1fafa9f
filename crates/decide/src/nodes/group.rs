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
    /// For the expander `priority`; a group without one is chosen only if no other has one.
    pub priority: Option<i32>,
    /// From 0 to `max` at once, and back.
    pub all_or_nothing: bool,
    /// The template of a new node, with annotations already applied.
    pub template: Option<Template>,
    pub options: GroupOptions,
    /// Its provider is replacing its machines: no node is removed.
    pub is_rolling_out: bool,
    pub status: GroupStatus,
}

/// The template of a new node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Template {
    pub labels: Labels,
    pub taints: Box<[Taint]>,
    pub capacity: Resources,
    pub allocatable: Resources,
}

/// A group's own settings; `None` means the autoscaler's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupOptions {
    pub utilization_threshold: Option<f64>,
    pub gpu_utilization_threshold: Option<f64>,
    pub unneeded_for: Option<SignedDuration>,
    pub unready_for: Option<SignedDuration>,
    pub max_provision_time: Option<SignedDuration>,
    pub ignore_daemon_sets_utilization: Option<bool>,
}

impl GroupOptions {
    /// Returns these settings, with others where they are not set.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self {
            utilization_threshold: self.utilization_threshold.or(other.utilization_threshold),
            gpu_utilization_threshold: self
                .gpu_utilization_threshold
                .or(other.gpu_utilization_threshold),
            unneeded_for: self.unneeded_for.or(other.unneeded_for),
            unready_for: self.unready_for.or(other.unready_for),
            max_provision_time: self.max_provision_time.or(other.max_provision_time),
            ignore_daemon_sets_utilization: self
                .ignore_daemon_sets_utilization
                .or(other.ignore_daemon_sets_utilization),
        }
    }
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
