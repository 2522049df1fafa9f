//! `plimsoll load`: sends requests to a URL at a steady rate, and prints a summary.

mod summary;

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::args::{Load, Output};
use summary::Summary;

pub(crate) fn run(args: &Load) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let summary = runtime.block_on(load(args))?;
    let mut out = std::io::stdout().lock();
    match args.output {
        Output::Text => write!(out, "{summary}")?,
        Output::Json => writeln!(out, "{}", serde_json::to_string_pretty(&summary.json())?)?,
    }
    Ok(if summary.has_errors() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The moments at which requests are due, which the workers share.
struct Schedule {
    start: Instant,
    end: Instant,
    interval: Duration,
    next: AtomicU64,
    /// Cancelled by Ctrl-C.
    stop: CancellationToken,
}

impl Schedule {
    /// Waits for the next moment; `None` at the end. Requests that are late at the end are not sent.
    async fn next(&self) -> Option<Instant> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let offset = self.interval.as_nanos().saturating_mul(u128::from(number));
        let due = self.start + Duration::from_nanos(u64::try_from(offset).ok()?);
        if due >= self.end || Instant::now() >= self.end {
            return None;
        }
        self.stop.run_until_cancelled(tokio::time::sleep_until(due)).await?;
        Some(due)
    }
}

/// Sends requests until the time is over or Ctrl-C is pressed.
async fn load(args: &Load) -> anyhow::Result<Summary> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let url: Url = args.url.parse().with_context(|| format!("`{}` is not a URL", args.url))?;
    if !matches!(url.scheme(), "http" | "https") {
        bail!("`{url}`: only http:// and https:// are supported");
    }
    let client = client(args, &url)?;
    let start = Instant::now();
    let schedule = Arc::new(Schedule {
        start,
        end: start + args.run_for,
        interval: Duration::from_secs(1) / args.rate,
        next: AtomicU64::new(0),
        stop: CancellationToken::new(),
    });
    let mut workers = JoinSet::new();
    for _ in 0..args.concurrency {
        workers.spawn(work(client.clone(), url.clone(), Arc::clone(&schedule)));
    }
    let mut summary = Summary::default();
    loop {
        tokio::select! {
            done = workers.join_next() => match done {
                Some(done) => summary.add(done.context("a worker stopped unexpectedly")?),
                None => break,
            },
            // The requests in flight are awaited, unless Ctrl-C is pressed again.
            _ = interrupted.recv() => match schedule.stop.is_cancelled() {
                false => schedule.stop.cancel(),
                true => bail!("interrupted"),
            },
        }
    }
    // The last request is due before the end.
    let planned = if schedule.stop.is_cancelled() { Duration::ZERO } else { args.run_for };
    summary.took = start.elapsed().max(planned);
    Ok(summary)
}

fn client(args: &Load, url: &Url) -> anyhow::Result<Client> {
    // It fails if a provider is installed already, and any provider works.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .user_agent(concat!("plimsoll/", env!("CARGO_PKG_VERSION")))
        .timeout(args.timeout)
        .redirect(Policy::none())
        .no_proxy()
        .pool_max_idle_per_host(usize::from(args.concurrency));
    let builder = if url.scheme() == "http" { builder.tls_certs_only([]) } else { builder };
    Ok(builder.build()?)
}

/// Sends one request after the other, each when it is due.
async fn work(client: Client, url: Url, schedule: Arc<Schedule>) -> Summary {
    let mut summary = Summary::default();
    while let Some(due) = schedule.next().await {
        let result = match client.get(url.clone()).send().await {
            Ok(response) if response.status().is_success() => {
                // Reading the whole response lets the connection be used again.
                response.bytes().await.map(drop).map_err(|err| reason(&err))
            }
            Ok(response) => Err(format!("status {}", response.status())),
            Err(err) => Err(reason(&err)),
        };
        summary.record(due.elapsed(), result);
    }
    summary
}

/// Returns the innermost cause of an error, which has the detail.
fn reason(err: &reqwest::Error) -> String {
    if err.is_timeout() {
        return "timed out".to_owned();
    }
    let mut cause: &dyn std::error::Error = err;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
