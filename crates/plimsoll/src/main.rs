//! The `plimsoll` program: parse, wire, print.

mod args;
mod cluster;
mod commands;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let done = match args.command {
        args::Command::Up(args) => commands::up::run(&args),
        args::Command::Allocate(args) => commands::allocate::run(&args),
        args::Command::Evaluate(args) => commands::evaluate::run(&args),
        args::Command::Install(args) => commands::install::run(&args),
        args::Command::SdkServer(args) => commands::sdk_server::run(&args),
    };
    done.unwrap_or_else(|err| {
        eprintln!("plimsoll: {err:#}");
        ExitCode::FAILURE
    })
}
