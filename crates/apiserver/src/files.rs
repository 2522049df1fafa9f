//! Files and directories that only their owner may read.
//!
//! Files are replaced atomically: a temporary file is written, synced and renamed, then the directory is synced. A crash leaves
//! either the old or the new content.

use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// The permission bits of the owner.
const OWNER_ONLY: u32 = 0o700;

/// Reads a file; `None` if there is none.
pub(crate) fn read(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(err) => Err(err),
    }
}

/// Replaces a file, with mode 0600.
pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    write_private_with(path, |_| Ok(text.to_owned()))
}

/// Replaces a file, with mode 0600. Its text may depend on the metadata of the new file.
pub(crate) fn write_private_with(
    path: &Path,
    text: impl FnOnce(&Metadata) -> io::Result<String>,
) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unique = uuid::Uuid::new_v4().simple().to_string();
    let temporary = path.with_file_name(format!(".{name}.{unique}"));
    let write = || -> io::Result<()> {
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&temporary)?;
        let text = text(&file.metadata()?)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)?;
        sync_parent_directory(path)
    };
    write().inspect_err(|_| drop(std::fs::remove_file(&temporary)))
}

/// Creates a directory with mode 0700, and its parents. In an existing one, group and others lose all permissions on the
/// directory and its content.
pub(crate) fn create_private_directory(dir: &Path) -> io::Result<()> {
    if !dir.exists() {
        DirBuilder::new().recursive(true).mode(OWNER_ONLY).create(dir)?;
        sync_parent_directory(dir)?;
    }
    restrict_recursively(dir)
}

/// Syncs the directory of a file, so that its directory entry is durable.
pub(crate) fn sync_parent_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Removes the permissions of group and others from a directory and its content. Symbolic links are not followed.
fn restrict_recursively(dir: &Path) -> io::Result<()> {
    restrict(dir, &dir.metadata()?)?;
    let Some(entries) = skip_if_not_owned(dir, std::fs::read_dir(dir))? else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        // The entry may have been removed meanwhile.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            restrict_recursively(&entry.path())?;
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
    skip_if_not_owned(path, set).map(|_| ())
}

/// Logs and ignores a permission error on a file of another user, such as the root of a mounted volume.
fn skip_if_not_owned<T>(path: &Path, done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(err) if err.kind() == io::ErrorKind::PermissionDenied => {
            let path = path.display();
            tracing::warn!(%path, "file belongs to another user; its permissions are left unchanged");
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
    fn an_existing_directory_is_made_private_recursively_without_following_links() {
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
        create_private_directory(&dir).unwrap();
        for directory in ["", "logs", "logs/deeper"] {
            assert_eq!(mode(&dir.join(directory)), 0o700, "{directory}");
        }
        for file in ["kubeconfig", "logs/a", "logs/deeper/b"] {
            assert_eq!(mode(&dir.join(file)), 0o600, "{file}");
        }
        assert_eq!(mode(&outside), 0o644);
    }

    #[test]
    fn a_new_directory_is_private_and_a_written_file_replaces_the_old_one() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("a/b");
        create_private_directory(&dir).unwrap();
        assert_eq!(mode(&dir), 0o700);
        for text in ["first", "second"] {
            write_private(&dir.join("f"), text).unwrap();
            assert_eq!(read(&dir.join("f")).unwrap().as_deref(), Some(text));
        }
        assert_eq!(mode(&dir.join("f")), 0o600);
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1, "no temporary file is left");
        assert!(write_private(&dir.join("none/f"), "text").is_err());
    }
}
