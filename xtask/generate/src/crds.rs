//! Writes the CRDs in `deploy/crds` from the fields of the kinds.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};

/// Writes a file for each kind, and removes those that belong to no kind.
pub(crate) fn write(folder: &Path) -> anyhow::Result<()> {
    let files = files()?;
    fs::create_dir_all(folder).with_context(|| format!("could not create {}", folder.display()))?;
    for (name, text) in &files {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("could not write {}", path.display()))?;
    }
    for name in present(folder)?.iter().filter(|name| !files.contains_key(*name)) {
        fs::remove_file(folder.join(name))?;
    }
    Ok(())
}

/// Fails if a file is missing, differs from its kind, or belongs to no kind.
pub(crate) fn check(folder: &Path) -> anyhow::Result<()> {
    let files = files()?;
    for (name, text) in &files {
        if fs::read_to_string(folder.join(name)).ok().as_ref() != Some(text) {
            bail!("deploy/crds/{name} is out of date: run `cargo xtask generate`");
        }
    }
    if let Some(name) = present(folder)?.iter().find(|name| !files.contains_key(*name)) {
        bail!("deploy/crds/{name} belongs to no kind: run `cargo xtask generate`");
    }
    Ok(())
}

/// Returns the text of each file by its name.
fn files() -> anyhow::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for kind in api::KINDS {
        let Some(crd) = kind.crd else { continue };
        let yaml = serde_saphyr::to_string(&crd())?;
        let text =
            format!("# Generated from the fields of the kind by `cargo xtask generate`.\n{yaml}");
        files.insert(format!("{}.{}.yaml", kind.plural, kind.group), text);
    }
    Ok(files)
}

fn present(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))?;
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_outdated_and_foreign_files_are_found() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check(folder.path()).is_err(), "nothing is there");
        write(folder.path()).unwrap();
        check(folder.path()).unwrap();
        fs::write(folder.path().join("foreign.yaml"), "").unwrap();
        assert!(check(folder.path()).unwrap_err().to_string().contains("foreign.yaml"));
        let name = files().unwrap().into_keys().next().unwrap();
        fs::write(folder.path().join(&name), "").unwrap();
        assert!(check(folder.path()).unwrap_err().to_string().contains(&name));
        write(folder.path()).unwrap();
        check(folder.path()).unwrap();
    }
}
