//! What one pass over a set of game servers creates and deletes.

use std::sync::Arc;

use super::{Mode, Scheduling};
use crate::gameserver::Priority;

/// A GameServerSet, as far as its size is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSet {
    /// `spec.replicas`.
    pub replicas: i32,
    /// `spec.scheduling`.
    pub scheduling: Scheduling,
    /// `spec.priorities`.
    pub priorities: Vec<Priority>,
    /// Whether the set itself is being deleted: then nothing is created.
    pub has_deletion_mark: bool,
    /// Whose results its fleet gets.
    pub mode: Mode,
}

/// How much one pass may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most servers created in a pass.
    pub creations: u32,
    /// The most servers deleted in a pass.
    pub deletions: u32,
    /// The most servers of the set that wait for their pod.
    pub pending: u32,
}

/// What one pass does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciliation {
    /// How many servers to create.
    pub create: u32,
    /// The names of the servers to tell to shut down, in order.
    pub delete: Vec<Arc<str>>,
    /// Whether a limit left something for another pass, to follow at once.
    pub is_partial: bool,
}
