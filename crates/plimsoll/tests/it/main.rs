//! The program from the outside: its answers to the recorded vectors, its documentation, its manners.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing, also in its helpers")]

mod allocate;
mod evaluate;
mod fleets;
mod guide;
mod install;
mod kill;
mod kubectl;
mod nodes;
mod policies;
mod sdk;
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
