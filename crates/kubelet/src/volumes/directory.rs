//! The directories in which the volumes of pods are: one on disk, and one in memory where Linux has it.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access, statfs};
use rustix::process::geteuid;

use crate::leftovers::Mark;

const PREFIX: &str = "plimsoll-";
/// Where programs share memory: a file system in memory that every user can write to.
const SHARED_MEMORY: &str = "/dev/shm";
/// The type of file systems in memory.
const TMPFS: i64 = 0x0102_1994;

/// The directories of one kubelet. They are created when they are needed.
pub(crate) struct VolumeRoot {
    disk: PathBuf,
    memory: PathBuf,
}

impl VolumeRoot {
    /// Chooses the directories of this run, and removes those that earlier runs left behind.
    pub(crate) fn new(mark: &Mark) -> Self {
        let temporary = std::env::temp_dir();
        let is_in_memory = |path: &Path| {
            statfs(path).is_ok_and(|found| i128::from(found.f_type) == i128::from(TMPFS))
                && access(path, Access::WRITE_OK).is_ok()
        };
        let shared_memory = Path::new(SHARED_MEMORY);
        let memory = if is_in_memory(shared_memory) { shared_memory } else { &temporary };
        for parent in [&*temporary, memory] {
            remove_leftovers(parent, mark);
        }
        let name = format!("{PREFIX}{}", mark.to_string().replace('/', "_"));
        Self { disk: temporary.join(&name), memory: memory.join(&name) }
    }

    /// Returns the directory of a pod's volumes, and creates it.
    pub(super) fn pod(&self, uid: &str, is_in_memory: bool) -> io::Result<PathBuf> {
        let root = if is_in_memory { &self.memory } else { &self.disk };
        create(root, 0o700)?;
        let metadata = fs::symlink_metadata(root)?;
        if !metadata.is_dir() || metadata.uid() != geteuid().as_raw() {
            let why = format!("{} belongs to another user: remove it", root.display());
            return Err(io::Error::other(why));
        }
        let dir = root.join(uid);
        create(&dir, 0o700)?;
        Ok(dir)
    }

    /// Removes the files of a pod.
    pub(super) fn remove_pod(&self, uid: &str) {
        for root in [&self.disk, &self.memory] {
            match fs::remove_dir_all(root.join(uid)) {
                Err(err) if err.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(dir = %root.join(uid).display(), %err, "could not remove volumes");
                }
                _ => {}
            }
        }
    }
}

impl Drop for VolumeRoot {
    fn drop(&mut self) {
        for root in [&self.disk, &self.memory] {
            // Another kubelet of this process may still have pods in it.
            let _ = fs::remove_dir(root);
        }
    }
}

/// Creates a directory with this mode, whatever the umask is, unless it exists.
pub(super) fn create(dir: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(dir) {
        Ok(()) => fs::set_permissions(dir, Permissions::from_mode(mode)),
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(err) => Err(err),
    }
}

fn remove_leftovers(parent: &Path, this: &Mark) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let mark = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let mark = mark.and_then(|mark| Mark::parse(&mark.replace('_', "/")));
        if mark.is_some_and(|mark| mark.is_from_earlier_run(this)) {
            tracing::info!(dir = %entry.path().display(), "removing volumes that an earlier run left behind");
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
