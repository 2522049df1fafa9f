//! `cargo xtask check`: all that can be checked without running the tests.

use std::process::Command;

use anyhow::bail;

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
    arrows()?;
    tidy::clocks()?;
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

/// Which crates must not reach which others, however indirectly: (crate, what it must not depend on).
const ARROWS: [(&str, &str); 12] = [
    ("plimsoll-decide", "tokio"),
    ("plimsoll-decide", "kube-core"),
    ("plimsoll-decide", "k8s-openapi"),
    ("plimsoll-api", "tokio"),
    ("plimsoll-connect", "plimsoll-engine"),
    ("plimsoll-control", "plimsoll-engine"),
    ("plimsoll-serve", "plimsoll-engine"),
    ("plimsoll-engine", "plimsoll-control"),
    ("plimsoll-scheduler", "plimsoll-engine"),
    ("plimsoll-scheduler", "plimsoll-apimachinery"),
    ("plimsoll-process", "plimsoll-api"),
    ("plimsoll-process", "plimsoll-decide"),
];

fn arrows() -> anyhow::Result<()> {
    for (from, to) in ARROWS {
        let found = Command::new("cargo")
            .args(["tree", "--locked", "--edges", "normal", "--prefix", "none", "--package", from])
            .current_dir(run::root())
            .output()?;
        if !found.status.success() {
            bail!(
                "`cargo tree --package {from}` failed: {}",
                String::from_utf8_lossy(&found.stderr)
            );
        }
        let names = String::from_utf8(found.stdout)?;
        if names.lines().any(|line| line.split(' ').next() == Some(to)) {
            bail!(
                "{from} must not depend on {to} (ARCHITECTURE.md): `cargo tree -p {from} -i {to}` shows how it does"
            );
        }
    }
    Ok(())
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
