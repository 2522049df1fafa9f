//! The informer caches of a process, one for each kind, which controllers, allocator and metrics share.
//!
//! They follow their watches for as long as the process runs, whether it is the leader or not.

mod nodes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::agones::{Fleet, GameServerSet};
use api::autoscaling::FleetAutoscaler;
use api::plimsoll::{AutoScalePolicy, MetricSource, ScalingPolicy};
use k8s_openapi::NamespaceResourceScope;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use process::{Random, Supervised, Supervisor};

use crate::{
    Cache, CachedGameServer, CachedNode, CachedPod, HorizontalPodAutoscaler, ScaledObject,
};

pub use nodes::NodeCaches;

/// How long the list of KEDA's objects is waited for, where KEDA may be missing.
const KEDA_WAIT: Duration = Duration::from_secs(1);
/// How long after KEDA was found to be missing its API is discovered again.
const KEDA_RETRY: Duration = Duration::from_secs(60);

/// A cache for each kind.
#[derive(Default)]
pub struct Caches {
    /// Fleets.
    pub fleets: Cache<Fleet>,
    /// Sets of game servers.
    pub sets: Cache<GameServerSet>,
    /// Game servers.
    pub servers: Cache<CachedGameServer>,
    /// The pods of game servers.
    pub pods: Cache<CachedPod>,
    /// Nodes.
    pub nodes: Cache<CachedNode>,
    /// Fleet autoscalers.
    pub autoscalers: Cache<FleetAutoscaler>,
    /// Scaling policies.
    pub policies: Cache<ScalingPolicy>,
    /// Policies of services.
    pub service_policies: Cache<AutoScalePolicy>,
    /// Metric sources.
    pub sources: Cache<MetricSource>,
    /// Kubernetes' own autoscalers.
    pub hpas: Cache<HorizontalPodAutoscaler>,
    /// KEDA's autoscalers.
    pub scaled_objects: Cache<ScaledObject>,
    /// Everything that decisions about nodes depend on, in all namespaces.
    pub node_scaling: NodeCaches,
    /// The only namespace that is followed; `None`: all.
    namespace: Option<String>,
}

/// A kind that can be followed. Each user of the caches names those it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CachedKind {
    /// Fleets.
    Fleet,
    /// Sets of game servers.
    GameServerSet,
    /// Game servers.
    GameServer,
    /// The pods of game servers.
    Pod,
    /// Nodes.
    Node,
    /// Fleet autoscalers.
    FleetAutoscaler,
    /// Scaling policies.
    ScalingPolicy,
    /// Policies of services.
    AutoScalePolicy,
    /// Metric sources.
    MetricSource,
    /// Kubernetes' own autoscalers.
    HorizontalPodAutoscaler,
    /// KEDA's autoscalers.
    ScaledObject,
    /// All kinds that decisions about nodes depend on: NodeAutoscalers at once, everything else from the first one on.
    NodeScaling,
    /// The same without Plimsoll's own kinds, for settings that are not objects.
    NodeScalingInputs,
}

impl CachedKind {
    fn name(self) -> &'static str {
        match self {
            Self::Fleet => "Fleet",
            Self::GameServerSet => "GameServerSet",
            Self::GameServer => "GameServer",
            Self::Pod => "Pod",
            Self::Node => "Node",
            Self::FleetAutoscaler => "FleetAutoscaler",
            Self::ScalingPolicy => "ScalingPolicy",
            Self::AutoScalePolicy => "AutoScalePolicy",
            Self::MetricSource => "MetricSource",
            Self::HorizontalPodAutoscaler => "HorizontalPodAutoscaler",
            Self::ScaledObject => "ScaledObject",
            Self::NodeScaling => "NodeAutoscaler",
            Self::NodeScalingInputs => "Node",
        }
    }
}

impl Caches {
    /// Returns empty caches of one namespace, or of all. Game servers keep their JSON text if `keeps_text`, so that an allocator can replace
    /// them without losing fields that it does not know.
    pub fn new(namespace: Option<String>, keeps_text: bool) -> Arc<Self> {
        Arc::new(Self { namespace, servers: Cache::new(keeps_text), ..Self::default() })
    }

