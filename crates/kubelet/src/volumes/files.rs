//! Writes the files of a volume so that a program sees all changes at once.
//!
//! The files are in a directory with a number. `..data` is a symbolic link to it, which is replaced in one step, and each
//! file of the volume is a symbolic link through `..data`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use super::directory::create;

const DATA: &str = "..data";
const NEW_DATA: &str = "..data_tmp";

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    pub(super) bytes: Vec<u8>,
    pub(super) mode: u32,
}

/// Files by their path in the volume.
pub(super) type Files = BTreeMap<PathBuf, File>;

/// Makes the volume have these files and no others. Nothing is written if it has them already.
pub(super) fn replace(volume: &Path, files: &Files) -> io::Result<()> {
    create(volume, 0o755)?;
    let outside = files
        .keys()
        .find(|path| !path.components().all(|part| matches!(part, Component::Normal(_))));
    if let Some(path) = outside {
        return Err(io::Error::other(format!(
            "the path {:?} is not inside the volume",
            path.display()
        )));
    }
    let old = fs::read_link(volume.join(DATA)).ok();
    if old.as_ref().is_some_and(|old| is_same(&volume.join(old), files)) {
        return Ok(());
    }
    let number = old.as_ref().and_then(|old| old.to_str()?.strip_prefix("..")?.parse::<u64>().ok());
    let new = format!("..{}", number.unwrap_or(0) + 1);
    let dir = volume.join(&new);
    // A write that failed may have left some of it.
    remove(&dir)?;
    create(&dir, 0o755)?;
    for (path, file) in files {
        let path = dir.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, &file.bytes)?;
        fs::set_permissions(&path, Permissions::from_mode(file.mode & 0o777))?;
    }
    remove_file(&volume.join(NEW_DATA))?;
    symlink(&new, volume.join(NEW_DATA))?;
    fs::rename(volume.join(NEW_DATA), volume.join(DATA))?;
    link_all(volume, files)?;
    match old {
        Some(old) => remove(&volume.join(old)),
        None => Ok(()),
    }
}

/// Links the first part of every path, and removes the links of files that are gone.
fn link_all(volume: &Path, files: &Files) -> io::Result<()> {
    let names: BTreeSet<OsString> =
        files.keys().filter_map(|path| Some(path.iter().next()?.to_owned())).collect();
    for name in &names {
        match symlink(Path::new(DATA).join(name), volume.join(name)) {
            Err(err) if err.kind() != io::ErrorKind::AlreadyExists => return Err(err),
            _ => {}
        }
    }
    for entry in fs::read_dir(volume)? {
        let name = entry?.file_name();
        if !name.as_encoded_bytes().starts_with(b"..") && !names.contains(&name) {
            remove_file(&volume.join(name))?;
        }
    }
    Ok(())
}

fn is_same(dir: &Path, files: &Files) -> bool {
    let mut found = 0;
    count(dir, &mut found);
    found == files.len()
        && files.iter().all(|(path, file)| {
            let path = dir.join(path);
            let mode = path.metadata().map(|metadata| metadata.permissions().mode() & 0o777);
            mode.is_ok_and(|mode| mode == file.mode & 0o777)
                && fs::read(&path).is_ok_and(|bytes| bytes == file.bytes)
        })
}

fn count(dir: &Path, found: &mut usize) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            count(&entry.path(), found);
        } else {
            *found += 1;
        }
    }
}

fn remove(dir: &Path) -> io::Result<()> {
    unless_missing(fs::remove_dir_all(dir))
}

fn remove_file(path: &Path) -> io::Result<()> {
    unless_missing(fs::remove_file(path))
}

fn unless_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(all: &[(&str, &str, u32)]) -> Files {
        let file = |text: &str, mode| File { bytes: text.into(), mode };
        all.iter().map(|(path, text, mode)| (path.into(), file(text, *mode))).collect()
    }

    fn listed(dir: &Path) -> BTreeSet<String> {
        let names =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    #[test]
    fn files_are_replaced_all_at_once_and_old_ones_are_removed() {
        let dir = std::env::temp_dir().join(uuid::Uuid::new_v4().to_string());
        replace(&dir, &files(&[("a", "1", 0o644), ("b/c", "2", 0o400)])).unwrap();
        assert_eq!(fs::read_to_string(dir.join("b/c")).unwrap(), "2");
        assert_eq!(dir.join("b/c").metadata().unwrap().permissions().mode() & 0o777, 0o400);
        assert_eq!(listed(&dir), ["..1", "..data", "a", "b"].map(str::to_owned).into());
        replace(&dir, &files(&[("a", "1", 0o644), ("b/c", "2", 0o400)])).unwrap();
        assert_eq!(fs::read_link(dir.join(DATA)).unwrap(), Path::new("..1"), "nothing changed");
        replace(&dir, &files(&[("a", "3", 0o644), ("d", "", 0o644)])).unwrap();
        assert_eq!(fs::read_to_string(dir.join("a")).unwrap(), "3");
        assert_eq!(listed(&dir), ["..2", "..data", "a", "d"].map(str::to_owned).into());
        assert!(replace(&dir, &files(&[("../x", "", 0o644)])).is_err());
        fs::remove_dir_all(dir).unwrap();
    }
}
