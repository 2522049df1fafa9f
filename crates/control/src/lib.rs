//! Controllers: each observes, decides, acts and records.

pub mod autoscale_policy;
mod context;
pub mod fleet;
pub mod fleet_autoscaler;
mod gameserver;
mod gameserverset;
mod gates;
mod lister;
pub mod metrics;
pub mod nodes;
mod pod;
mod ports;
mod run;
pub mod scaling_policy;
mod settings;
mod stores;

pub use context::{Context, Queues};
pub use fleet_autoscaler::STABILIZATION_ANNOTATION;
pub use gates::{FeatureGates, GateError};
pub use lister::{Lister, Unreadable};
pub use pod::{HOST_PORTS_ANNOTATION, Pod};
pub use run::{Part, run};
pub use settings::{Settings, Sidecar};
pub use stores::Stores;
