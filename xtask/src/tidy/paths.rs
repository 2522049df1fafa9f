//! Checks that the files that the documentation names exist.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use xtask::run;

/// The folders whose paths are checked where the documentation names them.
const FOLDERS: [&str; 7] =
    ["crates/", "docs/", "examples/", "deploy/", "xtask/", "fuzz/", "vectors/"];

/// Checks ARCHITECTURE.md, the README and the guide.
pub(crate) fn check() -> anyhow::Result<()> {
    let root = run::root();
    let mut pages: Vec<PathBuf> =
        ["ARCHITECTURE.md", "README.md"].map(|page| root.join(page)).into();
    for entry in std::fs::read_dir(root.join("docs/guide"))? {
        pages.push(entry?.path());
    }
    pages.sort();
    for page in pages {
        let text = std::fs::read_to_string(&page)
            .with_context(|| format!("could not read {}", page.display()))?;
        if let Some(path) = missing(&text, &root) {
            let page = page.strip_prefix(&root).unwrap_or(&page).display();
            bail!("{page} names `{path}`, which does not exist");
        }
    }
    Ok(())
}

/// Returns the first path between backticks that does not exist. `{a,b}` and `*` stand for several files.
fn missing<'t>(text: &'t str, root: &Path) -> Option<&'t str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let is_path = |text: &&str| {
        FOLDERS.iter().any(|folder| text.starts_with(folder)) && !text.contains([' ', '\n'])
    };
    quoted.filter(is_path).find(|path| {
        let fixed = path.split(['*', '{']).next().unwrap_or_default();
        let folder = match fixed.rsplit_once('/') {
            Some((folder, _)) if fixed.len() < path.len() => folder,
            _ => fixed,
        };
        !root.join(folder).exists()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_does_not_exist_is_found() {
        let root = run::root();
        assert_eq!(missing("see `xtask/src/tidy.rs` and `crates/*/src`, not `a b`", &root), None);
        assert_eq!(
            missing("see `xtask/src/tidy.rs`, `crates/nothing.rs`", &root),
            Some("crates/nothing.rs")
        );
        assert_eq!(missing("`xtask/src/{main,run}.rs`", &root), None);
    }
}
