//! The `plimsoll` program: parses arguments and runs subcommands.

mod args;
mod commands;
mod input;
mod kubeconfig;
mod listening;
mod manifest;
mod measuring;
mod resources;
mod settings;
mod sidecar;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use ::process::log::Format;
use clap::Parser;
use tikv_jemallocator::Jemalloc;

/// An API server allocates many small objects and frees them on other threads (decision 0006).
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// The hidden subcommand that executes another program, as the parent of the processes of `up`.
pub(crate) const LAUNCH: &str = "launch";

/// The name under which the program takes the place of Cluster Autoscaler.
const CLUSTER_AUTOSCALER: &str = "cluster-autoscaler";

fn main() -> ExitCode {
    // Before anything else, since this replaces the process.
    let mut raw_args = std::env::args_os();
    let program = raw_args.next().unwrap_or_default();
    if Path::new(&program).file_name().is_some_and(|name| name == CLUSTER_AUTOSCALER) {
        let flags: Vec<OsString> = raw_args.collect();
        return exit_code(commands::cluster_autoscaler::run(
            CLUSTER_AUTOSCALER,
            flags,
            Format::Text,
        ));
    }
    if raw_args.next().is_some_and(|word| word == LAUNCH) {
        return kubelet::launch::main(raw_args);
    }
    let args = args::Args::parse();
    if let Some(level) = default_log_level(&args.command) {
        process::log::init(&level, args.log_format.into());
    }
    let result = match args.command {
        args::Command::Up(args) => commands::up::run(&args),
        args::Command::Run(args) => commands::run::run(&args),
        args::Command::Apply(args) => commands::apply::run(args),
        args::Command::Get(args) => commands::get::run(&args),
        args::Command::Watch(args) => commands::get::run_watch(args),
        args::Command::Delete(args) => commands::delete::run(&args),
        args::Command::Allocate(args) => commands::allocate::run(&args),
        args::Command::Evaluate(args) => commands::evaluate::run(&args),
        args::Command::Install(args) => commands::install::run(&args),
        args::Command::SdkServer(args) => commands::sdk_server::run(&args),
        args::Command::ClusterAutoscaler(own) => {
            let program = "plimsoll cluster-autoscaler";
            commands::cluster_autoscaler::run(program, own.flags, args.log_format.into())
        }
        args::Command::SampleServer(args) => Ok(commands::sample_server::run(args)),
        args::Command::SampleService(args) => commands::sample_service::run(&args),
        args::Command::Load(args) => commands::load::run(&args),
        args::Command::Completions(args) => commands::completions::run(&args),
    };
    exit_code(result)
}

/// Prints an error.
fn exit_code(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|err| {
        eprintln!("plimsoll: {}", cluster::explain(&*err));
        ExitCode::FAILURE
    })
}

/// Returns freed memory to the system also while the process is idle. This starts a thread, so call it after everything that must run
/// single-threaded. On systems without such threads, memory is returned with later allocations.
pub(crate) fn enable_background_purging() {
    let _ = tikv_jemalloc_ctl::background_thread::write(true);
}

/// Returns the log level of a command where `PLIMSOLL_LOG` is not set; `None` if it does not log.
fn default_log_level(command: &args::Command) -> Option<String> {
    match command {
        args::Command::Up(_) | args::Command::Run(_) => Some("info".to_owned()),
        args::Command::SdkServer(args) => Some(args.log_level.to_lowercase()),
        args::Command::Apply(_)
        | args::Command::Get(_)
        | args::Command::Watch(_)
        | args::Command::Delete(_)
        | args::Command::Allocate(_)
        | args::Command::Evaluate(_)
        | args::Command::Install(_)
        // It sets logging up itself, as its flags ask for.
        | args::Command::ClusterAutoscaler(_)
        | args::Command::SampleServer(_)
        | args::Command::SampleService(_)
        | args::Command::Load(_)
        | args::Command::Completions(_) => None,
    }
}
