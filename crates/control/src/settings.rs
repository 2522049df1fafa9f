//! The settings of the controllers.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use cluster::{DecisionSettings, LeaderElection};
use connect::providers::NodeGroupProvider;
use process::{Clock, Random, Supervisor};

use crate::gates::FeatureGates;
use crate::node_settings::NodeSettings;
use crate::nodes::NodeMetrics;

/// How the controllers are set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The host ports for game servers, by the name of the range; `default` is for ports that name no range.
    pub port_ranges: BTreeMap<String, RangeInclusive<u16>>,
    /// The SDK server beside each game server.
    pub sidecar: Sidecar,
    /// Agones' feature gates, from `FEATURE_GATES`.
    pub gates: FeatureGates,
    /// The most objects of a kind that are reconciled at a time.
    pub concurrency: usize,
    /// The most writes of one reconciliation that are in flight at a time.
    pub parallel_writes: usize,
    /// Resolves the names of Services through the API instead of DNS, on the embedded engine: of webhooks, metric sources and
    /// targets.
    pub resolves_services: bool,
    /// Leader election; `None`: this process is the only one.
    pub lease: Option<LeaderElection>,
    /// The journal of decisions.
    pub decisions: DecisionSettings,
    /// Runs the decision recorder.
    pub supervisor: Supervisor,
    /// Whether HorizontalPodAutoscalers act in this cluster, so that policies leave their targets to them.
    pub follows_hpas: bool,
    /// How often the policies of a service are evaluated.
    pub service_interval: Duration,
    /// The controller of nodes.
    pub nodes: NodeSettings,
    /// The namespace of Cluster Autoscaler's Lease and ConfigMaps: while another process renews the Lease, nodes are left alone.
    pub cluster_autoscaler_namespace: String,
    /// Providers of node groups in place of the built-in ones with the same names, for simulations and tests.
    pub node_providers: NodeProviders,
    /// The numbers of the node controller in this process.
    pub node_metrics: NodeMetrics,
    /// Where time comes from.
    pub clock: Clock,
    /// Where random numbers come from.
    pub random: Random,
}

/// Providers of node groups by name.
#[derive(Clone, Default)]
pub struct NodeProviders(pub BTreeMap<String, Arc<dyn NodeGroupProvider>>);

impl NodeProviders {
    /// Returns a provider.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<dyn NodeGroupProvider>> {
        self.0.get(name)
    }
}

impl fmt::Debug for NodeProviders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The container of the SDK server.
#[derive(Clone, Debug)]
pub struct Sidecar {
    /// Its image.
    pub image: String,
    /// Its first arguments.
    pub args: Vec<String>,
    /// The service account of pods that name none.
    pub service_account: String,
    /// How long it waits between two writes of one kind: `REQUESTS_RATE_LIMIT`.
    pub requests_rate_limit: String,
    /// `resources` of the container, as Kubernetes writes them; null for none.
    pub resources: serde_json::Value,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            port_ranges: BTreeMap::from([("default".to_owned(), 7000..=8000)]),
            sidecar: Sidecar::default(),
            gates: FeatureGates::default(),
            concurrency: 64,
            parallel_writes: 64,
            resolves_services: false,
            lease: None,
            decisions: DecisionSettings::default(),
            supervisor: Supervisor::default(),
            follows_hpas: true,
            service_interval: Duration::from_secs(10),
            nodes: NodeSettings::default(),
            cluster_autoscaler_namespace: "kube-system".to_owned(),
            node_providers: NodeProviders::default(),
            node_metrics: NodeMetrics::default(),
            clock: Clock::system(),
            random: Random::system(),
        }
    }
}

impl Default for Sidecar {
    fn default() -> Self {
        Self {
            image: "plimsoll.dev/sdk-server".to_owned(),
            args: vec!["sdk-server".to_owned()],
            service_account: "agones-sdk".to_owned(),
            requests_rate_limit: "500ms".to_owned(),
            resources: serde_json::Value::Null,
        }
    }
}
