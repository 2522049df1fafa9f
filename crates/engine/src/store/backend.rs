//! The file below redb, which is not touched before it is known to be sound.
//!
//! Opening a file after a crash makes redb repair it. Until everything in it has been read and found whole, what redb
//! writes stays in memory; a file that is refused is exactly as it was.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, RwLock};

use redb::StorageBackend;

const BLOCK: u64 = 4096;

/// A file that redb keeps its pages in.
#[derive(Clone, Debug)]
pub(super) struct Backend(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: File,
    trial: RwLock<Option<Trial>>,
}

/// What was written before the file was accepted.
#[derive(Debug)]
struct Trial {
    len: u64,
    on_file: u64,
    blocks: BTreeMap<u64, Vec<u8>>,
}

impl Backend {
    /// Takes a file that may be damaged.
    pub(super) fn on_trial(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        let trial = RwLock::new(Some(Trial { len, on_file: len, blocks: BTreeMap::new() }));
        Ok(Self(Arc::new(Inner { file, trial })))
    }

    /// Writes to the file from now on, first of all what was written so far.
    pub(super) fn accept(&self) -> io::Result<()> {
        let mut trial = self.0.trial.write().expect("no one panics while holding it");
        let Some(Trial { len, blocks, .. }) = trial.as_ref() else { return Ok(()) };
        self.0.file.set_len(*len)?;
        for (index, block) in blocks {
            let offset = index * BLOCK;
            let within = usize::try_from(len.saturating_sub(offset).min(BLOCK)).unwrap_or(0);
            self.0.file.write_all_at(&block[..within], offset)?;
        }
        self.0.file.sync_all()?;
        *trial = None;
        Ok(())
    }
}

impl Trial {
    fn load(&self, file: &File, index: u64) -> io::Result<Vec<u8>> {
        if let Some(block) = self.blocks.get(&index) {
            return Ok(block.clone());
        }
        let mut block = vec![0; BLOCK as usize];
        let offset = index * BLOCK;
        let within = usize::try_from(self.on_file.saturating_sub(offset).min(BLOCK)).unwrap_or(0);
        file.read_exact_at(&mut block[..within], offset)?;
        Ok(block)
    }

    fn read(&self, file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset + out.len() as u64 > self.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut done = 0;
        while done < out.len() {
            let at = offset + done as u64;
            let (index, within) = (at / BLOCK, (at % BLOCK) as usize);
            let part = (out.len() - done).min(BLOCK as usize - within);
            let block = self.load(file, index)?;
            out[done..done + part].copy_from_slice(&block[within..within + part]);
            done += part;
        }
        Ok(())
    }

    fn write(&mut self, file: &File, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let (index, within) = (at / BLOCK, (at % BLOCK) as usize);
            let part = (data.len() - done).min(BLOCK as usize - within);
            let mut block = self.load(file, index)?;
            block[within..within + part].copy_from_slice(&data[done..done + part]);
            self.blocks.insert(index, block);
            done += part;
        }
        self.len = self.len.max(offset + data.len() as u64);
        Ok(())
    }

    fn set_len(&mut self, file: &File, len: u64) -> io::Result<()> {
        if len < self.len {
            // What lies beyond the new end must read as zeros if the file grows again.
            self.blocks.retain(|index, _| index * BLOCK < len);
            if !len.is_multiple_of(BLOCK) {
                let mut last = self.load(file, len / BLOCK)?;
                last[(len % BLOCK) as usize..].fill(0);
                self.blocks.insert(len / BLOCK, last);
            }
            self.on_file = self.on_file.min(len);
        }
        self.len = len;
        Ok(())
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        match &*self.0.trial.read().expect("no one panics while holding it") {
            Some(trial) => Ok(trial.len),
            None => Ok(self.0.file.metadata()?.len()),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match &*self.0.trial.read().expect("no one panics while holding it") {
            Some(trial) => trial.read(&self.0.file, offset, out),
            None => self.0.file.read_exact_at(out, offset),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        match &mut *self.0.trial.write().expect("no one panics while holding it") {
            Some(trial) => trial.set_len(&self.0.file, len),
            None => self.0.file.set_len(len),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        match &*self.0.trial.read().expect("no one panics while holding it") {
            Some(_) => Ok(()),
            None => self.0.file.sync_data(),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if let Some(trial) = &mut *self.0.trial.write().expect("no one panics while holding it") {
            return trial.write(&self.0.file, offset, data);
        }
        self.0.file.write_all_at(data, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_on_trial_stays_as_it_is_until_it_is_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, vec![7_u8; 5000]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let backend = Backend::on_trial(file).unwrap();
        backend.write(4090, &[1; 20]).unwrap();
        backend.set_len(4100).unwrap();
        backend.set_len(9000).unwrap();
        let mut seen = vec![0; 30];
        backend.read(4080, &mut seen).unwrap();
        let mut wanted = vec![7; 10];
        wanted.extend([1; 10]);
        wanted.extend([0; 10]);
        assert_eq!(seen, wanted);
        assert_eq!(std::fs::read(&path).unwrap(), vec![7_u8; 5000]);
        backend.accept().unwrap();
        let file = std::fs::read(&path).unwrap();
        assert_eq!((file.len(), &file[4080..4110]), (9000, &wanted[..]));
    }
}
