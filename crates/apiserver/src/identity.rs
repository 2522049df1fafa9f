//! The identity of a data directory.
//!
//! Each data directory has a random identity. Processes and containers that are started for it carry the identity, so that only
//! a later server on the same directory adopts them. A copied directory gets a new identity: the file records its own inode.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::files;

const FILE: &str = "identity";

/// Returns a random identity, for a server without a data directory.
pub(crate) fn random() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Returns the identity of a directory. It is generated if it is missing, damaged or copied from another directory.
pub(crate) fn load_or_create(dir: &Path) -> io::Result<String> {
    let path = dir.join(FILE);
    if let Some(text) = files::read(&path)? {
        let inode = path.metadata()?.ino().to_string();
        let stored = text.trim().split_once(' ').filter(|(_, recorded)| *recorded == inode);
        if let Some((id, _)) = stored.filter(|(id, _)| uuid::Uuid::try_parse(id).is_ok()) {
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
        let first = load_or_create(&dir).unwrap();
        assert_eq!(load_or_create(&dir).unwrap(), first);
        std::fs::rename(&dir, &moved).unwrap();
        assert_eq!(load_or_create(&moved).unwrap(), first);
        std::fs::create_dir(&copy).unwrap();
        std::fs::copy(moved.join(FILE), copy.join(FILE)).unwrap();
        let copied = load_or_create(&copy).unwrap();
        assert_ne!(copied, first);
        assert_eq!(load_or_create(&copy).unwrap(), copied);
        std::fs::write(moved.join(FILE), "damaged").unwrap();
        assert_ne!(load_or_create(&moved).unwrap(), first);
    }
}
