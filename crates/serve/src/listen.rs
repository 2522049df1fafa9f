//! How do calls come in over the network?

use std::sync::Arc;

use axum::Router;
use hyper_util::service::TowerToHyperService;
use process::listen::{Known, Limits, Settings};
use tokio::net::TcpListener;

use crate::tls::Certificates;

/// Answers calls until `stop` happens, and then lets those under way finish. Without certificates calls are in plain text.
pub async fn serve(
    listener: TcpListener,
    certificates: Option<Certificates>,
    router: Router,
    stop: impl Future<Output = ()>,
) {
    serve_within(Limits::USUAL, listener, certificates, router, stop).await;
}

/// Answers calls as [`serve`] does, within other limits than the usual ones.
pub(crate) async fn serve_within(
    limits: Limits,
    listener: TcpListener,
    certificates: Option<Certificates>,
    router: Router,
    stop: impl Future<Output = ()>,
) {
    let tls = certificates.map(|certificates| -> Arc<dyn Fn() -> _ + Send + Sync> {
        Arc::new(move || certificates.now().into())
    });
    let settings = Settings { limits, known: Known::ByRequest, tls };
    process::listen::serve(listener, settings, TowerToHyperService::new(router), stop).await;
}
