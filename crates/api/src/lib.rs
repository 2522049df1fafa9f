//! The kinds Plimsoll works with: their fields, defaults, validation and CRDs, and how they become what `decide` reads.
//!
//! Everything that comes from outside passes through [`Kind::admit`] once; nothing behind it checks again.

mod admit;
pub mod agones;
pub mod allocation;
pub mod autoscaling;
pub mod decode;
mod kind;
mod kinds;
mod labels;
pub mod multicluster;
pub mod nodes;
pub mod nomad;
pub mod plimsoll;
mod pod_log;
mod problem;
pub mod quantity;
mod schema;
mod unset;

pub use decide::duration;
pub use kind::{Admission, Kind, Scope};
pub use kinds::{KINDS, find};
pub use pod_log::PodLogOptions;
pub use problem::{CauseType, Problem, prefixed, refusal};
