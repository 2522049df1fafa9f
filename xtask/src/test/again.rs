//! Runs failed tests once more, alone. The tests share a machine with the real servers that they use, and one that waits for
//! another program may wait too short a time while everything else runs. What fails alone, too, has failed.

use std::process::Command;

use anyhow::{bail, ensure};
use xtask::run;

use super::TESTS;

/// The most tests that are run again: more do not fail by chance.
const MOST: usize = 3;

/// Runs the tests again that have failed, with the environment of the first run, and prints their names.
pub(super) fn run(first: &Command, lines: &[String]) -> anyhow::Result<()> {
    let failed = named(lines, "FAILED");
    match failed.len() {
        0 => bail!("the tests failed without naming one: see above"),
        1..=MOST => {}
        count => bail!("{count} tests failed: {}", failed.join(", ")),
    }
    eprintln!("failed; run again alone: {}", failed.join(", "));
    let mut command = Command::new("cargo");
    command.args(TESTS).args(["--", "--exact", "--test-threads=1"]).args(&failed);
    for (name, value) in first.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let (status, lines) = run::captured(&mut command)?;
    let passed = named(&lines, "ok");
    ensure!(
        status.success() && failed.iter().all(|name| passed.contains(name)),
        "these tests failed, and again alone: {}",
        failed.iter().filter(|name| !passed.contains(name)).copied().collect::<Vec<_>>().join(", ")
    );
    eprintln!("UNRELIABLE: passed only when run alone: {}", failed.join(", "));
    Ok(())
}

/// Returns the names of the tests that ended like this.
fn named<'a>(lines: &'a [String], outcome: &str) -> Vec<&'a str> {
    let name =
        |line: &'a String| line.strip_prefix("test ")?.strip_suffix(outcome)?.strip_suffix(" ... ");
    let mut names: Vec<&str> = lines.iter().filter_map(name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_are_found_in_what_cargo_prints() {
        let printed = "running 3 tests\ntest a::b ... ok\ntest a::c ... FAILED\ntest d - e ... FAILED\n\
            test src/lib.rs - f (line 3) ... ok\n\nfailures:\n\n---- a::c stdout ----\ntest a::c\n\n\
            failures:\n    a::c\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored";
        let lines: Vec<String> = printed.lines().map(str::to_owned).collect();
        assert_eq!(named(&lines, "FAILED"), ["a::c", "d - e"]);
        assert_eq!(named(&lines, "ok"), ["a::b", "src/lib.rs - f (line 3)"]);
    }
}
