//! `autoscaling.agones.dev/v1`: what sizes a fleet.

mod address;
mod dialect;
mod fleetautoscaler;
mod parse;
mod policy;
mod review;
mod schedule;
mod view;
mod webhook;

pub use fleetautoscaler::{
    FixedInterval, FleetAutoscaler, FleetAutoscalerSpec, FleetAutoscalerStatus, Sync, SyncType,
};
pub use policy::{BufferPolicy, CapacityPolicy, ChainEntry, Policy, PolicyType};
pub use review::{FleetAutoscaleRequest, FleetAutoscaleResponse, FleetAutoscaleReview};
pub use schedule::{ActivePeriod, Between, SchedulePolicy};
pub use webhook::{ServiceReference, WasmPolicy, WasmSource, WebhookConfig};

pub(crate) use fleetautoscaler::KIND as FLEET_AUTOSCALER;
