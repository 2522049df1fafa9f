//! Controllers: each observes, decides, acts and records.

mod context;
mod error;
mod events;
mod fleet;
mod fleet_autoscaler;
mod gameserver;
mod gameserverset;
mod gates;
mod key;
mod lease;
mod lenient;
mod pod;
mod ports;
mod queue;
mod run;
mod settings;
mod store;
mod stores;
mod unreadable;
mod write;

pub use context::{Context, Queues};
pub use error::{Error, explain};
pub use events::{Events, Kind as EventKind};
pub use fleet_autoscaler::STABILIZATION_ANNOTATION;
pub use gates::{FeatureGates, GateError};
pub use key::Key;
pub use lease::claim_lease;
pub use lenient::Lenient;
pub use pod::{HOST_PORTS_ANNOTATION, Pod};
pub use queue::{Again, Queue};
pub use run::{Part, run};
pub use settings::{Lease, Settings, Sidecar};
pub use store::{Entry, Store};
pub use stores::{Server, Stores};
pub use unreadable::unreadable_objects;
