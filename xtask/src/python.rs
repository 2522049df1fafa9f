//! Installs a Python with grpcio, for tests with clients in Python: once, outside the checkout.

use std::path::PathBuf;
use std::process::Command;

use anyhow::bail;

use crate::kube;

/// The packages to install, from PyPI.
const PACKAGES: [&str; 2] = ["grpcio==1.85.1", "grpcio-tools==1.85.1"];

/// Returns the interpreter; installs it if it is missing.
pub fn interpreter() -> anyhow::Result<PathBuf> {
    let folder = kube::cache()?.join("python").join(PACKAGES.join("_"));
    let interpreter = folder.join("bin/python");
    if Command::new(&interpreter)
        .args(["-c", "import grpc, grpc_tools"])
        .status()
        .is_ok_and(|s| s.success())
    {
        return Ok(interpreter);
    }
    eprintln!("installing grpcio for Python (a minute, once)");
    let venv = Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder).status()?;
    let pip = Command::new(&interpreter)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .args(PACKAGES)
        .status()?;
    if !venv.success() || !pip.success() {
        bail!("could not install {}", PACKAGES.join(" and "));
    }
    Ok(interpreter)
}
