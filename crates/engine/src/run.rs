//! Schedules and runs pods on an engine: the scheduler and the kubelet, in this process.

use std::sync::Arc;
use std::time::Duration;

use apiserver::Handle;
use kubelet::{Kubelet, Networking};
use process::{Random, Supervised};

use crate::metrics;
use crate::node_proxy::InProcess;

/// Why pods are not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The kubelet did not start.
    #[error(transparent)]
    Kubelet(#[from] kubelet::StartError),
    /// The engine was stopped in the meantime.
    #[error("the engine was stopped before its kubelet was ready")]
    Stopped,
}

/// A running scheduler and kubelet. Dropping it ends the pods, without grace.
pub struct Runtime {
    server: Handle,
    kubelet: Kubelet,
    _scheduler: Supervised,
    _stops_with_engine: Supervised,
}

/// Starts the kubelet and the scheduler.
pub(crate) async fn start(
    server: Handle,
    settings: kubelet::Settings,
) -> Result<Runtime, RunError> {
    let context = kubelet::Context {
        client: server.client(),
        clock: server.clock().clone(),
        random: server.random().clone(),
        supervisor: server.supervisor().clone(),
        identity: server.identity().to_owned(),
    };
    let mut stopping = server.stopping();
    let kubelet = tokio::select! {
        biased;
        kubelet = kubelet::start(context, settings) => kubelet?,
        _ = stopping.wait_for(|stopping| *stopping) => return Err(RunError::Stopped),
    };
    server.set_node_proxy(Some(Arc::new(InProcess {
        logs: kubelet.logs(),
        streaming: kubelet.streaming(),
    })));
    let metrics = metrics::delegate(server.client(), kubelet.metrics());
    server.delegate(metrics::GROUP, metrics::VERSION, metrics);
    let stop = Arc::new(kubelet.stopper());
    let stops_with_engine = server.supervisor().spawn("stop of the kubelet", move || {
        let (mut stopping, stop) = (stopping.clone(), Arc::clone(&stop));
        async move {
            let _ = stopping.wait_for(|stopping| *stopping).await;
            stop();
            std::future::pending().await
        }
    });
    Ok(Runtime {
        _scheduler: start_scheduler(&server),
        server,
        kubelet,
        _stops_with_engine: stops_with_engine,
    })
}

/// Starts scheduling. It ends when the API server stops.
fn start_scheduler(server: &Handle) -> Supervised {
    let client = server.client();
    let settings = scheduler::Settings {
        clock: server.clock().clone(),
        // Only the jitter of retries, which scatters nothing here: there is one client of this kind.
        random: Random::seeded(0),
        supervisor: server.supervisor().clone(),
        ..scheduler::Settings::default()
    };
    let stopping = server.stopping();
    server.supervisor().spawn("scheduler", move || {
        let scheduling = scheduler::run(client.clone(), settings.clone());
        let mut stopping = stopping.clone();
        async move {
            tokio::select! {
                biased;
                _ = stopping.wait_for(|stopping| *stopping) => {}
                () = scheduling => {}
            }
        }
    })
}

impl Runtime {
    /// Returns how pods of this machine reach the network.
    pub fn networking(&self) -> &Networking {
        self.kubelet.networking()
    }

    /// Whether a Docker Engine answers.
    pub fn has_docker(&self) -> bool {
        self.kubelet.has_docker()
    }

    /// Lists the nodes that were registered at the start.
    pub fn nodes(&self) -> Vec<String> {
        self.kubelet.nodes()
    }

    /// Returns the port of the kubelet's HTTP API, if it is served.
    pub fn kubelet_port(&self) -> Option<u16> {
        self.kubelet.port()
    }

    /// Stops scheduling, asks every process to end, and after the grace period ends it. The objects stay as they are: the
    /// next start finds them and reports their end.
    pub async fn stop(self, grace: Duration) {
        let Self { server, kubelet, .. } = self;
        kubelet.stop(grace).await;
        server.set_node_proxy(None);
    }
}
