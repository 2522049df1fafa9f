//! Which data directory does an engine use?
//!
//! Each has a random identity, kept in it. What the engine starts on the machine carries it, so that a later engine on the
//! same directory, and no other, finds what was left behind. A copy of a directory is another directory: the identity
//! says which file it is kept in.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::files;

const FILE: &str = "identity";

/// Makes an identity for an engine that keeps nothing.
pub(crate) fn random() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Returns the identity of a directory. One that has none, or whose was copied from elsewhere, gets a new one.
pub(crate) fn kept_in(dir: &Path) -> io::Result<String> {
    let path = dir.join(FILE);
    if let Some(text) = files::read(&path)? {
        let inode = path.metadata()?.ino().to_string();
        let kept = text.trim().split_once(' ').filter(|(_, kept_in)| *kept_in == inode);
        if let Some((id, _)) = kept.filter(|(id, _)| uuid::Uuid::try_parse(id).is_ok()) {
            return Ok(id.to_owned());
        }
    }
    let identity = random();
    files::write_private_with(&path, |file| Ok(format!("{identity} {}\n", file.ino())))?;
    Ok(identity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_keeps_its_identity_and_a_copy_gets_its_own() {
        let root = tempfile::tempdir().unwrap();
        let [dir, moved, copy] = ["dir", "moved", "copy"].map(|name| root.path().join(name));
        std::fs::create_dir(&dir).unwrap();
        let first = kept_in(&dir).unwrap();
        assert_eq!(kept_in(&dir).unwrap(), first);
        std::fs::rename(&dir, &moved).unwrap();
        assert_eq!(kept_in(&moved).unwrap(), first);
        std::fs::create_dir(&copy).unwrap();
        std::fs::copy(moved.join(FILE), copy.join(FILE)).unwrap();
        let of_copy = kept_in(&copy).unwrap();
        assert_ne!(of_copy, first);
        assert_eq!(kept_in(&copy).unwrap(), of_copy);
        std::fs::write(moved.join(FILE), "damaged").unwrap();
        assert_ne!(kept_in(&moved).unwrap(), first);
    }
}
