//! The private mounts of a container.
//!
//! A path that does not exist on this machine needs a mount point. So that none is left behind, the nearest directory that
//! exists is covered by an empty file system in memory, into which everything that was there is mounted again. For a path directly
//! below `/` that is a new root.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{Mode, OFlags, StatVfsMountFlags, open, statvfs};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};
use rustix::process::{geteuid, pivot_root};
use serde::{Deserialize, Serialize};

use crate::network::enter_user_namespace;

/// The most entries of a directory that are mounted again one by one.
const MOST_ENTRIES: usize = 4096;

/// The mounts of a container.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Mounts {
    /// An empty directory in which a new root is made.
    pub(crate) staging: PathBuf,
    pub(crate) mounts: Vec<Mount>,
}

/// A directory or a file that is mounted at another path.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Mount {
    pub(crate) source: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) read_only: bool,
}

/// Makes the mounts in a mount namespace of this process alone, and changes to a directory in it.
pub(super) fn enter(mounts: &OsStr, dir: Option<&OsStr>) -> io::Result<()> {
    let Mounts { staging, mut mounts } =
        serde_json::from_slice(mounts.as_encoded_bytes()).map_err(io::Error::other)?;
    let dir = dir.map_or_else(std::env::current_dir, |dir| Ok(PathBuf::from(dir)))?;
    unshare_mounts()?;
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)?;
    // A path inside another one is mounted after it.
    mounts.sort_by_key(|mount| mount.target.components().count());
    let mut view = View { staging, is_staged: false, owned: BTreeSet::new(), mounted: Vec::new() };
    // Sources are opened and targets are resolved before anything is covered.
    let opened: Vec<(Mount, OwnedFd)> = mounts
        .into_iter()
        .map(|mount| {
            let source = open_path(&mount.source).map_err(at(&mount.source))?;
            let target = resolve(&mount.target).map_err(at(&mount.target))?;
            Ok((Mount { target, ..mount }, source))
        })
        .collect::<io::Result<_>>()?;
    for (mount, source) in &opened {
        view.mount(mount, source).map_err(at(&mount.target))?;
    }
    view.enter()?;
    std::env::set_current_dir(&dir).map_err(at(&dir))
}

fn at(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |err| io::Error::new(err.kind(), format!("{}: {err}", path.display()))
}

fn unshare_mounts() -> io::Result<()> {
    if geteuid().is_root() && unshare(CloneFlags::CLONE_NEWNS).is_ok() {
        return Ok(());
    }
    enter_user_namespace(CloneFlags::CLONE_NEWNS)
}

fn open_path(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Returns the path of an open file, however it is covered.
fn path_of(file: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Follows the symbolic links of a path, the last parts of which may not exist.
fn resolve(target: &Path) -> io::Result<PathBuf> {
    let target: PathBuf = Path::new("/").join(target).components().collect();
    for existing in target.ancestors() {
        if let (Ok(found), Ok(rest)) = (existing.canonicalize(), target.strip_prefix(existing)) {
            return Ok(found.components().chain(rest.components()).collect());
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// The file system as the container sees it.
struct View {
    staging: PathBuf,
    /// Whether there is a new root, in the staging directory.
    is_staged: bool,
    /// The directories in which mount points can be made without being visible to others.
    owned: BTreeSet<PathBuf>,
    /// The targets of volumes: mount points can be made inside them.
    mounted: Vec<PathBuf>,
}

impl View {
    /// Returns where a path of the container is now.
    fn at(&self, path: &Path) -> PathBuf {
        if !self.is_staged {
            return path.to_owned();
        }
        path.strip_prefix("/").map_or_else(|_| path.to_owned(), |path| self.staging.join(path))
    }

    fn mount(&mut self, mount: &Mount, source: &OwnedFd) -> io::Result<()> {
        let source = path_of(source);
        self.make_mount_point(&mount.target, source.is_dir())?;
        let target = self.at(&mount.target);
        mount_bind_recursive(&source, &target)?;
        if mount.read_only {
            make_read_only(&target)?;
        }
        self.mounted.push(mount.target.clone());
        Ok(())
    }

    fn make_mount_point(&mut self, target: &Path, is_dir: bool) -> io::Result<()> {
        if self.at(target).symlink_metadata().is_ok() {
            return Ok(());
        }
        let existing = target.ancestors().skip(1).find(|path| self.at(path).is_dir());
        let existing = existing.unwrap_or(Path::new("/")).to_owned();
        let is_in_volume = self.mounted.iter().any(|volume| existing.starts_with(volume));
        if !is_in_volume && !self.owned.contains(&existing) {
            self.cover(&existing)?;
        }
        let mut path = existing.clone();
        let rest: Vec<_> = target.strip_prefix(&existing).into_iter().flatten().collect();
        for (index, part) in rest.iter().enumerate() {
            path.push(part);
            if index + 1 < rest.len() || is_dir {
                fs::create_dir(self.at(&path))?;
                self.owned.insert(path.clone());
            } else {
                File::create(self.at(&path))?;
            }
        }
        Ok(())
    }

    /// Covers a directory with one that shows the same entries, and in which others can be made.
    fn cover(&mut self, dir: &Path) -> io::Result<()> {
        let covered = open_path(&self.at(dir))?;
        let is_root = dir == Path::new("/");
        let cover = if is_root { self.staging.clone() } else { self.at(dir) };
        let mode = path_of(&covered).metadata()?.permissions().mode() & 0o7777;
        let options = std::ffi::CString::new(format!("mode={mode:o}"))?;
        mount("plimsoll", &cover, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, &*options)?;
        if is_root {
            // Otherwise the directory that contains it would show it a second time.
            mount_change(&cover, MountPropagationFlags::UNBINDABLE)?;
        }
        let entries: Vec<_> =
            fs::read_dir(path_of(&covered))?.take(MOST_ENTRIES + 1).collect::<io::Result<_>>()?;
        if entries.len() > MOST_ENTRIES {
            let why = format!("{} has more than {MOST_ENTRIES} entries", dir.display());
            return Err(io::Error::other(why));
        }
        for entry in entries {
            let (from, to) = (entry.path(), cover.join(entry.file_name()));
            match show(&from, entry.file_type()?, &to) {
                // It was removed in the meantime.
                Err(err) if err.kind() == io::ErrorKind::NotFound => {}
                shown => shown.map_err(at(&dir.join(entry.file_name())))?,
            }
        }
        self.is_staged |= is_root;
        self.owned.insert(dir.to_owned());
        Ok(())
    }

    /// Enters the new root, if there is one.
    fn enter(&self) -> io::Result<()> {
        if self.is_staged {
            std::env::set_current_dir(&self.staging)?;
            // The old root is on top of the new one then, and is taken away.
            pivot_root(".", ".")?;
            unmount(".", UnmountFlags::DETACH)?;
        }
        Ok(())
    }
}

/// Shows a file or directory at another path.
fn show(from: &Path, kind: fs::FileType, to: &Path) -> io::Result<()> {
    if kind.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    if kind.is_dir() {
        fs::create_dir(to)?;
    } else {
        File::create(to)?;
    }
    Ok(mount_bind_recursive(from, to)?)
}

fn make_read_only(target: &Path) -> io::Result<()> {
    // Flags that the source has may not be cleared in a user namespace.
    let has = statvfs(target)?.f_flag;
    let mut flags = MountFlags::BIND | MountFlags::RDONLY;
    for (known, flag) in [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ] {
        flags.set(flag, has.contains(known));
    }
    Ok(mount_remount(target, flags, c"")?)
}
