//! The connection from the API server to kubelets.

use api::PodLogOptions;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::{Request, Response};

/// A stream of bytes from a kubelet.
pub type ByteStream = BoxStream<'static, Bytes>;

/// Forwards requests about pods to the kubelets of their nodes, one method per kind of request.
pub trait NodeProxy: Send + Sync {
    /// Reads the log of a container.
    fn container_logs(
        &self,
        container: ContainerAddress,
        options: PodLogOptions,
    ) -> BoxFuture<'_, Result<ByteStream, NodeProxyError>>;

    /// Forwards a request for a session in a pod, whose connection is among its extensions, to the HTTP API of a kubelet.
    /// Returns the response with which the connection is handed over to the kubelet.
    fn open_session(
        &self,
        node: &str,
        request: Request<()>,
    ) -> BoxFuture<'_, Result<Response<()>, NodeProxyError>>;
}

/// Identifies a container on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerAddress {
    /// The name of the node.
    pub node: String,
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub pod: String,
    /// The name of the container.
    pub container: String,
}

/// Why a request to a kubelet failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeProxyError {
    /// The kubelet could not be reached.
    #[error("{0}")]
    Unreachable(String),
    /// The kubelet answered with an error.
    #[error("{message}")]
    Refused {
        /// The HTTP status code.
        code: u16,
        /// The error message.
        message: String,
    },
}
