//! Turns the objects of a cluster, as `kubectl get -o yaml` prints them, into what decisions about nodes read.
//!
//! Every function here takes what an API server lets through and cannot fail: what does not read as it should counts as
//! not there. Objects from elsewhere pass [`check`] first, which says what is wrong with them.

mod check;
mod constraints;
mod group;
mod node;
mod objects;
mod pod;
mod preferences;
mod requests;
mod selectors;
mod settings;
mod volumes;

pub use check::check;
pub(crate) use group::annotation_problems;
pub use group::group;
pub use node::node;
pub use objects::Objects;
pub use pod::{Pods, Volumes, pod};
pub use preferences::{Preferences, preferences};
pub use settings::{settings, status};
