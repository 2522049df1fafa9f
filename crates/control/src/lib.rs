//! Controllers: each observes, decides, acts and records.

pub mod autoscale_policy;
mod conditions;
mod context;
mod description;
pub mod endpoints;
pub mod fleet;
pub mod fleet_autoscaler;
mod gameserver;
mod gameserverset;
mod gates;
mod inputs;
mod lister;
pub mod metrics;
mod node_index;
mod node_settings;
pub mod nodes;
mod ports;
mod run;
pub mod scaling_policy;
mod settings;
mod sources;
mod targets;
mod workload;
mod writes;

pub use context::{Context, Queues};
pub use description::{Description, ObjectName};
pub use fleet_autoscaler::STABILIZATION_ANNOTATION;
pub use gates::{FeatureGates, GateError};
pub use inputs::{HISTORY_ANNOTATION, OCCUPANCY_ANNOTATION, read_history, read_occupancy};
pub use lister::{Lister, Unreadable};
pub use node_index::NodeIndex;
pub use run::{Part, required_kinds, run};
pub use settings::{NodeProviders, Settings, Sidecar};
