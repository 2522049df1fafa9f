//! Sizes fleets, orders deletions, and reconciles the sets of a fleet.

mod aggregate;
mod backoff;
mod buffer;
mod capacity;
mod decision;
mod demand;
mod order;
mod overflow;
mod policy;
mod reconcile;
mod rollout;
mod schedule;
mod sets;
mod size;
mod stabilization;
mod view;

pub use aggregate::{merge, status};
pub use decision::{Applied, FleetDecision, Reason, Refusal, Size};
pub use demand::{CountedServer, pods_to_come};
pub use order::deletion_order;
pub use overflow::overflow;
pub use policy::{Amount, Between, Buffer, Capacity, Link, Period, Policy, Reply, Schedule};
pub use reconcile::{Limits, Reconciliation, RetainedServer, ServerSet, reconcile, shutdown};
pub use rollout::{Rollout, SetCounts, SetView, Update, rollout};
pub use sets::{FleetSet, SetPlan, plan_sets};
pub use size::{FleetObservation, Replies, Sizing, size};
pub use stabilization::{History, stabilize};
pub use view::{Aggregate, Autoscaler, Fleet, FleetStatus, Mode, Scheduling, SetStatus, Template};

#[cfg(test)]
mod testing;
