//! `/metrics`: the metrics for Prometheus, under Agones' names and ours.
//!
//! Everything comes from the shared caches: changes are counted when they happen, and gauges are read at the scrape.

mod allocation;
mod gauges;
mod servers;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use cluster::{CachedKind, Caches, Subscription};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

pub use allocation::{Allocated, Allocation};
use gauges::{Gauges, Reasons, Unreadable};
use servers::Servers;

/// How often the servers of each node are counted into the histogram, as upstream does.
const COUNT_EVERY: Duration = Duration::from_secs(15);
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The kinds that metrics need in the caches.
pub const REQUIRED_KINDS: [CachedKind; 4] =
    [CachedKind::Fleet, CachedKind::GameServer, CachedKind::Node, CachedKind::FleetAutoscaler];

/// Everything that is measured.
pub struct Metrics {
    registry: Registry,
    caches: Arc<Caches>,
    servers: Arc<Servers>,
    allocation: Allocation,
    _subscription: Subscription,
}

impl Metrics {
    /// Subscribes to the caches, which have to follow [`REQUIRED_KINDS`], and counts what they have.
    pub fn new(caches: &Arc<Caches>) -> Arc<Self> {
        let mut registry = Registry::default();
        let agones = registry.sub_registry_with_prefix("agones");
        let allocation = Allocation::registered(agones);
        let servers = Arc::new(Servers::registered(agones));
        let gauges = Gauges { caches: Arc::clone(caches), servers: Arc::clone(&servers) };
        agones.register_collector(Box::new(gauges));
        let ours = registry.sub_registry_with_prefix("plimsoll");
        ours.register_collector(Box::new(Reasons(Arc::clone(caches))));
        ours.register_collector(Box::new(Unreadable(Arc::clone(caches))));
        let counting = Arc::clone(&servers);
        let subscription = caches.servers.subscribe(move |old, new| {
            counting.changed(old.map(Arc::as_ref), new.map(Arc::as_ref));
        });
        let caches = Arc::clone(caches);
        Arc::new(Self { registry, caches, servers, allocation, _subscription: subscription })
    }

    /// Returns the handle by which an allocator records how long allocations took.
    pub fn allocation(&self) -> Allocation {
        self.allocation.clone()
    }

    /// Counts the game servers of nodes from time to time, for as long as it is polled.
    pub async fn run(&self) {
        loop {
            tokio::time::sleep(COUNT_EVERY).await;
            self.servers.count_nodes(&self.caches);
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
        let answer = move || {
            let text = metrics.text();
            async move {
                let failed = (StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written");
                text.map(|text| ([(header::CONTENT_TYPE, CONTENT_TYPE)], text)).map_err(|_| failed)
            }
        };
        Router::new().route("/metrics", get(answer))
    }
}
