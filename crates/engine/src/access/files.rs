//! Small files that only their owner may read, written whole or not at all.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::AccessError;

/// Reads a file; `None` if there is none.
pub(super) fn read(path: &Path) -> Result<Option<String>, AccessError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(failed(path, source)),
    }
}

/// Writes a file with mode 0600, in place of what was there.
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), AccessError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unique = uuid::Uuid::new_v4().simple().to_string();
    let unfinished = path.with_file_name(format!(".{name}.{unique}"));
    let write = || -> std::io::Result<()> {
        let mut file =
            File::options().write(true).create_new(true).mode(0o600).open(&unfinished)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&unfinished, path)
    };
    write().map_err(|source| {
        let _ = std::fs::remove_file(&unfinished);
        failed(path, source)
    })
}

fn failed(path: &Path, source: std::io::Error) -> AccessError {
    AccessError::File { path: path.display().to_string(), source }
}
