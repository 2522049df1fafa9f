//! Checks rules that no compiler checks: crate dependencies, circles of modules, paths in the documentation, and the use of time and
//! random numbers.

mod arrows;
mod cycles;
mod paths;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use xtask::run;

/// Runs every check of this kind.
pub(crate) fn all() -> anyhow::Result<()> {
    arrows::check()?;
    cycles::check()?;
    paths::check()?;
    sources_of_time_and_chance()
}

/// The ways to read the wall clock or to draw random numbers.
const FORBIDDEN: [&str; 5] =
    ["Timestamp::now", "SystemTime::now", "Zoned::now", "Utc::now", "fastrand::"];

/// Where they may be used: in the clock and the random source themselves, and for the modules of autoscalers.
const EXEMPT: [&str; 2] = ["crates/process/src/clock.rs", "crates/process/src/random.rs"];

/// Checks that the crates take time and random numbers from the sources that they are given.
fn sources_of_time_and_chance() -> anyhow::Result<()> {
    let root = run::root();
    for file in sources(&root.join("crates"))? {
        let name = file.strip_prefix(&root).unwrap_or(&file).display().to_string();
        if EXEMPT.contains(&name.as_str()) {
            continue;
        }
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("could not read {name}"))?;
        if let Some(line) = forbidden_call(&text) {
            bail!(
                "{name}:{line} reads the wall clock or draws random numbers: take a `process::Clock` or \
                 `process::Random` from the settings"
            );
        }
    }
    Ok(())
}

/// Lists the sources of the crates, without those of tests.
fn sources(crates: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for member in std::fs::read_dir(crates)? {
        found.extend(sources_in(&member?.path().join("src"))?);
    }
    found.sort();
    Ok(found)
}

/// Lists the sources in a folder, without those of tests.
fn sources_in(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    let mut of_tests = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            match path.file_name().and_then(|name| name.to_str()) {
                Some("tests" | "tests.rs") => {}
                Some(_) if path.is_dir() => folders.push(path),
                Some(name) if name.ends_with(".rs") => found.push(path),
                Some(_) | None => {}
            }
        }
    }
    for file in &found {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("could not read {}", file.display()))?;
        of_tests.extend(test_modules(&text).map(|name| file.with_extension("").join(name)));
    }
    found.retain(|file| {
        !of_tests
            .iter()
            .any(|module| file.starts_with(module) || file.with_extension("") == *module)
    });
    found.sort();
    Ok(found)
}

/// Names the modules that a file declares for its tests only.
fn test_modules(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().zip(text.lines().skip(1));
    let declared = lines.filter(|(first, _)| first.trim() == "#[cfg(test)]");
    declared.filter_map(|(_, line)| {
        line.trim().strip_suffix(';')?.rsplit_once("mod ").map(|(_, name)| name)
    })
}

/// Returns the text of a file up to the tests at its end.
fn without_tests(text: &str) -> String {
    let code = text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
    code.flat_map(|line| [line, "\n"]).collect()
}

/// Finds the first line with a forbidden call, before the tests at the end.
fn forbidden_call(text: &str) -> Option<usize> {
    let code = without_tests(text);
    let code = code.lines().enumerate();
    let reads = |line: &str| FORBIDDEN.iter().any(|call| line.contains(call));
    code.filter(|(_, line)| !line.trim_start().starts_with("//"))
        .find(|(_, line)| reads(line))
        .map(|(index, _)| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_reads_the_wall_clock_itself_is_found() {
        assert_eq!(forbidden_call("fn a() {}\nlet now = jiff::Timestamp::now();\n"), Some(2));
        assert_eq!(forbidden_call("// Timestamp::now\nfn a() {}\n"), None);
        assert_eq!(forbidden_call("#[cfg(test)]\nmod tests { SystemTime::now() }\n"), None);
        let modules: Vec<_> =
            test_modules("mod a;\n#[cfg(test)]\nmod crash;\n#[cfg(test)]\nmod tests {").collect();
        assert_eq!(modules, ["crash"]);
    }
}
