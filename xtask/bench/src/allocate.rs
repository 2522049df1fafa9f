//! `cargo xtask bench allocate`: allocations, next to plain updates of the same objects on the same server.
//!
//! Runs alternate: an allocated run takes Ready servers, and the bare run after it updates those same servers back to
//! Ready, one write each. So both write the same objects as often, and nothing is refilled during a run.

mod client;
mod place;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Barrier;

use crate::report::Report;
use client::{AllocationClient, Protocol};
use place::{Place, Where};

/// The numbers of concurrent clients.
const CLIENTS: [usize; 4] = [1, 8, 32, 128];

/// The sizes of a measurement, and its repetitions.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Options {
    /// Measure only this one
    #[arg(long, value_enum)]
    on: Option<Where>,
    /// Use only this protocol
    #[arg(long, value_enum)]
    protocol: Option<Protocol>,
    /// Use only so many concurrent clients
    #[arg(long)]
    clients: Option<usize>,
    /// How many allocated runs, and as many bare ones, for each figure [default: 5 embedded, 15 real]
    #[arg(long)]
    runs: Option<usize>,
    /// How many allocations a run has; one client has half as many [default: 16000 embedded, 4000 with controllers, 1000 real]
    #[arg(long)]
    size: Option<usize>,
}

/// The figures of one kind of run, over all its repetitions.
#[derive(Default)]
struct Figures {
    rates: Vec<f64>,
    times: Vec<Duration>,
}

pub(crate) fn run(options: Options) -> anyhow::Result<Report> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let columns = [
        "on",
        "protocol",
        "clients",
        "allocations/s",
        "spread",
        "p50",
        "p95",
        "p99",
        "bare updates/s",
        "spread",
        "p50",
        "ratio",
    ];
    let mut report = Report::new("Allocations next to plain updates", &columns);
    for place in [Where::Embedded, Where::Followed, Where::Real] {
        if options.on.is_none_or(|on| on == place) {
            runtime.block_on(measure(place, options, &mut report))?;
        }
    }
    let runs = match options.runs {
        Some(runs) => format!("{runs} runs each"),
        None => format!(
            "{} runs each embedded, {} real",
            Where::Embedded.usual_runs(),
            Where::Real.usual_runs()
        ),
    };
    report.note(format!(
        "Medians of {runs}, allocated and bare alternating, with the slowest and the fastest; the ratio is the median of what each allocated run is to \
         the bare run after it; latencies in ms over all runs. A bare update is a PUT of the same game server with its version, by as many \
         clients. Embedded: durable, engine, allocator, its watch and all clients in one process on two cores; its bare updates come without a \
         socket. Real: kube-apiserver with etcd beside it, whose garbage is collected before each run; each client of bare updates has its own \
         connection. gRPC and REST: plain text on loopback, one connection for each client."
    ));
    runtime.shutdown_background();
    Ok(report)
}

async fn measure(place: Where, options: Options, report: &mut Report) -> anyhow::Result<()> {
    let most = options.size.unwrap_or(place.usual_size());
    let runs = options.runs.unwrap_or(place.usual_runs());
    let place = Place::open(place, most).await?;
    for protocol in [Protocol::Process, Protocol::Grpc, Protocol::Rest] {
        if options.protocol.is_some_and(|only| only != protocol) || !place.has(protocol) {
            continue;
        }
        for clients in options.clients.map_or(CLIENTS.to_vec(), |only| vec![only]) {
            // Alone, half as many take as long.
            let size = if clients == 1 { most / 2 } else { most };
            let (allocated, bare) = pairs(&place, protocol, clients, size, runs).await?;
            row(report, &place, protocol, clients, &allocated, &bare);
        }
    }
    place.close().await;
    Ok(())
}

/// Measures allocated and bare runs alternately.
async fn pairs(
    place: &Place,
    protocol: Protocol,
    count: usize,
    size: usize,
    runs: usize,
) -> anyhow::Result<(Figures, Figures)> {
    let (mut allocated, mut bare) = (Figures::default(), Figures::default());
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(place.client(protocol).await?);
    }
    let mut updaters = place.updaters(count).await?;
    // One pair before, for what is done only once, as connecting is.
    for round in 0..=runs {
        let is_counted = round > 0;
        let size = if is_counted { size } else { size.min(200) };
        place.wait_until_idle().await?;
        let (rate, times, returned) = timed(clients, size, AllocationClient::allocate).await?;
        clients = returned;
        if is_counted {
            allocated.rates.push(rate);
            allocated.times.extend(times);
        }
        let (rate, times, returned) = place.update_back(updaters, size).await?;
        updaters = returned;
        if is_counted {
            bare.rates.push(rate);
            bare.times.extend(times);
        }
    }
    Ok((allocated, bare))
}

/// Lets every worker do its share of `size` jobs; gives jobs per second and how long each took.
async fn timed<W, F>(
    workers: Vec<W>,
    size: usize,
    work: fn(W) -> F,
) -> anyhow::Result<(f64, Vec<Duration>, Vec<W>)>
where
    W: Send + 'static,
    F: Future<Output = anyhow::Result<W>> + Send + 'static,
{
    let count = workers.len();
    // All begin together, once the tasks are there.
    let start = Arc::new(Barrier::new(count + 1));
    let tasks = workers.into_iter().enumerate().map(|(index, mut worker)| {
        let share = size / count + usize::from(index < size % count);
        let start = Arc::clone(&start);
        tokio::spawn(async move {
            start.wait().await;
            let mut times = Vec::with_capacity(share);
            for _ in 0..share {
                let sent = Instant::now();
                worker = work(worker).await?;
                times.push(sent.elapsed());
            }
            anyhow::Ok((worker, times))
        })
    });
    let tasks: Vec<_> = tasks.collect();
    start.wait().await;
    let started = Instant::now();
    let mut done = Vec::with_capacity(count);
    for task in tasks {
        done.push(task.await??);
    }
    let rate = size as f64 / started.elapsed().as_secs_f64();
    let (returned, times): (Vec<_>, Vec<Vec<_>>) = done.into_iter().unzip();
    Ok((rate, times.concat(), returned))
}

fn row(
    report: &mut Report,
    place: &Place,
    protocol: Protocol,
    clients: usize,
    a: &Figures,
    b: &Figures,
) {
    let spread = |f: &Figures| format!("{:.0} to {:.0}", f.slowest(), f.fastest());
    report.row(&[
        place.name(),
        protocol.name(),
        &clients.to_string(),
        &format!("{:.0}", median(a.rates.iter().copied())),
        &spread(a),
        &format!("{:.2}", a.percentile(50)),
        &format!("{:.2}", a.percentile(95)),
        &format!("{:.2}", a.percentile(99)),
        &format!("{:.0}", median(b.rates.iter().copied())),
        &spread(b),
        &format!("{:.2}", b.percentile(50)),
        &format!("{:.2}", median(a.rates.iter().zip(&b.rates).map(|(a, b)| a / b))),
    ]);
}

fn median(of: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = of.collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

impl Figures {
    fn slowest(&self) -> f64 {
        self.rates.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn fastest(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    /// Returns a time in milliseconds that so many of a hundred are below.
    fn percentile(&self, share: usize) -> f64 {
        let mut times = self.times.clone();
        times.sort_unstable();
        let at = (times.len() * share / 100).min(times.len().saturating_sub(1));
        times.get(at).map_or(0.0, |t| t.as_secs_f64() * 1000.0)
    }
}
