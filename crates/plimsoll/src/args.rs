//! What was typed on the command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use jiff::Timestamp;

/// One autoscaler for every layer: game-server fleets, services, and the nodes beneath them.
#[derive(Parser)]
#[command(version, propagate_version = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Evaluate(Evaluate),
}

/// Decide offline: read objects from files, print what would be decided about them, and why
///
/// Files hold Kubernetes objects (YAML or JSON, many documents, or a List). A decision is printed for each object that
/// can be decided with the others as its world; the rest are only validated. Nothing is contacted and nothing is changed.
#[derive(Parser)]
#[command(
    after_help = "Exit code: 0 decided, 2 invalid input (one line per problem: file, document, field, what was expected)."
)]
pub(crate) struct Evaluate {
    /// A file to read; `-` is standard input; may be given many times
    #[arg(short, long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    pub(crate) files: Vec<PathBuf>,
    /// How to print the decisions
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
    /// The moment at which to decide, as RFC 3339 [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<Timestamp>,
    /// The present size of the target, where the files do not hold the target itself
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u32>,
}

#[derive(Clone, Copy, Default, ValueEnum)]
pub(crate) enum Output {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}
