//! Starts programs in the project's root, shows what is started, and fails when they fail.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

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
    let shown = prepare(folder, command);
    let status = command.status().with_context(|| format!("could not start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}

/// Runs a command in the project's root, prints its output, and returns it with how the command ended.
pub fn captured(command: &mut Command) -> anyhow::Result<(ExitStatus, Vec<String>)> {
    let shown = prepare(&root(), command);
    let context = || format!("could not run `{shown}`");
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(context)?;
    let mut lines = Vec::new();
    for line in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).split(b'\n')) {
        let line = String::from_utf8_lossy(&line?).into_owned();
        writeln!(std::io::stdout(), "{line}")?;
        lines.push(line);
    }
    Ok((child.wait().with_context(context)?, lines))
}

/// Sets a command up to run in a folder, prints it, and returns it as text.
fn prepare(folder: &Path, command: &mut Command) -> String {
    let shown = show(command);
    eprintln!("+ {shown}");
    // Variables that cargo sets for xtask are not passed on: some build scripts depend on them, and would run again.
    let of_xtask = ["CARGO_PKG_", "CARGO_MANIFEST_"];
    for (name, _) in std::env::vars_os() {
        if of_xtask.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command.current_dir(folder);
    shown
}

fn show(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    command.get_args().fold(program, |line, arg| format!("{line} {}", arg.to_string_lossy()))
}
