//! The kubelet of this process, as the API server reaches it.

use apiserver::{ByteStream, ContainerAddress, NodeProxy, NodeProxyError, PodLogOptions};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use kubelet::{ContainerLogError, ContainerLogs, StreamRefused, Streaming};

/// Reaches the kubelet without a socket.
pub(crate) struct InProcess {
    pub(crate) logs: ContainerLogs,
    pub(crate) streaming: Streaming,
}

impl NodeProxy for InProcess {
    fn container_logs(
        &self,
        container: ContainerAddress,
        options: PodLogOptions,
    ) -> BoxFuture<'_, Result<ByteStream, NodeProxyError>> {
        let ContainerAddress { namespace, pod, container, .. } = container;
        let read = self.logs.read(&namespace, &pod, &container, &options);
        let read = read.map_err(|error| {
            let code = if matches!(error, ContainerLogError::NotFound(_)) { 404 } else { 400 };
            NodeProxyError::Refused { code, message: error.to_string() }
        });
        std::future::ready(read).boxed()
    }

    fn open_session(
        &self,
        _: &str,
        request: Request<()>,
    ) -> BoxFuture<'_, Result<Response<()>, NodeProxyError>> {
        let refused = |StreamRefused { code, message }| NodeProxyError::Refused { code, message };
        self.streaming.answer(request).map(move |opened| opened.map_err(refused)).boxed()
    }
}
