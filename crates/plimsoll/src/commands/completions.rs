//! `plimsoll completions`: what lets a shell complete our command lines.

use std::io::Write as _;
use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::args::{Args, Completions};

pub(crate) fn run(args: &Completions) -> anyhow::Result<ExitCode> {
    // Whole, because clap panics where it cannot write: `plimsoll completions zsh | head` is no reason to.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "plimsoll", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
