//! How a fleet moves from old sets of servers to a new one.

use std::sync::Arc;

use super::Amount;

/// `spec.strategy` of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Old servers go first.
    Recreate,
    /// A few at a time.
    RollingUpdate {
        /// `maxSurge`.
        max_surge: Amount,
        /// `maxUnavailable`.
        max_unavailable: Amount,
    },
}

/// `status` of a GameServerSet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetCounts {
    /// Servers that are not being deleted.
    pub replicas: i32,
    /// Those in state Ready.
    pub ready: i32,
    /// Those in state Reserved.
    pub reserved: i32,
    /// Those in state Allocated.
    pub allocated: i32,
    /// Servers on their way out.
    pub shutdown: i32,
}

/// One of a fleet's sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetView {
    /// Its name; empty for one that is yet to be made.
    pub name: Arc<str>,
    /// `spec.replicas`.
    pub replicas: i32,
    /// `status`.
    pub status: SetCounts,
}

/// What becomes of a fleet's sets in one pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// `spec.replicas` of the set with the present template.
    pub active: i32,
    /// The new `spec.replicas` of each other set whose size changes, in the order given.
    pub resize: Vec<(Arc<str>, i32)>,
    /// The other sets that are empty and go.
    pub delete: Vec<Arc<str>>,
}
