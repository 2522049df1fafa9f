//! A real Prometheus for the tests of the metric source: Debian's package, unpacked once, outside the checkout.

use std::path::PathBuf;

use anyhow::ensure;

use crate::debian;

/// Returns the path of the program, and downloads it where it is missing.
pub fn program() -> anyhow::Result<PathBuf> {
    let folder = debian::unpacked("prometheus", &["prometheus"], |_, _| Ok(()))?;
    let program = folder.join("usr/bin/prometheus");
    ensure!(program.exists(), "there is no {}; delete {}", program.display(), folder.display());
    Ok(program)
}
