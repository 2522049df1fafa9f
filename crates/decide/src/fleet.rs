//! How many game servers a fleet should have, which of them go first, and how its sets get there.

mod decision;
mod policy;
mod reconcile;
mod rollout;
mod view;

pub use decision::{Applied, Decision, Reason, Refusal, Size};
pub use policy::{Amount, Between, Buffer, Capacity, Link, Period, Policy, Reply, Schedule};
pub use reconcile::{Limits, Reconciliation, ServerSet};
pub use rollout::{Rollout, SetCounts, SetView, Update};
pub use view::{Aggregate, Autoscaler, Fleet, FleetStatus, Mode, Scheduling, Template};

use crate::gameserver::{GameServer, Occupancy};

/// What a decision about a fleet's size looks at.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// The fleet.
    pub fleet: &'a Fleet,
    /// Every server labelled with the fleet's name in its namespace, in any state.
    pub servers: &'a [GameServer],
    /// The load of the nodes, counted over the servers of every fleet and namespace.
    pub nodes: &'a Occupancy,
}
