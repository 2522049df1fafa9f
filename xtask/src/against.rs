//! `cargo xtask bench NAME --against REV`: the figures of this checkout next to those of another revision.
//!
//! Both are built, and run alternately, so that other load on the machine affects both. The other revision is a
//! worktree in the cache; its bench is its own, and only the tables that it writes are compared.

mod table;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use xtask::{kube, run};

use table::{Comparison, Report};

/// How often each revision is measured.
const ROUNDS: usize = 5;

/// The options of a comparison.
#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    revision: String,
    rounds: usize,
    /// The bench and its own options.
    bench: Vec<String>,
}

impl Options {
    /// Finds `--against REV` and `--rounds N` among the arguments of a bench, which are passed on as they are otherwise.
    pub(crate) fn parse(args: &[String]) -> anyhow::Result<Option<Self>> {
        let mut bench = args.to_vec();
        let Some(revision) = take(&mut bench, "--against")? else { return Ok(None) };
        let rounds = match take(&mut bench, "--rounds")? {
            Some(text) => text.parse().ok().filter(|rounds| *rounds > 0),
            None => Some(ROUNDS),
        };
        let rounds = rounds.context("--rounds: expected a number above zero")?;
        Ok(Some(Self { revision, rounds, bench }))
    }
}

/// Takes an option and its value out of arguments.
fn take(args: &mut Vec<String>, option: &str) -> anyhow::Result<Option<String>> {
    let joined = format!("{option}=");
    if let Some(at) = args.iter().position(|arg| arg.starts_with(&joined)) {
        return Ok(Some(args.remove(at)[joined.len()..].to_owned()));
    }
    let Some(at) = args.iter().position(|arg| arg == option) else { return Ok(None) };
    if at + 1 == args.len() {
        bail!("{option}: expected a value");
    }
    args.remove(at);
    Ok(Some(args.remove(at)))
}

/// Builds both revisions, measures them alternately, and prints their medians side by side.
pub(crate) fn compare(options: &Options) -> anyhow::Result<()> {
    let commit = commit(&options.revision)?;
    let short = &commit[..12];
    let cache = kube::cache()?.join("against");
    let other = Checkout { root: cache.join(short), target: cache.join("target") };
    if !other.root.join(".git").exists() {
        let mut add = Command::new("git");
        run::command(
            add.args(["worktree", "add", "--force", "--detach"]).arg(&other.root).arg(&commit),
        )?;
    }
    let own = Checkout { root: run::root(), target: run::target() };
    // The other revisions share a folder of what is built, so the program is copied away at once.
    let folder = cache.join("programs");
    std::fs::create_dir_all(&folder)?;
    let before = other.build(&folder.join(short))?;
    let now = own.build(&folder.join("own"))?;
    let written = folder.join("report.json");
    let (mut befores, mut nows) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        eprintln!("round {} of {}", round + 1, options.rounds);
        // Neither is always the first, which finds caches cold.
        for is_own in [round % 2 == 1, round % 2 == 0] {
            let (checkout, program, reports) =
                if is_own { (&own, &now, &mut nows) } else { (&other, &before, &mut befores) };
            let mut measure = Command::new(program);
            measure.args(&options.bench).arg("--json").arg(&written);
            run::command_in(&checkout.root, measure.stdout(std::process::Stdio::null()))?;
            let report = std::fs::read(&written).context("the bench wrote no figures")?;
            reports.push(Report::read(&report)?);
            std::fs::remove_file(&written)?;
        }
    }
    let comparison = Comparison::new(&befores, &nows)?;
    comparison.print(short, &mut std::io::stdout().lock())?;
    Ok(())
}

fn commit(revision: &str) -> anyhow::Result<String> {
    let mut parse = Command::new("git");
    parse.args(["rev-parse", "--verify", "--quiet", "--end-of-options"]);
    let found = parse.arg(format!("{revision}^{{commit}}")).current_dir(run::root()).output()?;
    if !found.status.success() {
        bail!("--against: there is no revision `{revision}`");
    }
    Ok(String::from_utf8(found.stdout)?.trim().to_owned())
}

/// The files of a revision, and the folder of its build.
struct Checkout {
    root: PathBuf,
    target: PathBuf,
}

impl Checkout {
    /// Builds the benches and copies the program to `program`.
    fn build(&self, program: &Path) -> anyhow::Result<PathBuf> {
        let mut build = Command::new("cargo");
        build.args(["build", "--release", "--locked", "--package", "plimsoll-bench"]);
        run::command_in(&self.root, build.env("CARGO_TARGET_DIR", &self.target))?;
        std::fs::copy(self.target.join("release/plimsoll-bench"), program)?;
        Ok(program.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_revision_is_taken_out_of_the_options_of_the_bench() {
        let parsed =
            Options::parse(&words("engine --pods 10 --against main~2 --seconds 1")).unwrap();
        let (revision, bench) = ("main~2".to_owned(), words("engine --pods 10 --seconds 1"));
        assert_eq!(parsed, Some(Options { revision, rounds: 5, bench }));
        let parsed = Options::parse(&words("--against=v1 --rounds=1 allocate")).unwrap();
        let expected = Options { revision: "v1".to_owned(), rounds: 1, bench: words("allocate") };
        assert_eq!(parsed, Some(expected));
        assert_eq!(Options::parse(&words("engine --pods 10")).unwrap(), None);
        assert!(Options::parse(&words("engine --against")).is_err());
        assert!(Options::parse(&words("engine --against main --rounds 0")).is_err());
    }
}
