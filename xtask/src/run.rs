//! Starts programs in the project's root, shows what is started, and fails when they fail.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// Returns the project's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lives in the project")
        .to_path_buf()
}

/// Returns the folder into which cargo builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Runs cargo with these arguments.
pub fn cargo(args: &[&str]) -> anyhow::Result<()> {
    command(Command::new("cargo").args(args))
}

/// Runs a command in the project's root and fails if it does.
pub fn command(command: &mut Command) -> anyhow::Result<()> {
    command_in(&root(), command)
}

/// Runs a program in the project's root and returns what it prints.
pub fn output(program: &str, args: &[&str]) -> anyhow::Result<String> {
    let found = Command::new(program).args(args).current_dir(root()).output()?;
    if !found.status.success() {
        let why = String::from_utf8_lossy(&found.stderr);
        bail!("`{program} {}` failed: {}", args.join(" "), why.trim());
    }
    Ok(String::from_utf8(found.stdout)?)
}

/// Runs a command in a folder and fails if it does.
pub fn command_in(folder: &Path, command: &mut Command) -> anyhow::Result<()> {
    let shown = show(command);
    eprintln!("+ {shown}");
    // Variables that cargo sets for xtask are not passed on: some build scripts depend on them, and would run again.
    let of_xtask = ["CARGO_PKG_", "CARGO_MANIFEST_"];
    for (name, _) in std::env::vars_os() {
        if of_xtask.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    let status = command
        .current_dir(folder)
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
