//! `cargo xtask bench NAME`: figures next to the peer or the limit, measured in the same run.

mod allocate;
mod autoscale;
mod decide_fleet;
mod decide_metrics;
mod decide_nodes;
mod engine;
mod fleets;
mod gameday;
mod nodes;
mod report;
mod services;
mod workloads;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use tikv_jemallocator::Jemalloc;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use report::Report;

/// As in the program that is measured.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Measure what Plimsoll claims
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    bench: Bench,
    /// Also write the figures as JSON
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One file per bench: a variant here, and a function that gives a report.
#[derive(Subcommand)]
enum Bench {
    /// Allocations next to plain updates, embedded and on the real API server
    Allocate(allocate::Options),
    /// From a burst of allocations to the fleet's new size
    Autoscale {
        /// How many bursts
        #[arg(long, default_value_t = 200)]
        bursts: usize,
        /// Leave the real API server out
        #[arg(long)]
        only_embedded: bool,
    },
    /// The embedded engine next to the real kube-apiserver with etcd
    Engine {
        /// How many pods to list and to hold in memory
        #[arg(long, default_value_t = 50_000)]
        pods: usize,
        /// How long each figure for writes is measured
        #[arg(long, default_value_t = 10)]
        seconds: u64,
    },
    /// Fleets from nothing to thousands and back, on the embedded engine and on a real API server
    Fleets {
        /// How many game servers
        #[arg(long = "size", default_values_t = [1000, 5000])]
        sizes: Vec<i32>,
        /// Leave the real API server out
        #[arg(long)]
        only_embedded: bool,
    },
    /// A day of players in virtual time, with fleets and nodes together and each on its own
    Gameday {
        /// How long the day is
        #[arg(long, default_value_t = 24)]
        hours: u32,
        /// The seed of the players
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Serve the engine alone, to be measured
    #[command(hide = true)]
    EngineAlone { data: PathBuf },
    /// Sizes of fleets and choices of game servers
    #[command(name = "decide-fleet")]
    Fleet,
    /// Sizes by checks
    #[command(name = "decide-metrics")]
    Metrics,
    /// Nodes to add and to remove
    #[command(name = "decide-nodes")]
    Nodes {
        /// Measure only this case, in this process
        #[arg(long, hide = true)]
        case: Option<usize>,
        /// Measure only how long it takes to read the case's objects
        #[arg(long, hide = true, requires = "case")]
        convert: bool,
    },
    /// Nodes that come and go with pods, next to Cluster Autoscaler's figures
    #[command(name = "nodes")]
    LiveNodes {
        /// How many pods to create one after another
        #[arg(long, default_value_t = 100)]
        trials: usize,
        /// Leave the real API server out
        #[arg(long)]
        only_embedded: bool,
    },
    /// Thousands of scaling policies at work, with a metric source in a process of its own
    Services(services::Options),
    /// Serve the metric source of `services` alone
    #[command(hide = true)]
    MetricSource,
    /// A Deployment from nothing to a thousand Ready pods, through a rolling update, and back
    Workloads {
        /// How many pods
        #[arg(long = "size", default_values_t = [1000])]
        sizes: Vec<i32>,
    },
}

fn main() -> anyhow::Result<()> {
    tikv_jemalloc_ctl::background_thread::write(true).map_err(|err| anyhow::anyhow!("{err}"))?;
    let args = Args::parse();
    // As in the program itself: spans that the filter excludes cost nothing.
    let shown = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let shown = shown.with_filter(EnvFilter::new("warn"));
    let evaluations = services::Evaluations::default();
    let traced = matches!(args.bench, Bench::Services(_)).then(|| evaluations.layer());
    tracing_subscriber::registry().with(shown).with(traced).init();
    let report: Report = match args.bench {
        Bench::Allocate(options) => allocate::run(options)?,
        Bench::Autoscale { bursts, only_embedded } => autoscale::run(bursts, !only_embedded)?,
        Bench::Engine { pods, seconds } => engine::run(pods, seconds)?,
        Bench::Fleets { sizes, only_embedded } => fleets::run(&sizes, !only_embedded)?,
        Bench::Gameday { hours, seed } => gameday::run(hours, seed)?,
        Bench::EngineAlone { data } => return engine::serve(&data),
        Bench::Fleet => decide_fleet::run(),
        Bench::Metrics => decide_metrics::run(),
        Bench::Nodes { case, convert } => match decide_nodes::run(case, convert)? {
            Some(report) => report,
            None => return Ok(()),
        },
        Bench::LiveNodes { trials, only_embedded } => nodes::run(trials, !only_embedded)?,
        Bench::Services(options) => services::run(&options, evaluations)?,
        Bench::MetricSource => return services::serve_source(),
        Bench::Workloads { sizes } => workloads::run(&sizes)?,
    };
    report.print()?;
    if let Some(path) = args.json {
        std::fs::write(path, serde_json::to_string_pretty(&report)?)?;
    }
    Ok(())
}
