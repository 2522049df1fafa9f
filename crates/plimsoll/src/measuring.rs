//! Serves `/metrics`, and lets the allocator's figures into them.

use std::net::SocketAddr;
use std::sync::Arc;

use kube::Client;
use process::{Supervised, Supervisor};
use serve::allocator::Recorder;
use serve::metrics::{Allocated, Metrics};

use crate::listening::listen;

/// Serves metrics where they are asked for. Gives what an allocator tells its figures.
pub(crate) async fn serve(
    client: &Client,
    address: Option<SocketAddr>,
    supervisor: &Supervisor,
    tasks: &mut Vec<Supervised>,
) -> anyhow::Result<Option<Recorder>> {
    let Some(address) = address else { return Ok(None) };
    let listener = listen(address, "--metrics").await?;
    let metrics = Metrics::new();
    let allocation = metrics.allocation();
    let router = metrics.router().merge(serve::health::router(supervisor.clone()));
    let serving = serve::listen::serve(listener, None, router, std::future::pending());
    tasks.push(supervisor.spawn_critical("listener of metrics", serving));
    let client = client.clone();
    tasks.push(supervisor.spawn("metrics", move || {
        let (metrics, client) = (Arc::clone(&metrics), client.clone());
        async move { metrics.follow(&client).await }
    }));
    Ok(Some(Recorder::new(move |measured| {
        allocation.record(Allocated {
            fleet: &measured.fleet,
            status: measured.status,
            scheduling: match measured.scheduling {
                api::agones::Scheduling::Packed => "Packed",
                api::agones::Scheduling::Distributed => "Distributed",
            },
            is_multicluster: measured.is_multi_cluster,
            took: measured.took,
            tries: measured.tries,
        });
    })))
}
