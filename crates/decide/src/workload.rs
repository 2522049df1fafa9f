//! The controllers of Deployments, ReplicaSets, Jobs and DaemonSets, as decisions.
//!
//! They follow Kubernetes' controller manager, so that the resulting objects are the same: the order of steps, the rounding, the
//! conditions and their reasons are its.

mod amount;
mod condition;
pub mod daemon;
mod deletion;
pub mod deployment;
pub mod job;
mod pod;
mod proportional;
mod replicas;
mod revision;
mod rollout;

pub use amount::IntOrPercent;
pub use condition::{Condition, set_condition, set_refreshed};
pub use deletion::pods_to_delete;
pub use pod::{PodPhase, PodView};
pub use replicas::{ReplicaCounts, count_replicas, missing_replicas};
pub use revision::{expired_sets, next_revision, revision_history};
pub use rollout::{
    Resize, SetSize, Strategy, is_scaling, recreate, rolling, scale, size_of_new_set,
};

#[cfg(test)]
mod testing;
