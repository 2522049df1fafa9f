//! Serves gRPC, REST and probes on the listeners of an SDK server.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use process::listen::Limits;
use tokio::net::TcpListener;

use super::core::Core;
use super::grpc::Service;
use super::{Listeners, rest};
use crate::proto::{alpha, beta, sdk};

/// A game may connect long before its first call, and its stream of health pings lasts as long as the process.
const GRPC_LIMITS: Limits =
    Limits { authenticate_within: Duration::from_secs(120), body_within: None, ..Limits::USUAL };

/// How long open connections may delay the shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves gRPC, REST and probes until the SDK server stops.
pub(super) async fn run(core: &Arc<Core>, listeners: Listeners) {
    let serving = async {
        let rest = rest::router(Arc::clone(core));
        let grpc = listen(core, GRPC_LIMITS, listeners.grpc, grpc(core));
        let http = listen(core, Limits::USUAL, listeners.http, rest);
        tokio::join!(grpc, http, probes(core, listeners.health));
    };
    let timeout = async {
        core.stop.cancelled().await;
        tokio::time::sleep(SHUTDOWN_TIMEOUT).await;
    };
    tokio::select! {
        () = serving => {}
        () = timeout => {}
    }
    core.stop.cancel();
}

fn grpc(core: &Arc<Core>) -> Router {
    let service = Arc::new(Service(Arc::clone(core)));
    tonic::service::Routes::new(sdk::sdk_server::SdkServer::from_arc(Arc::clone(&service)))
        .add_service(beta::sdk_server::SdkServer::from_arc(Arc::clone(&service)))
        .add_service(alpha::sdk_server::SdkServer::from_arc(service))
        .into_axum_router()
}

async fn probes(core: &Arc<Core>, listener: Option<TcpListener>) {
    let Some(listener) = listener else { return core.stop.cancelled().await };
    let router = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/gshealthz", get(game_server_health))
        .with_state(Arc::clone(core));
    listen(core, Limits::USUAL, listener, router).await;
}

async fn game_server_health(State(core): State<Arc<Core>>) -> Result<&'static str, StatusCode> {
    core.heartbeat.probe().then_some("ok").ok_or(StatusCode::INTERNAL_SERVER_ERROR)
}

async fn listen(core: &Core, limits: Limits, listener: TcpListener, router: Router) {
    let stop = core.stop.clone().cancelled_owned();
    crate::listen::serve_with_limits(limits, listener, None, router, stop).await;
}
