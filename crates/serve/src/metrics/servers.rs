//! Metrics of game servers: how many are in each state, how long they stay in it, and how many run on each node.

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
pub(super) type CountKey = (String, String, String);
type Labels = [(&'static str, String); 3];

/// Metrics that are recorded as game servers change.
pub(super) struct ServerMetrics {
    counts: Mutex<BTreeMap<CountKey, i64>>,
    since: Mutex<HashMap<String, Instant>>,
    changes: Family<Labels, Counter>,
    allocations: Family<[(&'static str, String); 2], Counter>,
    state_duration: Family<Labels, Histogram, fn() -> Histogram>,
    per_node_count: Histogram,
}

impl std::fmt::Debug for ServerMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerMetrics")
    }
}

impl ServerMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let seconds: fn() -> Histogram =
            || Histogram::new(std::iter::once(0.0).chain((0..15).map(|n| f64::from(1 << n))));
        let new = Self {
            counts: Mutex::default(),
            since: Mutex::default(),
            changes: Family::default(),
            allocations: Family::default(),
            state_duration: Family::new_with_constructor(seconds),
            per_node_count: Histogram::new((0..=12).map(|n| f64::from(n * 10))),
        };
        registry.register("gameservers", "State changes of game servers", new.changes.clone());
        registry.register(
            "gameservers_allocations",
            "Game servers that became Allocated",
            new.allocations.clone(),
        );
        registry.register(
            "gameserver_state_duration",
            "Time that game servers stayed in a state, in seconds",
            new.state_duration.clone(),
        );
        registry.register(
            "gameservers_node_count",
            "Game servers per node",
            new.per_node_count.clone(),
        );
        new
    }

    /// Records a change of a game server.
    pub(super) fn record_change(
        &self,
        old: Option<&CachedGameServer>,
        new: Option<&CachedGameServer>,
    ) {
        let (before, after) = (old.map(count_key), new.map(count_key));
        if before == after {
            return;
        }
        let owned = |(state, fleet, namespace): (&str, &str, &str)| -> CountKey {
            (state.to_owned(), fleet.to_owned(), namespace.to_owned())
        };
        let (before, after) = (before.map(owned), after.map(owned));
        let uid = new.or(old).and_then(|server| server.object.metadata.uid.clone());
        let uid = uid.unwrap_or_default();
        if let Some(key) = before {
            self.add(&key, -1);
            let since = lock(&self.since).remove(&uid);
            if let Some(since) = since {
                let state_duration = since.elapsed().as_secs_f64();
                self.state_duration.get_or_create(&labels(&key)).observe(state_duration);
            }
        }
        if let Some(key) = after {
            self.add(&key, 1);
            self.changes.get_or_create(&labels(&key)).inc();
            lock(&self.since).insert(uid, Instant::now());
            if key.0 == "Allocated" {
                let (fleet, namespace) = (key.1, key.2);
                let labels = [("fleet_name", fleet), ("namespace", namespace)];
                self.allocations.get_or_create(&labels).inc();
            }
        }
    }

    /// Observes the number of game servers on each node.
    pub(super) fn observe_nodes(&self, caches: &Caches) {
        for count in per_node(caches).values() {
            self.per_node_count.observe(f64::from(*count));
        }
    }

    /// Returns how many servers there are, by state, fleet and namespace.
    pub(super) fn counts(&self) -> BTreeMap<CountKey, i64> {
        lock(&self.counts).clone()
    }

    fn add(&self, key: &CountKey, by: i64) {
        let mut counts = lock(&self.counts);
        let count = counts.entry(key.clone()).or_default();
        *count += by;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// Counts the game servers of every node, including nodes without any.
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
fn count_key(server: &CachedGameServer) -> (&str, &str, &str) {
    let object = &server.object;
    let labels = object.metadata.labels.as_ref();
    let fleet = labels.and_then(|labels| labels.get(FLEET_LABEL)).filter(|name| !name.is_empty());
    (
        // A server without a status yet is counted with an empty state, as it is stored.
        object.status.as_ref().filter(|_| !server.is_bare).map_or("", |status| &status.state),
        fleet.map_or("none", String::as_str),
        object.metadata.namespace.as_deref().unwrap_or_default(),
    )
}

fn labels((state, fleet, namespace): &CountKey) -> Labels {
    [("type", state.clone()), ("fleet_name", fleet.clone()), ("namespace", namespace.clone())]
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
