//! `/metrics` and `/health-check`, at the address of `--address`.

use std::sync::Arc;

use anyhow::Context as _;
use cluster::Caches;
use control::Settings;
use control::nodes::LivenessLimits;
use process::{Supervised, Supervisor};
use serve::metrics::Metrics;
use tokio::net::TcpListener;

/// Serves until the guard is dropped.
pub(super) async fn serve(
    address: &str,
    caches: &Arc<Caches>,
    settings: &Settings,
    limits: LivenessLimits,
    supervisor: &Supervisor,
) -> anyhow::Result<Supervised> {
    let listener = listen(address).await;
    let listener = listener
        .with_context(|| format!("--address: could not listen on {address}; is the port taken?"))?;
    tracing::info!(address = %listener.local_addr()?, "serving /metrics and /health-check");
    let (decisions, nodes) = (settings.decisions.counts.clone(), settings.node_metrics.clone());
    let metrics = Metrics::new(caches, decisions, nodes.clone());
    let health = serve::health::node_router(nodes, limits, settings.clock.clone());
    let router = metrics.router().merge(health);
    let serving = serve::listen::serve(listener, None, router, std::future::pending());
    Ok(supervisor.spawn_critical("metrics listener", serving))
}

/// Listens on an address as Go writes it: without a host, on every address of the machine.
async fn listen(address: &str) -> std::io::Result<TcpListener> {
    let Some(port) = address.strip_prefix(':') else { return TcpListener::bind(address).await };
    match TcpListener::bind(format!("[::]:{port}")).await {
        Ok(listener) => Ok(listener),
        // The machine may be without IPv6.
        Err(_) => TcpListener::bind(format!("0.0.0.0:{port}")).await,
    }
}
