//! Schedules and runs pods on an engine: the scheduler and the kubelet, in this process.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kubelet::{ContainerLogError, ContainerLogs, Kubelet, Networking};
use process::{Random, Supervised};

use crate::core::Core;
use crate::node_proxy::{ByteStream, ContainerAddress, LogOptions, NodeProxy, NodeProxyError};

/// Why pods are not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The kubelet did not start.
    #[error(transparent)]
    Kubelet(#[from] kubelet::StartError),
    /// The engine was stopped meanwhile.
    #[error("the engine was stopped before its kubelet was ready")]
    Stopped,
}

/// A running scheduler and kubelet. Dropping it ends the pods, without grace.
pub struct Runtime {
    core: Arc<Core>,
    kubelet: Kubelet,
    _scheduler: Supervised,
    _stops_with_engine: Supervised,
}

/// Starts the kubelet and the scheduler.
pub(crate) async fn start(
    core: &Arc<Core>,
    client: kube::Client,
    settings: kubelet::Settings,
) -> Result<Runtime, RunError> {
    let context = kubelet::Context {
        client,
        clock: core.clock.clone(),
        random: Random::system(),
        supervisor: core.supervisor.clone(),
        identity: core.identity.clone(),
    };
    let mut stopping = core.stopping();
    let kubelet = tokio::select! {
        biased;
        kubelet = kubelet::start(context, settings) => kubelet?,
        _ = stopping.wait_for(|stopping| *stopping) => return Err(RunError::Stopped),
    };
    core.set_node_proxy(Some(Arc::new(InProcess { logs: kubelet.logs() })));
    let stop = Arc::new(kubelet.stopper());
    let stops_with_engine = core.supervisor.spawn("stop of the kubelet", move || {
        let (mut stopping, stop) = (stopping.clone(), Arc::clone(&stop));
        async move {
            let _ = stopping.wait_for(|stopping| *stopping).await;
            stop();
            std::future::pending().await
        }
    });
    Ok(Runtime {
        core: Arc::clone(core),
        kubelet,
        _scheduler: crate::schedule::start(core),
        _stops_with_engine: stops_with_engine,
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
        let Self { core, kubelet, .. } = self;
        kubelet.stop(grace).await;
        core.set_node_proxy(None);
    }
}

/// The kubelet of this process.
struct InProcess {
    logs: ContainerLogs,
}

impl NodeProxy for InProcess {
    fn container_logs(
        &self,
        container: ContainerAddress,
        options: LogOptions,
    ) -> BoxFuture<'_, Result<ByteStream, NodeProxyError>> {
        let ContainerAddress { namespace, pod, container, .. } = container;
        let options = kubelet::LogOptions {
            follow: options.follow,
            previous: options.previous,
            since_seconds: options.since_seconds,
            since_time: options.since_time,
            timestamps: options.timestamps,
            tail_lines: options.tail_lines,
            limit_bytes: options.limit_bytes,
        };
        let read = self.logs.read(&namespace, &pod, &container, &options);
        let read = read.map_err(|error| {
            let code = if matches!(error, ContainerLogError::NotFound(_)) { 404 } else { 400 };
            NodeProxyError::Refused { code, message: error.to_string() }
        });
        std::future::ready(read).boxed()
    }
}
