//! The storage below redb, which checks a file before it changes it.
//!
//! Opening a file after a crash makes redb repair it. Until the whole file has been read and found undamaged, the writes of redb
//! stay in memory, so that a file that is refused does not change. Then they are applied in order, with every sync in its
//! place: after a crash meanwhile, redb can repair the file again.
//!
//! After a write or a sync that failed it is unknown which of the last writes are on the disk, and reading them back does not
//! help: what is read may be in memory only. But redb writes to free pages, and only the first block, which says where
//! everything else is, is written in place. So that block is kept as it was at the last sync that succeeded, and the file is
//! opened again with that.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, RwLock};

use redb::StorageBackend;

use super::medium::Medium;

const BLOCK: u64 = 4096;
/// The header of a redb file is written last when it is created.
const MAGIC: u64 = 9;

/// A medium that redb keeps its pages on.
#[derive(Clone, Debug)]
pub(super) struct Backend(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    medium: Arc<dyn Medium>,
    head: Arc<Mutex<Head>>,
    trial: RwLock<Option<Trial>>,
}

/// The first block.
#[derive(Debug, Default)]
struct Head {
    written: Vec<u8>,
    synced: Vec<u8>,
}

/// The writes before the file was accepted.
#[derive(Debug)]
struct Trial {
    len: u64,
    on_medium: u64,
    blocks: BTreeMap<u64, Vec<u8>>,
    /// The same, in order.
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Sync,
}

impl Backend {
    /// Wraps a medium that may be damaged.
    pub(super) fn on_trial(medium: Arc<dyn Medium>) -> io::Result<Self> {
        let mut trial = Trial::new(&*medium)?;
        if is_unfinished(&*medium)? {
            trial.set_len(&*medium, 0)?;
        }
        let mut synced = vec![0; usize::try_from(trial.len.min(BLOCK)).unwrap_or(0)];
        trial.read(&*medium, 0, &mut synced)?;
        let head = Arc::new(Mutex::new(Head { written: synced.clone(), synced }));
        Ok(Self(Arc::new(Inner { medium, head, trial: RwLock::new(Some(trial)) })))
    }

    /// Wraps the same medium again, as it was at the last sync that succeeded.
    pub(super) fn again(&self) -> io::Result<Self> {
        let Inner { medium, head, .. } = &*self.0;
        let synced = head.lock().expect("no one panics while holding it").synced.clone();
        let mut trial = Trial::new(&**medium)?;
        trial.write(&**medium, 0, &synced)?;
        trial.steps.push(Step::Sync);
        let (medium, head) = (Arc::clone(medium), Arc::clone(head));
        Ok(Self(Arc::new(Inner { medium, head, trial: RwLock::new(Some(trial)) })))
    }

    /// Writes to the medium from now on, and applies the writes so far.
    pub(super) fn accept(&self) -> io::Result<()> {
        let mut trial = self.0.trial.write().expect("no one panics while holding it");
        for step in trial.iter().flat_map(|trial| &trial.steps) {
            match step {
                Step::Write(offset, data) => self.0.write(*offset, data)?,
                Step::SetLen(len) => self.0.set_len(*len)?,
                Step::Sync => self.0.sync()?,
            }
        }
        self.0.sync()?;
        *trial = None;
        Ok(())
    }

    /// Tests whether there is room on the medium.
    pub(super) fn probe(&self) -> io::Result<()> {
        self.0.medium.probe()
    }
}

