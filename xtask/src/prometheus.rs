//! A real Prometheus for the tests of the metric source: Debian's package, unpacked once, outside the checkout.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::{kube, run};

/// The package that is unpacked.
const PACKAGE: &str = "prometheus";

/// Returns the path of the program, and downloads it where it is missing.
pub fn program() -> anyhow::Result<PathBuf> {
    let folder = kube::cache()?.join(PACKAGE);
    let program = folder.join("usr/bin/prometheus");
    if Command::new(&program).arg("--version").output().is_ok() {
        return Ok(program);
    }
    let missing = "no Prometheus: its package could not be downloaded";
    std::fs::create_dir_all(&folder)?;
    eprintln!("downloading Prometheus (once)");
    run::command(Command::new("apt-get").args(["update", "-qq"])).context(missing)?;
    run::command_in(&folder, Command::new("apt-get").args(["download", "-qq", PACKAGE]))
        .context(missing)?;
    for entry in std::fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            run::command(Command::new("dpkg-deb").arg("--extract").arg(&path).arg(&folder))?;
            std::fs::remove_file(&path)?;
        }
    }
    ensure!(program.exists(), "the package {PACKAGE} has no {}", program.display());
    Ok(program)
}
