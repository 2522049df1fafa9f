//! Metrics of game servers: how many are in each state, how long they stay in it, and how many each node has.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::agones::FLEET_LABEL;
use cluster::{CachedGameServer, CachedNode, Caches};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

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
    pub(super) fn changed(&self, old: Option<&CachedGameServer>, new: Option<&CachedGameServer>) {
        let (was, is) = (old.map(labelled), new.map(labelled));
        if was == is {
            return;
        }
        let owned = |(state, fleet, namespace): (&str, &str, &str)| -> Place {
            (state.to_owned(), fleet.to_owned(), namespace.to_owned())
        };
        let (was, is) = (was.map(owned), is.map(owned));
        let uid = new.or(old).and_then(|server| server.object.metadata.uid.clone());
        let uid = uid.unwrap_or_default();
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
    pub(super) fn count_nodes(&self, caches: &Caches) {
        for count in per_node(caches).values() {
            self.on_node.observe(f64::from(*count));
        }
    }

    /// Returns how many servers there are, by state, fleet and namespace.
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
pub(super) fn per_node(caches: &Caches) -> BTreeMap<String, u32> {
    let name = |node: &CachedNode| (node.metadata.name.clone().unwrap_or_default(), 0);
    let mut nodes: BTreeMap<String, u32> =
        caches.nodes.all().iter().map(|node| name(node)).collect();
    for server in caches.servers.all() {
        if let Some(count) = nodes.get_mut(&*server.view.node) {
            *count += 1;
        }
    }
    nodes
}

/// Returns the state, fleet and namespace that a server is counted under.
fn labelled(server: &CachedGameServer) -> (&str, &str, &str) {
    let object = &server.object;
    let labels = object.metadata.labels.as_ref();
    let fleet = labels.and_then(|labels| labels.get(FLEET_LABEL)).filter(|name| !name.is_empty());
    (
        // A server without a status yet is counted as it is stored.
        object.status.as_ref().filter(|_| !server.is_bare).map_or("", |status| &status.state),
        fleet.map_or("none", String::as_str),
        object.metadata.namespace.as_deref().unwrap_or_default(),
    )
}

fn labels((state, fleet, namespace): &Place) -> Labels {
    [("type", state.clone()), ("fleet_name", fleet.clone()), ("namespace", namespace.clone())]
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