/// Returns whether redb was interrupted when it created a file: it has nothing but a header without its first bytes.
fn is_unfinished(medium: &dyn Medium) -> io::Result<bool> {
    let len = medium.len()?;
    let mut magic = vec![0; usize::try_from(len.min(MAGIC)).unwrap_or(0)];
    medium.read(0, &mut magic)?;
    if len == 0 || magic.iter().any(|byte| *byte != 0) {
        return Ok(false);
    }
    let mut block = vec![0; BLOCK as usize];
    for offset in (BLOCK..len).step_by(BLOCK as usize) {
        let within = &mut block[..usize::try_from((len - offset).min(BLOCK)).unwrap_or(0)];
        medium.read(offset, within)?;
        if within.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Inner {
    fn head(&self) -> std::sync::MutexGuard<'_, Head> {
        self.head.lock().expect("no one panics while holding it")
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset < BLOCK {
            let from = usize::try_from(offset).unwrap_or(0);
            let part = data.len().min(BLOCK as usize - from);
            let written = &mut self.head().written;
            written.resize(written.len().max(from + part), 0);
            written[from..from + part].copy_from_slice(&data[..part]);
        }
        self.medium.write(offset, data)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if len < BLOCK {
            self.head().written.truncate(usize::try_from(len).unwrap_or(0));
        }
        self.medium.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.medium.sync_data()?;
        let Head { written, synced } = &mut *self.head();
        synced.clone_from(written);
        Ok(())
    }
}

impl Trial {
    fn new(medium: &dyn Medium) -> io::Result<Self> {
        let len = medium.len()?;
        Ok(Self { len, on_medium: len, blocks: BTreeMap::new(), steps: Vec::new() })
    }

    fn load(&self, medium: &dyn Medium, index: u64) -> io::Result<Vec<u8>> {
        if let Some(block) = self.blocks.get(&index) {
            return Ok(block.clone());
        }
        let mut block = vec![0; BLOCK as usize];
        let offset = index * BLOCK;
        let within = usize::try_from(self.on_medium.saturating_sub(offset).min(BLOCK)).unwrap_or(0);
        if within > 0 {
            medium.read(offset, &mut block[..within])?;
        }
        Ok(block)
    }

    fn read(&self, medium: &dyn Medium, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset + out.len() as u64 > self.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut done = 0;
        while done < out.len() {
            let at = offset + done as u64;
            let (index, within) = (at / BLOCK, (at % BLOCK) as usize);
            let part = (out.len() - done).min(BLOCK as usize - within);
            let block = self.load(medium, index)?;
            out[done..done + part].copy_from_slice(&block[within..within + part]);
            done += part;
        }
        Ok(())
    }

    fn write(&mut self, medium: &dyn Medium, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let (index, within) = (at / BLOCK, (at % BLOCK) as usize);
            let part = (data.len() - done).min(BLOCK as usize - within);
            let mut block = self.load(medium, index)?;
            block[within..within + part].copy_from_slice(&data[done..done + part]);
            self.blocks.insert(index, block);
            done += part;
        }
        self.len = self.len.max(offset + data.len() as u64);
        self.steps.push(Step::Write(offset, data.to_vec()));
        Ok(())
    }

    fn set_len(&mut self, medium: &dyn Medium, len: u64) -> io::Result<()> {
        if len < self.len {
            // What lies beyond the new end must read as zeros if the file grows again.
            self.blocks.retain(|index, _| index * BLOCK < len);
            if !len.is_multiple_of(BLOCK) {
                let mut last = self.load(medium, len / BLOCK)?;
                last[(len % BLOCK) as usize..].fill(0);
                self.blocks.insert(len / BLOCK, last);
            }
            self.on_medium = self.on_medium.min(len);
        }
        self.len = len;
        self.steps.push(Step::SetLen(len));
        Ok(())
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        match &*self.0.trial.read().expect("no one panics while holding it") {
            Some(trial) => Ok(trial.len),
            None => self.0.medium.len(),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match &*self.0.trial.read().expect("no one panics while holding it") {
            Some(trial) => trial.read(&*self.0.medium, offset, out),
            None => self.0.medium.read(offset, out),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        match &mut *self.0.trial.write().expect("no one panics while holding it") {
            Some(trial) => trial.set_len(&*self.0.medium, len),
            None => self.0.set_len(len),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        match &mut *self.0.trial.write().expect("no one panics while holding it") {
            Some(trial) => trial.steps.push(Step::Sync),
            None => self.0.sync()?,
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        match &mut *self.0.trial.write().expect("no one panics while holding it") {
            Some(trial) => trial.write(&*self.0.medium, offset, data),
            None => self.0.write(offset, data),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::medium::DataFile;
    use super::*;

    #[test]
    fn a_file_on_trial_stays_as_it_is_until_it_is_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, vec![7_u8; 5000]).unwrap();
        let backend = Backend::on_trial(Arc::new(DataFile::open(&path).unwrap())).unwrap();
        backend.write(4090, &[1; 20]).unwrap();
        backend.set_len(4100).unwrap();
        backend.set_len(9000).unwrap();
        let mut actual = vec![0; 30];
        backend.read(4080, &mut actual).unwrap();
        let mut wanted = vec![7; 10];
        wanted.extend([1; 10]);
        wanted.extend([0; 10]);
        assert_eq!(actual, wanted);
        assert_eq!(std::fs::read(&path).unwrap(), vec![7_u8; 5000]);
        backend.accept().unwrap();
        let file = std::fs::read(&path).unwrap();
        assert_eq!((file.len(), &file[4080..4110]), (9000, &wanted[..]));
    }

    #[test]
    fn a_file_whose_creation_was_interrupted_is_new_and_a_damaged_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let len = |content: &[u8]| {
            let path = dir.path().join("f");
            std::fs::write(&path, content).unwrap();
            Backend::on_trial(Arc::new(DataFile::open(&path).unwrap())).unwrap().len().unwrap()
        };
        let mut begun = vec![0; 20_000];
        begun[20..40].fill(3);
        assert_eq!(len(&begun), 0);
        begun[3] = 1;
        assert_eq!(len(&begun), 20_000);
        begun[3] = 0;
        begun[19_999] = 1;
        assert_eq!(len(&begun), 20_000);
        assert_eq!(len(&[]), 0);
    }
}
