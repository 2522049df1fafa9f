//! What happens to game servers: how many there are in each state, how long they stay, and where they are.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::agones::{FLEET_LABEL, GameServer};
use cluster::CacheEntry;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::Objects;

/// A game server, as far as it is counted.
pub(super) struct Server {
    meta: ObjectMeta,
    pub(super) state: String,
    pub(super) node: String,
    pub(super) fleet: String,
    pub(super) namespace: String,
}

/// A node, as far as it is counted.
#[derive(Clone, Debug, Default, Serialize, Deserialize, kube::Resource)]
#[resource(inherit = k8s_openapi::api::core::v1::Node)]
pub(super) struct Node {
    pub(super) metadata: ObjectMeta,
}

/// State, fleet and namespace.
pub(super) type Place = (String, String, String);
type Labels = [(&'static str, String); 3];

/// What is counted when it happens.
pub(super) struct Servers {
    counts: Mutex<BTreeMap<Place, i64>>,
    since: Mutex<HashMap<String, Instant>>,
    changes: Family<Labels, Counter>,
    allocations: Family<[(&'static str, String); 2], Counter>,
    stayed: Family<Labels, Histogram, fn() -> Histogram>,
    on_node: Histogram,
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Servers")
    }
}

impl Servers {
    pub(super) fn registered(registry: &mut Registry) -> Self {
        let seconds: fn() -> Histogram =
            || Histogram::new(std::iter::once(0.0).chain((0..15).map(|n| f64::from(1 << n))));
        let new = Self {
            counts: Mutex::default(),
            since: Mutex::default(),
            changes: Family::default(),
            allocations: Family::default(),
            stayed: Family::new_with_constructor(seconds),
            on_node: Histogram::new((0..=12).map(|n| f64::from(n * 10))),
        };
        registry.register("gameservers", "Changes of state", new.changes.clone());
        registry.register(
            "gameservers_allocations",
            "Game servers that became Allocated",
            new.allocations.clone(),
        );
        registry.register(
            "gameserver_state_duration",
            "How long game servers stayed in a state, in seconds",
            new.stayed.clone(),
        );
        registry.register(
            "gameservers_node_count",
            "How many game servers nodes have",
            new.on_node.clone(),
        );
        new
    }

    /// Counts a change.
    pub(super) fn changed(&self, old: Option<&Server>, new: Option<&Server>) {
        let (was, is) = (old.map(Server::place), new.map(Server::place));
        if was == is {
            return;
        }
        let uid = new.or(old).and_then(|server| server.meta.uid.clone()).unwrap_or_default();
        if let Some(place) = was {
            self.add(&place, -1);
            let since = lock(&self.since).remove(&uid);
            if let Some(since) = since {
                let stayed = since.elapsed().as_secs_f64();
                self.stayed.get_or_create(&labels(&place)).observe(stayed);
            }
        }
        if let Some(place) = is {
            self.add(&place, 1);
            self.changes.get_or_create(&labels(&place)).inc();
            lock(&self.since).insert(uid, Instant::now());
            if place.0 == "Allocated" {
                let (fleet, namespace) = (place.1, place.2);
                let labels = [("fleet_name", fleet), ("namespace", namespace)];
                self.allocations.get_or_create(&labels).inc();
            }
        }
    }

    /// Counts the servers on each node.
    pub(super) fn count_nodes(&self, objects: &Objects) {
        for count in per_node(objects).values() {
            self.on_node.observe(f64::from(*count));
        }
    }

    /// Gives how many servers there are, by state, fleet and namespace.
    pub(super) fn counts(&self) -> BTreeMap<Place, i64> {
        lock(&self.counts).clone()
    }

    fn add(&self, place: &Place, by: i64) {
        let mut counts = lock(&self.counts);
        let count = counts.entry(place.clone()).or_default();
        *count += by;
        if *count == 0 {
            counts.remove(place);
        }
    }
}

/// Counts the servers of every node, also of those without any.
pub(super) fn per_node(objects: &Objects) -> BTreeMap<String, u32> {
    let name = |node: &Node| (node.metadata.name.clone().unwrap_or_default(), 0);
    let mut nodes: BTreeMap<String, u32> =
        objects.nodes.all().iter().map(|node| name(node)).collect();
    for server in objects.servers.all() {
        if let Some(count) = nodes.get_mut(&server.node) {
            *count += 1;
        }
    }
    nodes
}

impl Server {
    fn place(&self) -> Place {
        (self.state.clone(), self.fleet.clone(), self.namespace.clone())
    }
}

fn labels((state, fleet, namespace): &Place) -> Labels {
    [("type", state.clone()), ("fleet_name", fleet.clone()), ("namespace", namespace.clone())]
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CacheEntry for Server {
    type Object = GameServer;

    fn from_object(object: GameServer) -> Self {
        let status = object.status.unwrap_or_default();
        let labels = object.metadata.labels.unwrap_or_default();
        let fleet = labels.get(FLEET_LABEL).filter(|name| !name.is_empty());
        Self {
            state: status.state,
            node: status.node_name,
            fleet: fleet.cloned().unwrap_or_else(|| "none".to_owned()),
            namespace: object.metadata.namespace.clone().unwrap_or_default(),
            meta: ObjectMeta {
                name: object.metadata.name,
                namespace: object.metadata.namespace,
                uid: object.metadata.uid,
                resource_version: object.metadata.resource_version,
                ..ObjectMeta::default()
            },
        }
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
}

impl CacheEntry for Node {
    type Object = Self;

    fn from_object(mut object: Self) -> Self {
        object.metadata.managed_fields = None;
        object
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}
