//! Developer commands: `cargo xtask check`, `tidy`, `test`, `bench`, `hostile`, `generate`, `kube`.
//!
//! This program stays small, because every command waits for it to build; what needs the project's crates is a
//! package or a test of its own, which these commands start.

mod against;
mod check;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::{conformance, kube};

/// Developer commands
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// All that can be checked without running the tests: format, lints, docs, licences, tidiness
    Check,
    /// Only the checks of our own: crate dependencies, circles of modules, paths in the documentation, clocks
    Tidy,
    /// Install and start what the tests need, and run them all
    Test {
        /// Only tests whose name contains this
        filter: Option<String>,
        /// Then also what takes long: slow tests (metrics-server, Docker Compose, outages with many seeds), random cases with a new seed, all of the
        /// conformance tests, 50,000 hostile requests
        #[arg(long, conflicts_with = "filter")]
        all: bool,
    },
    /// Measure, next to the peer or the limit: `cargo xtask bench --help` lists the benches; `NAME --against REV` measures another revision too,
    /// alternately, and prints medians of 5 (`--rounds N`) side by side
    #[command(disable_help_flag = true)]
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Start a real Kubernetes on loopback, print its kubeconfig, and stop it on Ctrl-C
    Kube {
        /// Also run the controllers of workloads and Endpoints
        #[arg(long)]
        workloads: bool,
    },
    /// Run Kubernetes' own conformance tests on the embedded engine, and write docs/conformance.md
    Conformance {
        /// Only the groups that take under a minute together; writes nothing
        #[arg(long)]
        short: bool,
        /// Only the tests whose names match this regular expression, also those that are usually left out; writes nothing
        #[arg(long, value_name = "REGEX", conflicts_with = "short")]
        focus: Option<String>,
        /// Run them on a real Kubernetes, where the nodes are simulated in the same way; writes nothing
        #[arg(long)]
        real: bool,
    },
    /// Send generated hostile requests to a running `plimsoll up`; `cargo xtask test` sends a few thousand of them
    Hostile {
        /// How many
        #[arg(long, value_name = "N", default_value_t = test::HOSTILE_REQUESTS)]
        requests: u64,
        /// Which ones: the seed that an earlier run has printed [default: others each time]
        #[arg(long, value_name = "S")]
        seed: Option<u64>,
    },
    /// Write generated files: CRDs from the fields of the kinds, and the output that the documentation shows
    Generate {
        /// Also Kubernetes' own types as data, from its Go modules
        #[arg(long)]
        kubernetes_types: bool,
    },
}

fn main() -> ExitCode {
    match run(Args::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("xtask: {err:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Check => check::all(),
        Command::Tidy => tidy::all(),
        Command::Test { all: true, .. } => test::with_long_suites(),
        Command::Test { filter, .. } => test::run(filter.as_deref()),
        Command::Bench { args } => {
            if let Some(options) = against::Options::parse(&args)? {
                return against::compare(&options);
            }
            let mut command =
                vec!["run", "--quiet", "--release", "--package", "plimsoll-bench", "--"];
            command.extend(args.iter().map(String::as_str));
            xtask::run::cargo(&command)
        }
        Command::Kube { workloads } => kube::command(workloads),
        Command::Conformance { short, focus, real } => {
            conformance::command(&conformance::Options { short, focus, real })
        }
        Command::Hostile { requests, seed } => test::hostile(requests, seed),
        Command::Generate { kubernetes_types } => {
            let generate = |what: &str| {
                xtask::run::cargo(&["run", "--quiet", "--package", "plimsoll-generate", "--", what])
            };
            if kubernetes_types {
                generate("kubernetes-types")?;
            }
            generate("crds")?;
            test::write_documented_output()
        }
    }
}
