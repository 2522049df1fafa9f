//! Serving a router on a listener, with or without TLS.

use std::sync::Arc;

use axum::Router;
use hyper_util::service::TowerToHyperService;
use process::listen::{Known, Limits, Settings};
use tokio::net::TcpListener;

use crate::tls::CertificateWatcher;

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
