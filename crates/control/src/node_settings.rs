//! How the controller of nodes is set up, and its settings as values: for a command whose settings are flags, on a cluster that need not
//! know Plimsoll's own kinds.
//!
//! With values nothing of `plimsoll.dev` is read or written: the state from earlier evaluations is in memory, and what is seen from
//! outside are taints, events, the Lease and the status ConfigMap.
//!
//! ```no_run
//! # use std::{collections::BTreeSet, sync::Arc};
//! # use cluster::{CachedKind, Caches, LeaderElection};
//! # use plimsoll_control::{Part, Settings, nodes::{NodeSettings, NodeSource, NodeValues}, run};
//! # async fn example(client: kube::Client, values: NodeValues, identity: String) {
//! let lease = LeaderElection::new("kube-system", identity);
//! let nodes = NodeSettings { source: NodeSource::Values(Arc::new(values)), ..NodeSettings::default() };
//! let settings = Settings {
//!     nodes,
//!     lease: Some(LeaderElection { name: "cluster-autoscaler".to_owned(), ..lease }),
//!     cluster_autoscaler_namespace: "kube-system".to_owned(),
//!     ..Settings::default()
//! };
//! let (caches, kinds) = (Caches::new(None, false), BTreeSet::from([CachedKind::NodeScalingInputs]));
//! let _following = caches.follow(&client, &kinds, &settings.random, &settings.supervisor);
//! run(client, caches, settings, &[Part::Nodes], std::future::pending()).await;
//! # }
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::plimsoll::node_autoscaler::NodeAutoscalerSpec;
use serde_json::Value;

/// How the controller of nodes is set up.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// Where the autoscaler and its groups come from.
    pub source: NodeSource,
    /// The longest time between two evaluations.
    pub longest_pause: Duration,
    /// The name of the status ConfigMap, in the namespace of Cluster Autoscaler's Lease; `None`: it is not written.
    pub status_map: Option<String>,
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self {
            source: NodeSource::Objects,
            longest_pause: Duration::from_secs(10),
            status_map: Some("cluster-autoscaler-status".to_owned()),
        }
    }
}

/// Where the autoscaler and its groups come from.
#[derive(Clone, Debug, Default)]
pub enum NodeSource {
    /// NodeAutoscaler and NodeGroup objects. Their state is in their status, decisions are recorded, and nothing is done while another
    /// process renews Cluster Autoscaler's Lease.
    #[default]
    Objects,
    /// Values. The caches must follow `CachedKind::NodeScalingInputs`; the Lease is that of the settings.
    Values(Arc<NodeValues>),
}

/// The autoscaler and its groups as values.
#[derive(Clone, Debug, Default)]
pub struct NodeValues {
    /// The settings. Its `providers` are not read: `connections` are in their place.
    pub autoscaler: NodeAutoscalerSpec,
    /// The settings of the connection to each provider by its name, as the provider reads them. Every group that a provider lists is
    /// scaled between the bounds that it reports.
    pub connections: BTreeMap<String, Value>,
    /// The settings of the connection to the process that the expander `grpc` asks.
    pub expander: Option<Value>,
    /// The groups that are named, with bounds of their own.
    pub groups: Vec<GroupValue>,
    /// The ConfigMap with the priorities of groups for the expander `priority`, in the namespace of Cluster Autoscaler's Lease: it is read
    /// at each evaluation that needs it. `None`: all groups have the same priority.
    pub priority_map: Option<String>,
}

/// A group with bounds of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupValue {
    /// The name of its provider, which `NodeValues::connections` has.
    pub provider: String,
    /// The id of the group at its provider. It is also the name of the group.
    pub id: String,
    /// The fewest nodes.
    pub min: u32,
    /// The most nodes.
    pub max: u32,
}
