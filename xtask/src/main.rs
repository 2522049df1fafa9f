//! Developer commands: `cargo xtask check`, `test`, `bench`, `generate`.
//!
//! This program stays small, because every command waits for it to build; what needs the project's crates is a
//! package or a test of its own, which these commands start.

mod check;
mod run;
mod test;

use clap::{Parser, Subcommand};

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
    /// Install and start what the tests need, and run them all
    Test {
        /// Only tests whose name contains this
        filter: Option<String>,
    },
    /// Measure, next to the peer or the limit: `cargo xtask bench --help` lists the benches
    #[command(disable_help_flag = true)]
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Write generated files anew: CRDs, output in the documentation
    Generate,
}

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Check => check::all(),
        Command::Test { filter } => test::all(filter.as_deref()),
        Command::Bench { args } => {
            let mut command =
                vec!["run", "--quiet", "--release", "--package", "plimsoll-bench", "--"];
            command.extend(args.iter().map(String::as_str));
            run::cargo(&command)
        }
        Command::Generate => test::bless(),
    }
}
