//! Why a kubelet does not start.

use std::net::SocketAddr;

/// Why a kubelet did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A thread could not be started.
    #[error("could not start the thread that starts processes")]
    Thread(#[source] std::io::Error),
    /// The port of the HTTP API cannot be used.
    #[error("could not listen on {address} for the kubelet's API")]
    Listen {
        /// The address from the settings.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The certificates of the HTTP API cannot be used.
    #[error("the certificates for the kubelet's API cannot be used: {0}")]
    Certificates(String),
}
