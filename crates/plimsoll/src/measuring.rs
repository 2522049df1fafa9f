//! Serves `/metrics`, and lets the allocator's figures into them.

use std::net::SocketAddr;

use kube::Client;
use serve::allocator::Recorder;
use serve::metrics::{Allocated, Metrics};
use tokio::task::JoinSet;

use crate::listening::listen;

/// Serves metrics where they are asked for. Gives what an allocator tells its figures.
pub(crate) async fn serve(
    client: &Client,
    address: Option<SocketAddr>,
    parts: &mut JoinSet<()>,
) -> anyhow::Result<Option<Recorder>> {
    let Some(address) = address else { return Ok(None) };
    let listener = listen(address, "--metrics").await?;
    let metrics = Metrics::new();
    let allocation = metrics.allocation();
    parts.spawn(serve::listen::serve(listener, None, metrics.router(), std::future::pending()));
    let client = client.clone();
    parts.spawn(async move { metrics.follow(&client).await });
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
