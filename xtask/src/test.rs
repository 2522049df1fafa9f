//! `cargo xtask test`: everything the tests need, then the tests.

use std::process::Command;

use crate::run;

/// Runs every test of the workspace, or those whose name contains `filter`.
pub(crate) fn all(filter: Option<&str>) -> anyhow::Result<()> {
    let mut args = vec!["test", "--workspace", "--locked"];
    if let Some(filter) = filter {
        args.extend(["--", filter]);
    }
    run::cargo(&args)
}

/// Lets the tests that compare with generated files write them instead.
pub(crate) fn bless() -> anyhow::Result<()> {
    run::command(
        Command::new("cargo").args(["test", "--workspace", "--quiet"]).env("PLIMSOLL_BLESS", "1"),
    )
}
