//! How the API server reaches the kubelet of a node.

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use jiff::Timestamp;

/// A stream of bytes from a kubelet.
pub type ByteStream = BoxStream<'static, Bytes>;

/// Forwards requests about pods to the kubelets of their nodes. Each kind of request is a method of its own.
pub trait NodeProxy: Send + Sync {
    /// Reads the log of a container.
    fn container_logs(
        &self,
        container: ContainerAddress,
        options: LogOptions,
    ) -> BoxFuture<'_, Result<ByteStream, NodeProxyError>>;
}

/// Names a container on a node.
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

/// Which part of a log is read, and how: the query of `pods/log`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Goes on until the container ends.
    pub follow: bool,
    /// Reads the run before the present one.
    pub previous: bool,
    /// Leaves out lines that are older.
    pub since_seconds: Option<i64>,
    /// Leaves out earlier lines.
    pub since_time: Option<Timestamp>,
    /// Puts its time before each line.
    pub timestamps: bool,
    /// Starts with this many of the lines that are there.
    pub tail_lines: Option<usize>,
    /// Ends after this many bytes.
    pub limit_bytes: Option<usize>,
}

/// Why a kubelet did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeProxyError {
    /// The kubelet does not answer.
    #[error("{0}")]
    Unreachable(String),
    /// The kubelet refused.
    #[error("{message}")]
    Refused {
        /// The HTTP status of its answer.
        code: u16,
        /// The text of its answer.
        message: String,
    },
}
