//! End-to-end tests of the binary: recorded vectors, documentation, and behaviour on invalid input.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing, also in its helpers")]

mod allocate;
mod apply;
mod cli;
mod cluster_autoscaler;
mod cluster_page;
mod completions;
mod compose;
mod evaluate;
mod external_grpc;
mod fleets;
mod growing;
mod guide;
mod hostile;
mod install;
mod kill;
mod kubectl;
mod laptop;
mod large;
mod lease;
mod logs;
mod machines;
#[path = "../../../connect/tests/it/moto.rs"]
mod moto;
mod nodes;
mod nodes_guide;
mod policies;
mod ports;
#[allow(dead_code, reason = "the tests of connections use all of it")]
#[path = "../../../connect/tests/it/program.rs"]
mod program;
mod replay;
mod rights;
mod rolling_update;
mod run;
mod sample_service;
mod sdk;
mod services;
mod up;
mod vectors;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Starts a command line of the program, in the project's root.
fn plimsoll() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.current_dir(root());
    command
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads what `cargo xtask test` sets; a test that goes without is skipped, but not on CI.
fn from_env(name: &str) -> Option<PathBuf> {
    let found = std::env::var_os(name).map(PathBuf::from);
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "on CI nothing is skipped: {name} is not set");
        eprintln!("skipped: {name} is not set; `cargo xtask test` sets it");
    }
    found
}
