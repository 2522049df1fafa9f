//! Serving a router on a listener, with or without TLS.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use hyper_util::service::TowerToHyperService;
use process::Supervisor;
use process::listen::{Known, Limits, Settings};
use tokio::net::TcpListener;

use crate::tls::{CertificateFiles, CertificateWatcher, TlsError};

/// A port to listen on.
#[derive(Debug)]
pub struct Endpoint {
    /// The listening socket.
    pub listener: TcpListener,
    /// The certificates; without them connections are plain text, which is allowed only on loopback addresses.
    pub tls: Option<CertificateFiles>,
    /// Whether clients without a certificate are accepted on other than loopback addresses.
    pub allow_anonymous: bool,
}

/// Why an endpoint cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Plain text on an address that other machines can reach.
    #[error("{0} is reachable from other machines: a TLS certificate and key are required")]
    PlainText(SocketAddr),
    /// No client authentication on an address that other machines can reach.
    #[error(
        "{0} is reachable from other machines: a client CA is required unless anonymous clients are allowed"
    )]
    Anonymous(SocketAddr),
    /// Certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The socket has no address.
    #[error("could not use the listening socket")]
    Socket(#[from] std::io::Error),
}

impl Endpoint {
    /// Loads the certificates, and checks that the endpoint is as restricted as its address requires.
    pub(crate) async fn certificates(
        &self,
        supervisor: &Supervisor,
    ) -> Result<Option<CertificateWatcher>, ServeError> {
        let address = self.listener.local_addr()?;
        let is_loopback = address.ip().is_loopback();
        match &self.tls {
            None if is_loopback => Ok(None),
            None => Err(ServeError::PlainText(address)),
            Some(files) if files.client_ca.is_none() && !is_loopback && !self.allow_anonymous => {
                Err(ServeError::Anonymous(address))
            }
            Some(files) => {
                Ok(Some(CertificateWatcher::from_files(files.clone(), supervisor).await?))
            }
        }
    }
}

/// Serves requests until `stop` is ready, and lets requests in progress finish. Without certificates connections are plain text.
pub async fn serve(
    listener: TcpListener,
    certificates: Option<CertificateWatcher>,
    router: Router,
    stop: impl Future<Output = ()>,
) {
    serve_with_limits(Limits::USUAL, listener, certificates, router, stop).await;
}

/// Serves requests as [`serve`] does, with the given limits.
pub(crate) async fn serve_with_limits(
    limits: Limits,
    listener: TcpListener,
    certificates: Option<CertificateWatcher>,
    router: Router,
    stop: impl Future<Output = ()>,
) {
    let tls = certificates.map(|certificates| -> Arc<dyn Fn() -> _ + Send + Sync> {
        Arc::new(move || certificates.current().into())
    });
    let settings = Settings { limits, known: Known::ByRequest, tls };
    process::listen::serve(listener, settings, TowerToHyperService::new(router), stop).await;
}
