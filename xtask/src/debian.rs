//! Debian's packages, unpacked outside the checkout instead of installed: nothing on the machine changes, and no server is started for it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::{kube, run};

/// Returns the folder with the files of some packages; downloads and unpacks them if it is missing. `prepare` changes the files once, and gets
/// the folder with them, and the one that they will be in.
pub(crate) fn unpacked(
    name: &str,
    packages: &[&str],
    prepare: impl FnOnce(&Path, &Path) -> anyhow::Result<()>,
) -> anyhow::Result<PathBuf> {
    let folder = kube::cache()?.join(name);
    if folder.exists() {
        return Ok(folder);
    }
    let missing = || format!("no {name}: its packages could not be downloaded");
    eprintln!("downloading {name} (once)");
    // Under this name no other run unpacks at the same time, nor takes a part for the whole.
    let part = folder.with_extension(format!("part{}", std::process::id()));
    std::fs::create_dir_all(&part)?;
    run::command(Command::new("apt-get").args(["update", "-qq"])).with_context(missing)?;
    let mut download = Command::new("apt-get");
    download.args(["download", "-qq"]).args(packages);
    run::command_in(&part, &mut download).with_context(missing)?;
    for entry in std::fs::read_dir(&part)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            run::command(Command::new("dpkg-deb").arg("--extract").arg(&path).arg(&part))?;
            std::fs::remove_file(&path)?;
        }
    }
    prepare(&part, &folder)?;
    if std::fs::rename(&part, &folder).is_err() {
        // Another run was faster.
        std::fs::remove_dir_all(&part)?;
    }
    Ok(folder)
}
