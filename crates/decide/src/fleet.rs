//! How many game servers a fleet should have, which of them go first, and how its sets get there.

mod aggregate;
mod backoff;
mod buffer;
mod capacity;
mod decision;
mod order;
mod overflow;
mod policy;
mod reconcile;
mod rollout;
mod schedule;
mod sets;
mod settle;
mod size;
mod view;

pub use aggregate::{merge, status};
pub use decision::{Applied, Decision, Reason, Refusal, Size};
pub use order::deletion_order;
pub use overflow::overflow;
pub use policy::{Amount, Between, Buffer, Capacity, Link, Period, Policy, Reply, Schedule};
pub use reconcile::{Kept, Limits, Reconciliation, ServerSet, reconcile, shutdown};
pub use rollout::{Rollout, SetCounts, SetView, Update, rollout};
pub use sets::{FleetSet, SetPlan, plan_sets};
pub use settle::{History, settle};
pub use size::{Observation, Replies, Sizing, size};
pub use view::{Aggregate, Autoscaler, Fleet, FleetStatus, Mode, Scheduling, SetStatus, Template};

#[cfg(test)]
mod testing;
