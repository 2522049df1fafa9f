//! What was typed on the command line.

use std::net::SocketAddr;
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
    Up(Up),
    Evaluate(Evaluate),
}

/// Start everything on the embedded engine: a Kubernetes API on this machine
///
/// Objects are kept in the data directory and are there again after a restart. kubectl and any other client use the
/// kubeconfig that is written there. Ends with Ctrl-C.
#[derive(Parser)]
pub(crate) struct Up {
    /// Objects to apply once it is ready (YAML or JSON; `-` is standard input)
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Where objects are kept [default: $XDG_DATA_HOME/plimsoll, or ~/.local/share/plimsoll]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Keep everything in memory; nothing outlives the process
    #[arg(long)]
    pub(crate) ephemeral: bool,
    /// Where to listen; port 0 takes a free one. An address other than a loopback one lets other machines in
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7440")]
    pub(crate) listen: SocketAddr,
    /// Where to write the kubeconfig [default: kubeconfig in the data directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) write_kubeconfig: Option<PathBuf>,
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
