//! `/metrics`: the metrics for Prometheus, under Agones' names and ours.
//!
//! Everything comes from the shared caches: changes are counted when they happen, and gauges are read at the scrape.

mod allocation;
mod gauges;
mod nodes;
mod policies;
mod servers;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use cluster::{CachedKind, Caches, DecisionCounts, Subscription};
use control::nodes::NodeMetrics;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

pub use allocation::{AllocationMetrics, AllocationSample};
use gauges::{DecisionReasons, Gauges, RecordedDecisions, UnreadableObjects};
use nodes::NodeNumbersCollector;
use policies::PolicyGauges;
use servers::ServerMetrics;

/// The interval at which game servers per node are observed into the histogram, as in Agones.
const NODE_COUNT_INTERVAL: Duration = Duration::from_secs(15);
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The kinds that metrics need in the caches.
pub const REQUIRED_KINDS: [CachedKind; 4] =
    [CachedKind::Fleet, CachedKind::GameServer, CachedKind::Node, CachedKind::FleetAutoscaler];

/// The metrics registry and the collectors that fill it.
pub struct Metrics {
    registry: Registry,
    caches: Arc<Caches>,
    servers: Arc<ServerMetrics>,
    allocation: AllocationMetrics,
    _subscription: Subscription,
}

impl Metrics {
    /// Subscribes to the caches, which have to follow [`REQUIRED_KINDS`], and records their changes. `decisions` are the counters of the
    /// decision recorder in this process, and `nodes` the numbers of its node controller.
    pub fn new(caches: &Arc<Caches>, decisions: DecisionCounts, nodes: NodeMetrics) -> Arc<Self> {
        let mut registry = Registry::default();
        let agones = registry.sub_registry_with_prefix("agones");
        let allocation = AllocationMetrics::register(agones);
        let servers = Arc::new(ServerMetrics::register(agones));
        let gauges = Gauges { caches: Arc::clone(caches), servers: Arc::clone(&servers) };
        agones.register_collector(Box::new(gauges));
        let ours = registry.sub_registry_with_prefix("plimsoll");
        ours.register_collector(Box::new(DecisionReasons(Arc::clone(caches))));
        ours.register_collector(Box::new(UnreadableObjects(Arc::clone(caches))));
        ours.register_collector(Box::new(RecordedDecisions(decisions)));
        ours.register_collector(Box::new(PolicyGauges(Arc::clone(caches))));
        registry.register_collector(Box::new(NodeNumbersCollector(nodes)));
        let counting = Arc::clone(&servers);
        let subscription = caches.servers.subscribe(move |old, new| {
            counting.record_change(old.map(Arc::as_ref), new.map(Arc::as_ref));
        });
        let caches = Arc::clone(caches);
        Arc::new(Self { registry, caches, servers, allocation, _subscription: subscription })
    }

    /// Returns the handle by which an allocator records how long allocations took.
    pub fn allocation(&self) -> AllocationMetrics {
        self.allocation.clone()
    }

    /// Observes the number of game servers per node at an interval, for as long as it is polled.
    pub async fn run(&self) {
        loop {
            tokio::time::sleep(NODE_COUNT_INTERVAL).await;
            self.servers.observe_nodes(&self.caches);
        }
    }

    /// Returns all metrics in the text format.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// Returns the routes that Prometheus scrapes.
    pub fn router(self: &Arc<Self>) -> Router {
        let metrics = Arc::clone(self);
        scraped(move || metrics.text())
    }
}

/// Returns the routes that Prometheus scrapes where nothing but the node controller runs.
pub fn node_router(nodes: NodeMetrics) -> Router {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(NodeNumbersCollector(nodes)));
    let registry = Arc::new(registry);
    scraped(move || {
        let mut text = String::new();
        encode(&mut text, &registry).map(|()| text)
    })
}

fn scraped(
    text: impl Fn() -> Result<String, std::fmt::Error> + Clone + Send + Sync + 'static,
) -> Router {
    let scrape = move || {
        let text = text();
        async move {
            let failed = (StatusCode::INTERNAL_SERVER_ERROR, "could not encode the metrics");
            text.map(|text| ([(header::CONTENT_TYPE, CONTENT_TYPE)], text)).map_err(|_| failed)
        }
    };
    Router::new().route("/metrics", get(scrape))
}
