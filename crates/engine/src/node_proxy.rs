//! The kubelet of this process, as the API server reaches it.

use apiserver::{ByteStream, ContainerAddress, LogOptions, NodeProxy, NodeProxyError};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kubelet::{ContainerLogError, ContainerLogs};

/// Reaches the kubelet without a socket.
pub(crate) struct InProcess {
    pub(crate) logs: ContainerLogs,
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
