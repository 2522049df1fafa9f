//! Answers on the listeners until the end.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;

use super::core::Core;
use super::grpc::Service;
use super::{Error, Listeners, rest};
use crate::proto::{alpha, beta, sdk};

/// How long connections may hold up the end.
const FAREWELL: Duration = Duration::from_secs(1);

/// Answers gRPC, REST and probes. When one of them fails, all end.
pub(super) async fn run(core: &Arc<Core>, listeners: Listeners) -> Result<(), Error> {
    let all = async {
        let rest = rest::router(Arc::clone(core));
        tokio::try_join!(
            grpc(core, listeners.grpc),
            http(core, listeners.http, rest),
            probes(core, listeners.health),
        )
    };
    let too_long = async {
        core.stop.cancelled().await;
        tokio::time::sleep(FAREWELL).await;
    };
    let served = tokio::select! {
        done = all => done.map(|_| ()),
        () = too_long => Ok(()),
    };
    core.stop.cancel();
    served
}

async fn grpc(core: &Arc<Core>, listener: TcpListener) -> Result<(), Error> {
    let service = Arc::new(Service(Arc::clone(core)));
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    tonic::transport::Server::builder()
        .add_service(sdk::sdk_server::SdkServer::from_arc(Arc::clone(&service)))
        .add_service(beta::sdk_server::SdkServer::from_arc(Arc::clone(&service)))
        .add_service(alpha::sdk_server::SdkServer::from_arc(service))
        .serve_with_incoming_shutdown(incoming, core.stop.cancelled())
        .await
        .map_err(|err| Error::Listen(err.into()))
}

async fn probes(core: &Arc<Core>, listener: Option<TcpListener>) -> Result<(), Error> {
    let Some(listener) = listener else { return Ok(()) };
    let router = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/gshealthz", get(game_server_health))
        .with_state(Arc::clone(core));
    http(core, listener, router).await
}

async fn game_server_health(State(core): State<Arc<Core>>) -> Result<&'static str, StatusCode> {
    core.pulse.probe().then_some("ok").ok_or(StatusCode::INTERNAL_SERVER_ERROR)
}

async fn http(core: &Arc<Core>, listener: TcpListener, router: Router) -> Result<(), Error> {
    let stop = core.stop.clone().cancelled_owned();
    let listener = listener.tap_io(|stream| {
        // Answers are small; one that is late for want of this is still an answer.
        let _ = stream.set_nodelay(true);
    });
    let served = axum::serve(listener, router).with_graceful_shutdown(stop).await;
    served.map_err(|err| Error::Listen(err.into()))
}
