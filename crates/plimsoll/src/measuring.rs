//! Serves `/metrics`, with the figures of the allocator.

use std::net::SocketAddr;
use std::sync::Arc;

use cluster::Caches;
use process::{Supervised, Supervisor};
use serve::allocator::Recorder;
use serve::metrics::{Allocated, Metrics};

use crate::listening::listen;

/// Serves the metrics of the caches, if an address is given. Returns the recorder for an allocator.
pub(crate) async fn serve(
    caches: &Arc<Caches>,
    address: Option<SocketAddr>,
    supervisor: &Supervisor,
    tasks: &mut Vec<Supervised>,
) -> anyhow::Result<Option<Recorder>> {
    let Some(address) = address else { return Ok(None) };
    let listener = listen(address, "--metrics").await?;
    let metrics = Metrics::new(caches);
    let allocation = metrics.allocation();
    let router = metrics.router().merge(serve::health::router(supervisor.clone()));
    let serving = serve::listen::serve(listener, None, router, std::future::pending());
    tasks.push(supervisor.spawn_critical("listener of metrics", serving));
    tasks.push(supervisor.spawn("metrics", move || {
        let metrics = Arc::clone(&metrics);
        async move { metrics.run().await }
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
