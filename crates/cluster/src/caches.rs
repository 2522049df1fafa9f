//! The informer caches of a process, one for each kind, which controllers, allocator and metrics share.
//!
//! They follow their watches for as long as the process runs, whether it is the leader or not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::agones::{Fleet, GameServerSet};
use api::autoscaling::FleetAutoscaler;
use k8s_openapi::NamespaceResourceScope;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use process::{Random, Supervised, Supervisor};

use crate::{Cache, CachedGameServer, CachedNode, CachedPod};

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
        }
    }
}

impl Caches {
    /// Returns empty caches of one namespace, or of all. Game servers keep their JSON text if `keeps_text`, so that an allocator can replace
    /// them without losing fields that it does not know.
    pub fn new(namespace: Option<String>, keeps_text: bool) -> Arc<Self> {
        Arc::new(Self { namespace, servers: Cache::new(keeps_text), ..Self::default() })
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
            let (caches, kind) = (Arc::clone(self), *kind);
            let (client, random) = (client.clone(), random.clone());
            supervisor.spawn(format!("watch of kind {}", kind.name()), move || {
                let (caches, client, random) =
                    (Arc::clone(&caches), client.clone(), random.clone());
                async move { caches.run(kind, &client, &random).await }
            })
        };
        kinds.iter().map(follow).collect()
    }

    /// Waits until everything that exists of the kinds is known.
    pub async fn synced(&self, kinds: &BTreeSet<CachedKind>) {
        for kind in kinds {
            match kind {
                CachedKind::Fleet => self.fleets.synced().await,
                CachedKind::GameServerSet => self.sets.synced().await,
                CachedKind::GameServer => self.servers.synced().await,
                CachedKind::Pod => self.pods.synced().await,
                CachedKind::Node => self.nodes.synced().await,
                CachedKind::FleetAutoscaler => self.autoscalers.synced().await,
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
        ];
        let counts = counts.into_iter().filter(|(_, count)| *count > 0);
        counts.map(|(kind, count)| (kind.name(), count)).collect()
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
