//! `/metrics`: what Prometheus sees, under Agones' names and ours.
//!
//! Everything comes from watches: what changes is counted when it changes, and what merely is so is read off at the scrape.

mod allocation;
mod gauges;
mod servers;

use std::sync::Arc;
use std::time::Duration;

use api::agones::Fleet;
use api::autoscaling::FleetAutoscaler;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use cluster::Cache;
use kube::runtime::watcher;
use kube::{Api, Client};
use process::Random;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

pub use allocation::{Allocated, Allocation};
use gauges::{Gauges, Reasons, Unreadable};
use servers::{Node, Server, Servers};

/// How often the servers of each node are counted into the histogram, as upstream does.
const COUNT_EVERY: Duration = Duration::from_secs(15);
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything that is measured.
pub struct Metrics {
    registry: Registry,
    objects: Arc<Objects>,
    servers: Arc<Servers>,
    allocation: Allocation,
}

/// What is there.
#[derive(Default)]
struct Objects {
    fleets: Cache<Fleet>,
    autoscalers: Cache<FleetAutoscaler>,
    servers: Cache<Server>,
    nodes: Cache<Node>,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Objects")
    }
}

impl Metrics {
    /// Starts with nothing counted.
    pub fn new() -> Arc<Self> {
        let objects = Arc::new(Objects::default());
        let mut registry = Registry::default();
        let agones = registry.sub_registry_with_prefix("agones");
        let allocation = Allocation::registered(agones);
        let servers = Arc::new(Servers::registered(agones));
        let gauges = (Arc::clone(&objects), Arc::clone(&servers));
        agones.register_collector(Box::new(Gauges { objects: gauges.0, servers: gauges.1 }));
        let ours = registry.sub_registry_with_prefix("plimsoll");
        ours.register_collector(Box::new(Reasons(Arc::clone(&objects))));
        ours.register_collector(Box::new(Unreadable));
        let counting = Arc::clone(&servers);
        objects.servers.subscribe(move |old, new| {
            counting.changed(old.map(Arc::as_ref), new.map(Arc::as_ref));
        });
        Arc::new(Self { registry, objects, servers, allocation })
    }

    /// Gives the handle by which an allocator tells how long it took.
    pub fn allocation(&self) -> Allocation {
        self.allocation.clone()
    }

    /// Follows everything that is measured, for as long as it is polled.
    pub async fn follow(&self, client: &Client) {
        let (config, random) = (watcher::Config::default, Random::system());
        let objects = &self.objects;
        let counting = async {
            loop {
                tokio::time::sleep(COUNT_EVERY).await;
                self.servers.count_nodes(objects);
            }
        };
        tokio::join!(
            objects.fleets.run(Api::all(client.clone()), config(), &random),
            objects.autoscalers.run(Api::all(client.clone()), config(), &random),
            objects.servers.run(Api::all(client.clone()), config(), &random),
            objects.nodes.run(Api::all(client.clone()), config(), &random),
            counting,
        );
    }

    /// Writes everything down.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// Gives the service that Prometheus asks.
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
