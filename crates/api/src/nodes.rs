//! Converts the objects of a cluster, as `kubectl get -o yaml` prints them, into what decisions about nodes read.
//!
//! Kubernetes' own objects are checked by the API server, and cannot fail here; Cluster Autoscaler's annotations count
//! as not there where they cannot be read, as with Cluster Autoscaler. Objects from elsewhere pass [`check`] first, which says
//! what is wrong with them.

mod check;
mod cluster;
mod constraints;
mod daemon;
mod group;
mod node;
mod pod;
mod preferences;
mod readable;
mod requests;
mod selectors;
mod settings;
mod volumes;

pub use check::check;
pub use cluster::ClusterObjects;
pub use daemon::{daemon_node, daemon_placement};
pub use group::{annotation_problems, group};
pub use node::node;
pub use pod::{Pods, Volumes, pod};
pub use preferences::{Preferences, preferences};
pub use settings::{settings, status};
