//! A disk for tests that forgets what was not synced, as real ones may: after a power cut some of the writes since the
//! last sync are there, in no particular order and some of them in part, and others are not.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use redb::StorageBackend;

use super::super::medium::Medium;

/// The unit that a disk writes atomically.
const SECTOR: usize = 512;
const NO_SPACE: i32 = 28;

/// The increment and the mixing of splitmix64.
#[derive(Clone, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Simulated(Arc<Mutex<Contents>>);

#[derive(Debug)]
struct Contents {
    /// The content as it is read until a crash.
    visible: Vec<u8>,
    /// The synced content.
    safe: Vec<u8>,
    writes: Vec<(usize, Vec<u8>)>,
    lengths: Vec<usize>,
    random: Random,
    /// The power fails after so many more operations.
    steps_left: Option<usize>,
    is_full: bool,
    /// Whether a full disk takes every write, and reports that it is full only at the sync.
    fails_late: bool,
}

impl Simulated {
    pub(super) fn new(seed: u64) -> Self {
        let contents = Contents {
            visible: Vec::new(),
            safe: Vec::new(),
            writes: Vec::new(),
            lengths: Vec::new(),
            random: Random(seed),
            steps_left: None,
            is_full: false,
            fails_late: false,
        };
        Self(Arc::new(Mutex::new(contents)))
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap()
    }

    /// Cuts the power after so many more operations.
    pub(super) fn cut_after(&self, steps: usize) {
        self.lock().steps_left = Some(steps);
    }

    pub(super) fn is_off(&self) -> bool {
        self.lock().steps_left == Some(0)
    }

    /// Returns whether there is no room.
    pub(super) fn set_full(&self, is_full: bool) {
        let mut contents = self.lock();
        contents.is_full = is_full;
        contents.fails_late = contents.random.below(2) == 0;
    }

    /// Cuts the power, if it is not off yet, and turns it on again.
    pub(super) fn crash(&self) {
        self.lock().crash();
    }
}

impl Contents {
    /// Counts an operation; fails once the power is off.
    fn step(&mut self) -> io::Result<()> {
        match &mut self.steps_left {
            None => Ok(()),
            Some(0) => Err(io::Error::other("the power is off")),
            Some(left) => {
                *left -= 1;
                if *left == 0 { Err(io::Error::other("the power went off")) } else { Ok(()) }
            }
        }
    }

    /// Applies some of the writes since the last sync to the disk, in any order, sector by sector.
    fn flush_some(&mut self) {
        let mut writes = std::mem::take(&mut self.writes);
        while !writes.is_empty() {
            let (offset, data) = writes.swap_remove(self.random.below(writes.len()));
            let fate = self.random.below(3);
            let sectors = data.chunks(SECTOR).enumerate();
            for (at, sector) in sectors.map(|(index, sector)| (offset + index * SECTOR, sector)) {
                let is_written = fate == 1 || (fate == 2 && self.random.below(2) == 0);
                if is_written && at + sector.len() <= self.safe.len() {
                    self.safe[at..at + sector.len()].copy_from_slice(sector);
                }
            }
        }
    }

    fn crash(&mut self) {
        // The file system keeps the order of the writes to a file, but any number of the last ones may be lost.
        let lengths = std::mem::take(&mut self.lengths);
        for len in lengths.iter().take(self.random.below(lengths.len() + 1)) {
            self.safe.resize(*len, 0);
        }
        self.flush_some();
        self.visible.clone_from(&self.safe);
        (self.steps_left, self.is_full) = (None, false);
    }

    fn full(&self) -> io::Result<()> {
        if self.is_full { Err(io::Error::from_raw_os_error(NO_SPACE)) } else { Ok(()) }
    }
}

impl Medium for Simulated {
    fn probe(&self) -> io::Result<()> {
        let mut contents = self.lock();
        contents.step()?;
        contents.full()
    }
}

impl StorageBackend for Simulated {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().visible.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let contents = self.lock();
        let from = usize::try_from(offset).unwrap();
        let read = contents.visible.get(from..from + out.len());
        out.copy_from_slice(read.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut contents = self.lock();
        let len = usize::try_from(len).unwrap();
        contents.lengths.push(len);
        contents.step()?;
        contents.visible.resize(len, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut contents = self.lock();
        contents.step()?;
        if contents.is_full {
            // Unwritten data is lost at the next crash, though it can still be read.
            contents.flush_some();
            return contents.full();
        }
        let lengths = std::mem::take(&mut contents.lengths);
        lengths.into_iter().for_each(|len| contents.safe.resize(len, 0));
        for (offset, data) in std::mem::take(&mut contents.writes) {
            let end = contents.safe.len().max(offset + data.len());
            contents.safe.resize(end, 0);
            contents.safe[offset..offset + data.len()].copy_from_slice(&data);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut contents = self.lock();
        if contents.is_full && !contents.fails_late && contents.random.below(4) == 0 {
            return contents.full();
        }
        let offset = usize::try_from(offset).unwrap();
        contents.writes.push((offset, data.to_vec()));
        contents.step()?;
        let end = contents.visible.len().max(offset + data.len());
        contents.visible.resize(end, 0);
        contents.visible[offset..offset + data.len()].copy_from_slice(data);
        Ok(())
    }
}
