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
mod node_index;
pub mod nodes;
mod ports;
mod run;
pub mod scaling_policy;
mod settings;

pub use context::{Context, Queues};
pub use fleet_autoscaler::STABILIZATION_ANNOTATION;
pub use gates::{FeatureGates, GateError};
pub use lister::{Lister, Unreadable};
pub use node_index::NodeIndex;
pub use run::{Part, required_kinds, run};
pub use settings::{Settings, Sidecar};
