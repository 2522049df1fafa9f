//! The metric source of the bench, a process of its own: a number as JSON after a few milliseconds, and an external scaler that pushes
//! each number that it reads from its input.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::extract::{Request, State};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use futures::{Stream, StreamExt as _, stream};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::server::Grpc;
use tonic::{Response, Status};
use tonic_prost::ProstCodec;

/// How long the source takes for each answer.
const ANSWERS_AFTER: Duration = Duration::from_millis(5);
/// The answer to every query.
pub(super) const LOAD: u32 = 50;

/// The process of the source. It ends with this.
pub(super) struct Source {
    child: Child,
    pub(super) address: String,
}

impl Source {
    /// Starts the process, which is this program again.
    pub(super) fn start() -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("metric-source")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("could not start the metric source")?;
        let output = child.stdout.take().context("it has an output")?;
        let mut address = String::new();
        BufReader::new(output).read_line(&mut address)?;
        Ok(Self { child, address: address.trim().to_owned() })
    }

    /// Changes the number of the external scaler.
    pub(super) fn push(&mut self, number: u32) -> anyhow::Result<()> {
        let input = self.child.stdin.as_mut().context("it has an input")?;
        writeln!(input, "{number}")?;
        Ok(input.flush()?)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // Both fail only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves the source until the process is killed or its input ends.
pub(crate) fn serve() -> anyhow::Result<()> {
    let (set, number) = watch::channel(0);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    runtime.spawn(serve::listen::serve(listener, None, router(number), std::future::pending()));
    for line in std::io::stdin().lines() {
        set.send_replace(line?.parse()?);
    }
    Ok(())
}

type Number = watch::Receiver<u32>;

fn router(number: Number) -> Router {
    let load = || async {
        tokio::time::sleep(ANSWERS_AFTER).await;
        format!("{{\"value\":{LOAD}}}")
    };
    let of_scaler = |method: &str| format!("/externalscaler.ExternalScaler/{method}");
    Router::new()
        .route("/load", get(load))
        .route(&of_scaler("IsActive"), post(is_active))
        .route(&of_scaler("GetMetrics"), post(metrics))
        .route(&of_scaler("StreamIsActive"), post(changes))
        .with_state(number)
}

#[derive(Clone, PartialEq, prost::Message)]
struct IsActive {
    #[prost(bool, tag = "1")]
    result: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Metrics {
    #[prost(message, repeated, tag = "1")]
    values: Vec<Metric>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Metric {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int64, tag = "2")]
    value: i64,
}

/// Answers a call whose request does not matter.
async fn unary<A: prost::Message + Clone + Default + 'static>(
    request: Request,
    answer: A,
) -> impl IntoResponse {
    let method = tower::service_fn(move |_: tonic::Request<()>| {
        std::future::ready(Ok::<_, Status>(Response::new(answer.clone())))
    });
    Grpc::new(ProstCodec::<A, ()>::default()).unary(method, request).await
}

async fn is_active(request: Request) -> impl IntoResponse {
    unary(request, IsActive { result: true }).await
}

async fn metrics(State(number): State<Number>, request: Request) -> impl IntoResponse {
    let value = Metric { name: String::new(), value: i64::from(*number.borrow()) };
    unary(request, Metrics { values: vec![value] }).await
}

/// Streams a message for each change of the number.
async fn changes(State(number): State<Number>, request: Request) -> impl IntoResponse {
    let method = tower::service_fn(move |_: tonic::Request<()>| {
        let answer = Response::new(each_change(number.clone()).boxed());
        std::future::ready(Ok::<_, Status>(answer))
    });
    let codec = ProstCodec::<IsActive, ()>::default();
    Grpc::new(codec).server_streaming(method, request).await
}

fn each_change(number: Number) -> impl Stream<Item = Result<IsActive, Status>> {
    stream::unfold(number, |mut number| async move {
        number.changed().await.ok()?;
        Some((Ok(IsActive { result: true }), number))
    })
}
