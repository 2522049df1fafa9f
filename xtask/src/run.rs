//! Starts programs in the project's root, shows what is started, and fails when they fail.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// Gives the project's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lives in the project")
        .to_path_buf()
}

/// Runs cargo with these arguments.
pub(crate) fn cargo(args: &[&str]) -> anyhow::Result<()> {
    command(Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())).args(args))
}

/// Runs a command in the project's root and fails if it does.
pub(crate) fn command(command: &mut Command) -> anyhow::Result<()> {
    let shown = show(command);
    eprintln!("+ {shown}");
    let status = command
        .current_dir(root())
        .status()
        .with_context(|| format!("could not start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}

fn show(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    command.get_args().fold(program, |line, arg| format!("{line} {}", arg.to_string_lossy()))
}
