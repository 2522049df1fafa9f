//! Everything that the controllers look at.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::agones::{Fleet, GameServerSet};
use cluster::{Cache, CacheEntry, CachedGameServer, Key};
use decide::gameserver::Occupancy;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Node, NodeAddress};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use process::Random;
use serde::{Deserialize, Serialize};

use crate::pod::Pod;

/// A store for each kind.
#[derive(Default)]
pub struct Stores {
    /// Fleets.
    pub fleets: Cache<Fleet>,
    /// Sets of game servers.
    pub sets: Cache<GameServerSet>,
    /// Game servers.
    pub servers: Cache<CachedGameServer>,
    /// The pods of game servers.
    pub pods: Cache<Pod>,
    /// Nodes.
    pub nodes: Cache<Host>,
    occupancy: Arc<Mutex<Occupancy>>,
    on_node: Arc<Mutex<HashMap<String, std::collections::BTreeSet<Key>>>>,
}

/// A node, as far as addresses are concerned.
#[derive(Clone, Debug, Default, Serialize, Deserialize, kube::Resource)]
#[resource(inherit = Node)]
pub struct Host {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// What it should be.
    #[serde(default)]
    pub spec: HostSpec,
    /// What it is.
    #[serde(default)]
    pub status: HostStatus,
}

/// What a node should be.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HostSpec {
    /// Whether pods are kept away.
    pub unschedulable: bool,
}

/// What a node is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HostStatus {
    /// Its addresses.
    pub addresses: Vec<NodeAddress>,
}

impl Stores {
    /// Makes empty stores that keep count of what is on which node.
    pub fn new() -> Self {
        let stores = Self::default();
        let occupancy = Arc::clone(&stores.occupancy);
        stores.servers.subscribe(move |old, new| {
            let mut occupancy = occupancy.lock().unwrap_or_else(PoisonError::into_inner);
            old.inspect(|server| occupancy.remove(&server.view));
            new.inspect(|server| occupancy.add(&server.view));
        });
        let occupancy = Arc::clone(&stores.occupancy);
        stores.nodes.subscribe(move |old, new| {
            if let (Some(old), None) = (old, new) {
                let name = old.metadata.name.as_deref().unwrap_or_default();
                occupancy.lock().unwrap_or_else(PoisonError::into_inner).forget(name);
            }
        });
        let on_node = Arc::clone(&stores.on_node);
        stores.pods.subscribe(move |old, new| {
            let mut on_node = on_node.lock().unwrap_or_else(PoisonError::into_inner);
            let place =
                |pod: &Arc<Pod>| Some((pod.spec.node_name.clone()?, Key::from_meta(&pod.metadata)));
            if let Some((node, key)) = old.and_then(place)
                && let Some(there) = on_node.get_mut(&node)
            {
                there.remove(&key);
                if there.is_empty() {
                    on_node.remove(&node);
                }
            }
            if let Some((node, key)) = new.and_then(place) {
                on_node.entry(node).or_default().insert(key);
            }
        });
        stores
    }

    /// How busy each node is.
    pub fn occupancy(&self) -> MutexGuard<'_, Occupancy> {
        self.occupancy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names the pods, and with them the game servers, on a node.
    pub fn on_node(&self, node: &str) -> Vec<Key> {
        let on_node = self.on_node.lock().unwrap_or_else(PoisonError::into_inner);
        on_node.get(node).into_iter().flatten().cloned().collect()
    }

    /// Follows every kind for as long as it is polled; ends when one of the watches does, which none should.
    pub async fn run(&self, client: &Client, namespace: Option<&str>, random: &Random) {
        let config = watcher::Config::default;
        let pods = config().labels("agones.dev/role=gameserver");
        tokio::select! {
            () = self.fleets.run(scoped(client, namespace), config(), random) => {}
            () = self.sets.run(scoped(client, namespace), config(), random) => {}
            () = self.servers.run(scoped(client, namespace), config(), random) => {}
            () = self.pods.run(scoped(client, namespace), pods, random) => {}
            () = self.nodes.run(Api::all(client.clone()), config(), random) => {}
        }
    }

    /// Waits until everything that is there is known.
    pub async fn synced(&self) {
        self.fleets.synced().await;
        self.sets.synced().await;
        self.servers.synced().await;
        self.pods.synced().await;
        self.nodes.synced().await;
    }
}

/// Reaches the objects of a kind in one namespace, or in all.
pub(crate) fn scoped<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

impl CacheEntry for Host {
    type Object = Self;

    fn from_object(mut object: Self) -> Self {
        object.metadata.managed_fields = None;
        object
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}
