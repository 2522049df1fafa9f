//! `plimsoll completions`: prints a shell completion script.

use std::io::Write as _;
use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::args::{Args, Completions};

pub(crate) fn run(args: &Completions) -> anyhow::Result<ExitCode> {
    // Generated into memory, because clap panics on a write error, such as a closed pipe in `plimsoll completions zsh | head`.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "plimsoll", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
