//! Controllers: each observes, decides, acts and records.

mod context;
mod fleet;
mod fleet_autoscaler;
mod gameserver;
mod gameserverset;
mod gates;
mod node_index;
mod ports;
mod run;
mod settings;

pub use context::{Context, Queues};
pub use fleet_autoscaler::STABILIZATION_ANNOTATION;
pub use gates::{FeatureGates, GateError};
pub use node_index::NodeIndex;
pub use run::{Part, required_kinds, run};
pub use settings::{Settings, Sidecar};
