//! Runs `cargo xtask check`: every check but the tests.

use std::process::Command;

use crate::tidy;
use xtask::run;

/// Runs every check, and stops at the first that fails.
pub(crate) fn all() -> anyhow::Result<()> {
    run::cargo(&["fmt", "--all", "--check"])?;
    run::cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--quiet",
        "--",
        "-D",
        "warnings",
    ])?;
    run::command(
        Command::new("cargo")
            .args(["doc", "--workspace", "--no-deps", "--locked", "--quiet"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    tidy::all()?;
    run::cargo(&[
        "run",
        "--quiet",
        "--locked",
        "--package",
        "plimsoll-generate",
        "--",
        "crds",
        "--check",
    ])?;
    deny()
}

/// Checks licences, bans, sources and advisories with cargo-deny, which is installed when it is missing.
fn deny() -> anyhow::Result<()> {
    let is_there = Command::new("cargo")
        .args(["deny", "--version"])
        .output()
        .is_ok_and(|o| o.status.success());
    if !is_there {
        eprintln!("cargo-deny is missing; installing it (some minutes, once)");
        run::cargo(&["install", "--locked", "--quiet", "cargo-deny@0.20.2"])?;
    }
    // A build fetches only what its own platform needs; the check covers every platform.
    run::cargo(&["fetch", "--locked", "--quiet"])?;
    run::cargo(&["deny", "--offline", "check", "licenses", "bans", "sources"])?;
    // The database of advisories comes from outside the package registries, which not every machine reaches.
    if run::cargo(&["deny", "fetch", "db"]).is_err() {
        eprintln!("advisories are NOT checked: their database cannot be fetched from here");
        return Ok(());
    }
    run::cargo(&["deny", "--offline", "check", "advisories"])
}
