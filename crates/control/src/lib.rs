//! Controllers: each observes, decides, acts and records.

mod context;
mod fleet;
mod fleet_autoscaler;
mod gameserver;
mod gameserverset;
mod gates;
mod pod;
mod ports;
mod run;
mod settings;
mod stores;

pub use context::{Context, Queues};
pub use fleet_autoscaler::STABILIZATION_ANNOTATION;
pub use gates::{FeatureGates, GateError};
pub use pod::{HOST_PORTS_ANNOTATION, Pod};
pub use run::{Part, run};
pub use settings::{Settings, Sidecar};
pub use stores::Stores;