    /// Returns the only namespace that is followed; `None`: all.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Follows the kinds, each in a supervised task that ends when its guard is dropped.
    pub fn follow(
        self: &Arc<Self>,
        client: &Client,
        kinds: &BTreeSet<CachedKind>,
        random: &Random,
        supervisor: &Supervisor,
    ) -> Vec<Supervised> {
        let follow = |kind: &CachedKind| {
            if let CachedKind::NodeScaling | CachedKind::NodeScalingInputs = kind {
                let has_objects = *kind == CachedKind::NodeScaling;
                return NodeCaches::follow(self, client, random, supervisor, has_objects);
            }
            let (caches, kind) = (Arc::clone(self), *kind);
            let (client, random) = (client.clone(), random.clone());
            vec![supervisor.spawn(format!("watch of kind {}", kind.name()), move || {
                let (caches, client, random) =
                    (Arc::clone(&caches), client.clone(), random.clone());
                async move { caches.run(kind, &client, &random).await }
            })]
        };
        kinds.iter().flat_map(follow).collect()
    }

    /// Waits until everything that exists of the kinds is known.
    pub async fn synced(&self, kinds: &BTreeSet<CachedKind>) {
        for kind in kinds {
            match kind {
                CachedKind::ScalingPolicy => self.policies.synced().await,
                CachedKind::AutoScalePolicy => self.service_policies.synced().await,
                CachedKind::MetricSource => self.sources.synced().await,
                CachedKind::HorizontalPodAutoscaler => self.hpas.synced_or_failed().await,
                // Most clusters are without KEDA.
                CachedKind::ScaledObject => {
                    let synced = self.scaled_objects.synced();
                    drop(tokio::time::timeout(KEDA_WAIT, synced).await);
                }
                CachedKind::Fleet => self.fleets.synced().await,
                CachedKind::GameServerSet => self.sets.synced().await,
                CachedKind::GameServer => self.servers.synced().await,
                CachedKind::Pod => self.pods.synced().await,
                CachedKind::Node => self.nodes.synced().await,
                CachedKind::FleetAutoscaler => self.autoscalers.synced().await,
                CachedKind::NodeScaling => self.node_scaling.synced().await,
                CachedKind::NodeScalingInputs => self.node_scaling.inputs_synced().await,
            }
        }
    }

    /// Returns how many objects of each kind are skipped because they cannot be decoded; a kind without any has no entry.
    pub fn unreadable(&self) -> BTreeMap<&'static str, usize> {
        let counts = [
            (CachedKind::Fleet, self.fleets.unreadable()),
            (CachedKind::GameServerSet, self.sets.unreadable()),
            (CachedKind::GameServer, self.servers.unreadable()),
            (CachedKind::Pod, self.pods.unreadable()),
            (CachedKind::Node, self.nodes.unreadable()),
            (CachedKind::FleetAutoscaler, self.autoscalers.unreadable()),
            (CachedKind::ScalingPolicy, self.policies.unreadable()),
            (CachedKind::AutoScalePolicy, self.service_policies.unreadable()),
            (CachedKind::MetricSource, self.sources.unreadable()),
            (CachedKind::HorizontalPodAutoscaler, self.hpas.unreadable()),
            (CachedKind::ScaledObject, self.scaled_objects.unreadable()),
        ];
        let counts = counts.into_iter().filter(|(_, count)| *count > 0);
        let mut counts = counts.map(|(kind, count)| (kind.name(), count)).collect();
        self.node_scaling.add_unreadable(&mut counts);
        counts
    }

    async fn run(&self, kind: CachedKind, client: &Client, random: &Random) {
        let config = watcher::Config::default();
        match kind {
            CachedKind::Fleet => self.fleets.run(self.api(client), config, random).await,
            CachedKind::GameServerSet => self.sets.run(self.api(client), config, random).await,
            CachedKind::GameServer => self.servers.run(self.api(client), config, random).await,
            CachedKind::Pod => {
                let config = config.labels("agones.dev/role=gameserver");
                self.pods.run(self.api(client), config, random).await;
            }
            CachedKind::Node => {
                self.nodes.run(Api::all(client.clone()), config, random).await;
            }
            CachedKind::FleetAutoscaler => {
                self.autoscalers.run(self.api(client), config, random).await;
            }
            CachedKind::ScalingPolicy => self.policies.run(self.api(client), config, random).await,
            CachedKind::AutoScalePolicy => {
                self.service_policies.run(self.api(client), config, random).await;
            }
            CachedKind::MetricSource => {
                self.sources.run(Api::all(client.clone()), config, random).await;
            }
            CachedKind::HorizontalPodAutoscaler => {
                self.hpas.run(self.api(client), config, random).await;
            }
            CachedKind::ScaledObject => {
                while client.list_api_group_resources("keda.sh/v1alpha1").await.is_err() {
                    tokio::time::sleep(KEDA_RETRY).await;
                }
                self.scaled_objects.run(self.api(client), config, random).await;
            }
            // They have a task for each kind.
            CachedKind::NodeScaling | CachedKind::NodeScalingInputs => {}
        }
    }

    fn api<K>(&self, client: &Client) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        match &self.namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        }
    }
}
