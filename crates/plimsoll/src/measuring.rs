//! Serves `/metrics`, including those of the allocator.

use std::net::SocketAddr;
use std::sync::Arc;

use cluster::Caches;
use control::Settings;
use process::{Supervised, Supervisor};
use serve::allocator::AllocationRecorder;
use serve::metrics::{AllocationSample, Metrics};

use crate::listening::listen;

/// Serves the metrics of the caches, the decision recorder and the node controller, if an address is given. Returns the recorder for an allocator.
pub(crate) async fn serve(
    caches: &Arc<Caches>,
    settings: &Settings,
    address: Option<SocketAddr>,
    supervisor: &Supervisor,
    tasks: &mut Vec<Supervised>,
) -> anyhow::Result<Option<AllocationRecorder>> {
    let Some(address) = address else { return Ok(None) };
    let listener = listen(address, "--metrics").await?;
    let metrics =
        Metrics::new(caches, settings.decisions.counts.clone(), settings.node_metrics.clone());
    let allocation = metrics.allocation();
    let router = metrics.router().merge(serve::health::router(supervisor.clone()));
    let serving = serve::listen::serve(listener, None, router, std::future::pending());
    tasks.push(supervisor.spawn_critical("metrics listener", serving));
    tasks.push(supervisor.spawn("metrics", move || {
        let metrics = Arc::clone(&metrics);
        async move { metrics.run().await }
    }));
    Ok(Some(AllocationRecorder::new(move |allocated| {
        allocation.record(AllocationSample {
            fleet: &allocated.fleet,
            status: allocated.status,
            scheduling: match allocated.scheduling {
                api::agones::Scheduling::Packed => "Packed",
                api::agones::Scheduling::Distributed => "Distributed",
            },
            is_multicluster: allocated.is_multi_cluster,
            took: allocated.took,
            tries: allocated.tries,
        });
    })))
}
