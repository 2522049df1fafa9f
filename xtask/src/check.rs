//! `cargo xtask check`: all that can be checked without running the tests.

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
    // All packages, although one has this test: it is the build that the tests need next.
    run::cargo(&[
        "test",
        "--quiet",
        "--locked",
        "--workspace",
        "--test",
        "it",
        "crds_in_deploy_are_fresh",
    ])?;
    deny()
}

/// Checks licences, bans and sources with cargo-deny, which is installed when it is missing.
fn deny() -> anyhow::Result<()> {
    let is_there = Command::new("cargo")
        .args(["deny", "--version"])
        .output()
        .is_ok_and(|o| o.status.success());
    if !is_there {
        eprintln!("cargo-deny is missing; installing it (some minutes, once)");
        run::cargo(&["install", "--locked", "--quiet", "cargo-deny@0.20.2"])?;
    }
    // A build fetches only what its own platform needs; the check looks at every platform.
    run::cargo(&["fetch", "--locked", "--quiet"])?;
    run::cargo(&["deny", "--offline", "check", "licenses", "bans", "sources"])
}
