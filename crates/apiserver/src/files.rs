//! Files and directories that only their owner may read.
//!
//! A file is written whole or not at all: beside its place, synced, renamed into it, and the directory is synced, so that a
//! crash leaves either what was there before or what is there now.

use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// What the owner may do; nobody else may do anything.
const OWNER_ONLY: u32 = 0o700;

/// Reads a file; `None` if there is none.
pub(crate) fn read(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(err) => Err(err),
    }
}

/// Writes a file with mode 0600, in place of what was there.
pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    write_private_with(path, |_| Ok(text.to_owned()))
}

/// Writes a file with mode 0600, whose text may depend on the file itself.
pub(crate) fn write_private_with(
    path: &Path,
    text: impl FnOnce(&Metadata) -> io::Result<String>,
) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unique = uuid::Uuid::new_v4().simple().to_string();
    let unfinished = path.with_file_name(format!(".{name}.{unique}"));
    let write = || -> io::Result<()> {
        let mut file =
            File::options().write(true).create_new(true).mode(0o600).open(&unfinished)?;
        let text = text(&file.metadata()?)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&unfinished, path)?;
        sync_directory_of(path)
    };
    write().inspect_err(|_| drop(std::fs::remove_file(&unfinished)))
}

/// Creates a directory that only its owner may enter, and its parents. One that exists, and all that is in it, is taken
/// from everybody else.
pub(crate) fn private_directory(dir: &Path) -> io::Result<()> {
    if !dir.exists() {
        DirBuilder::new().recursive(true).mode(OWNER_ONLY).create(dir)?;
        sync_directory_of(dir)?;
    }
    tighten(dir)
}

/// Syncs the directory that a file is in, so that its name is safe, too.
pub(crate) fn sync_directory_of(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Takes a directory, and what is in it, from everybody but its owner. Links are not followed.
fn tighten(dir: &Path) -> io::Result<()> {
    restrict(dir, &dir.metadata()?)?;
    let Some(entries) = unless_foreign(dir, std::fs::read_dir(dir))? else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        // Something else may have been removed meanwhile.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            tighten(&entry.path())?;
        } else if metadata.is_file() {
            restrict(&entry.path(), &metadata)?;
        }
    }
    Ok(())
}

fn restrict(path: &Path, metadata: &Metadata) -> io::Result<()> {
    let mode = metadata.permissions().mode() & 0o7777;
    let private = mode & OWNER_ONLY;
    if mode == private {
        return Ok(());
    }
    let set = std::fs::set_permissions(path, Permissions::from_mode(private));
    unless_foreign(path, set).map(|_| ())
}

/// Passes over what belongs to somebody else, such as the root of a volume: who mounted it decides who may read it.
fn unless_foreign<T>(path: &Path, done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(err) if err.kind() == io::ErrorKind::PermissionDenied => {
            let path = path.display();
            tracing::warn!(%path, "this belongs to another user; its permissions stay as they are");
            Ok(None)
        }
        done => done.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_directory_and_all_that_is_in_it_is_taken_from_others_and_links_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let (dir, outside) = (root.path().join("data"), root.path().join("outside"));
        std::fs::create_dir_all(dir.join("logs/deeper")).unwrap();
        for file in ["kubeconfig", "logs/a", "logs/deeper/b"] {
            std::fs::write(dir.join(file), file).unwrap();
            std::fs::set_permissions(dir.join(file), Permissions::from_mode(0o644)).unwrap();
        }
        std::fs::write(&outside, "not ours").unwrap();
        std::fs::set_permissions(&outside, Permissions::from_mode(0o644)).unwrap();
        symlink(&outside, dir.join("link")).unwrap();
        for loose in ["", "logs", "logs/deeper"] {
            std::fs::set_permissions(dir.join(loose), Permissions::from_mode(0o755)).unwrap();
        }
        private_directory(&dir).unwrap();
        for directory in ["", "logs", "logs/deeper"] {
            assert_eq!(mode(&dir.join(directory)), 0o700, "{directory}");
        }
        for file in ["kubeconfig", "logs/a", "logs/deeper/b"] {
            assert_eq!(mode(&dir.join(file)), 0o600, "{file}");
        }
        assert_eq!(mode(&outside), 0o644);
    }

    #[test]
    fn a_new_directory_is_private_and_a_file_replaces_the_one_before_it() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("a/b");
        private_directory(&dir).unwrap();
        assert_eq!(mode(&dir), 0o700);
        for text in ["first", "second"] {
            write_private(&dir.join("f"), text).unwrap();
            assert_eq!(read(&dir.join("f")).unwrap().as_deref(), Some(text));
        }
        assert_eq!(mode(&dir.join("f")), 0o600);
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1, "nothing unfinished is left");
        assert!(write_private(&dir.join("none/f"), "text").is_err());
    }
}
