//! `cargo xtask bench NAME`: figures next to the peer or the limit, measured in the same run.

mod decide_fleet;
mod decide_metrics;
mod decide_nodes;
mod report;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use report::Report;

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
    /// Sizes of fleets and choices of game servers
    DecideFleet,
    /// Sizes by checks
    DecideMetrics,
    /// Nodes to add and to remove
    DecideNodes {
        /// Measure only this case, in this process
        #[arg(long, hide = true)]
        case: Option<usize>,
    },
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let report: Report = match args.bench {
        Bench::DecideFleet => decide_fleet::run(),
        Bench::DecideMetrics => decide_metrics::run(),
        Bench::DecideNodes { case } => match decide_nodes::run(case)? {
            Some(report) => report,
            None => return Ok(()),
        },
    };
    report.print()?;
    if let Some(path) = args.json {
        std::fs::write(path, serde_json::to_string_pretty(&report)?)?;
    }
    Ok(())
}
