//! `plimsoll sample-service`: a small HTTP service to scale, which uses CPU for each request.

mod burn;
mod stats;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::header::{CONNECTION, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::map_response_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use crate::args::SampleService;
use crate::listening::listen;
use stats::Stats;

/// The maximum number of requests in flight; others get 503.
const MAX_IN_FLIGHT: u64 = 1024;
/// The maximum number of requests that use CPU at the same time; others wait.
const MAX_BURNING: usize = 64;
/// After how many responses one closes its connection. A load balancer chooses a pod for each connection, so that clients which keep
/// theirs would never use pods that were added later.
const CLOSE_EVERY: u64 = 50;

pub(crate) fn run(args: &SampleService) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(MAX_BURNING)
        .enable_all()
        .build()?;
    runtime.block_on(serve(args))?;
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

/// The state of the service.
struct Service {
    /// The pod or machine, for responses.
    name: String,
    cpu_per_request: Duration,
    ready_at: Instant,
    is_stopping: AtomicBool,
    responses: AtomicU64,
    stats: Stats,
}

async fn serve(args: &SampleService) -> anyhow::Result<()> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let listener = listen(args.address(), "--listen").await?;
    let address = listener.local_addr().context("could not read the address of the listener")?;
    let cpu_per_request = args.cpu_per_request;
    eprintln!("sample-service listens on http://{address}; {cpu_per_request:?} of CPU per request");
    let service = Arc::new(Service {
        name: name(),
        cpu_per_request,
        ready_at: Instant::now() + args.ready_after,
        is_stopping: AtomicBool::new(false),
        responses: AtomicU64::new(0),
        stats: Stats::new(),
    });
    let stopping = Arc::clone(&service);
    let stop = async {
        let drained = async {
            terminated.recv().await;
            stopping.is_stopping.store(true, Ordering::Relaxed);
            tokio::time::sleep(args.shutdown_delay).await;
        };
        tokio::select! {
            () = drained => {}
            // Ctrl-C does not wait for load balancers.
            _ = interrupted.recv() => {}
        }
    };
    serve::listen::serve(listener, None, router(service), stop).await;
    Ok(())
}

fn name() -> String {
    let names = ["POD_NAME", "HOSTNAME"].into_iter().filter_map(|key| std::env::var(key).ok());
    names.into_iter().find(|name| !name.is_empty()).unwrap_or_else(|| "sample-service".to_owned())
}

fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/stats", get(stats_json))
        .route("/metrics", get(metrics))
        .fallback(work)
        .layer(map_response_with_state(Arc::clone(&service), close_connection))
        .with_state(service)
}

/// Announces with a response that its connection is closed: while the service stops, so that no request is sent on a connection that is
/// about to be closed, and now and then otherwise.
async fn close_connection(State(service): State<Arc<Service>>, mut response: Response) -> Response {
    let count = service.responses.fetch_add(1, Ordering::Relaxed) + 1;
    if service.is_stopping.load(Ordering::Relaxed) || count.is_multiple_of(CLOSE_EVERY) {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn ready(State(service): State<Arc<Service>>) -> (StatusCode, &'static str) {
    if service.is_stopping.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n");
    }
    if Instant::now() < service.ready_at {
        return (StatusCode::SERVICE_UNAVAILABLE, "starting\n");
    }
    (StatusCode::OK, "ok\n")
}

async fn stats_json(State(service): State<Arc<Service>>) -> axum::Json<stats::Snapshot> {
    axum::Json(service.stats.snapshot(Instant::now()))
}

async fn metrics(State(service): State<Arc<Service>>) -> Response {
    let text = service.stats.snapshot(Instant::now()).prometheus();
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// Uses CPU on a thread of its own, so that health checks are answered meanwhile.
async fn work(State(service): State<Arc<Service>>) -> (StatusCode, String) {
    let in_flight = service.stats.begin(Instant::now());
    if in_flight.count() > MAX_IN_FLIGHT {
        in_flight.reject();
        return (StatusCode::SERVICE_UNAVAILABLE, "too many requests in flight\n".to_owned());
    }
    let cpu = service.cpu_per_request;
    match tokio::task::spawn_blocking(move || burn::burn(cpu)).await {
        Ok(used) => {
            in_flight.finish(used);
            (StatusCode::OK, format!("hello from {}\n", service.name))
        }
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "the work was cancelled\n".to_owned()),
    }
}
