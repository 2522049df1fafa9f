//! The `plimsoll` program: parse, wire, print.

mod args;
mod commands;
mod input;
mod kubeconfig;
mod listening;
mod measuring;
mod sidecar;

use std::process::ExitCode;

use clap::Parser;
use tikv_jemallocator::Jemalloc;

/// An API server is made of small trees that come and go, on other threads than they came from (decision 0006).
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// The word by which the program is told to start another one: how children of `up` come to be.
pub(crate) const LAUNCH: &str = "launch";

fn main() -> ExitCode {
    // Before anything else, since this becomes another program.
    let mut typed = std::env::args_os().skip(1);
    if typed.next().is_some_and(|word| word == LAUNCH) {
        return kubelet::launch::main(typed);
    }
    let args = args::Args::parse();
    if let Some(usual) = usual_log_level(&args.command) {
        process::log::init(&usual, args.log_format.into());
    }
    let done = match args.command {
        args::Command::Up(args) => commands::up::run(&args),
        args::Command::Run(args) => commands::run::run(&args),
        args::Command::Allocate(args) => commands::allocate::run(&args),
        args::Command::Evaluate(args) => commands::evaluate::run(&args),
        args::Command::Install(args) => commands::install::run(&args),
        args::Command::SdkServer(args) => commands::sdk_server::run(&args),
        args::Command::SampleServer(args) => Ok(commands::sample_server::run(args)),
        args::Command::Completions(args) => commands::completions::run(&args),
    };
    done.unwrap_or_else(|err| {
        eprintln!("plimsoll: {}", process::log::chain(&*err));
        ExitCode::FAILURE
    })
}

/// Lets memory that was freed go back to the system, also when nothing is going on. It starts a thread, so that it comes after what must
/// be done before there is one. Where the system has no such threads, memory goes back with later work.
pub(crate) fn give_memory_back() {
    let _ = tikv_jemalloc_ctl::background_thread::write(true);
}

/// Returns how much a command logs where `PLIMSOLL_LOG` says nothing; `None`: it does not log.
fn usual_log_level(command: &args::Command) -> Option<String> {
    match command {
        args::Command::Up(_) | args::Command::Run(_) => Some("info".to_owned()),
        args::Command::SdkServer(args) => Some(args.log_level.to_lowercase()),
        args::Command::Allocate(_)
        | args::Command::Evaluate(_)
        | args::Command::Install(_)
        | args::Command::SampleServer(_)
        | args::Command::Completions(_) => None,
    }
}
