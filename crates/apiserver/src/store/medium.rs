//! The file of the store, or its replacement in tests.

use std::fs::{File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use redb::StorageBackend;

use crate::files;

/// The free space beside the database with which a full disk counts as usable again.
const ROOM: usize = 256 << 10;

/// The medium of the database.
pub(super) trait Medium: StorageBackend {
    /// Tests whether there is room: writes a file beside the database, syncs and removes it.
    fn probe(&self) -> io::Result<()>;
}

/// A file that this process has locked.
#[derive(Debug)]
pub(super) struct DataFile {
    file: File,
    path: PathBuf,
}

impl DataFile {
    /// Opens a file, or creates an empty one, that only its owner may read. Fails with
    /// [`io::ErrorKind::WouldBlock`] if another process has it open.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(err)) => return Err(err),
        }
        files::sync_parent_directory(path)?;
        Ok(Self { file, path: path.to_owned() })
    }
}

impl Medium for DataFile {
    fn probe(&self) -> io::Result<()> {
        let path = self.path.with_extension("probe");
        let write = || {
            let mut options = File::options();
            let mut file =
                options.write(true).create(true).truncate(true).mode(0o600).open(&path)?;
            // Not zeros, which some file systems do not store.
            file.write_all(&vec![0x5a; ROOM])?;
            file.sync_all()
        };
        let written = write();
        let removed = std::fs::remove_file(&path);
        written.and(removed)
    }
}

impl StorageBackend for DataFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }
}
