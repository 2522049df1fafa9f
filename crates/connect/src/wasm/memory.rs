//! The memory that a module shares with its host: blocks, identified by their address.
//!
//! It is separate from the module's own memory, so that neither side can read more than the other has passed.

use std::collections::BTreeMap;

/// The total size of all blocks.
const LIMIT: usize = 16 << 20;

/// The overhead of a block.
pub(super) const OVERHEAD: usize = 64;

/// Blocks of bytes. No block begins at 0, which stands for none.
#[derive(Default)]
pub(super) struct Memory {
    blocks: BTreeMap<u64, Vec<u8>>,
    next: u64,
    used: usize,
}

impl Memory {
    /// Stores bytes in a new block; `None` when there is no room left.
    pub(super) fn put(&mut self, bytes: Vec<u8>) -> Option<u64> {
        let size = bytes.len().checked_add(OVERHEAD)?;
        let used = self.used.checked_add(size).filter(|used| *used <= LIMIT)?;
        let at = self.next.max(8);
        // Blocks do not touch, so that the place behind one is never inside another.
        self.next = (at + bytes.len() as u64 + 8).next_multiple_of(8);
        self.used = used;
        self.blocks.insert(at, bytes);
        Some(at)
    }

    /// Makes an empty block.
    pub(super) fn make(&mut self, len: u64) -> Option<u64> {
        let len = usize::try_from(len).ok().filter(|len| *len <= LIMIT)?;
        self.put(vec![0; len])
    }

    pub(super) fn free(&mut self, at: u64) {
        self.used -= self.blocks.remove(&at).map_or(0, |block| block.len() + OVERHEAD);
    }

    /// Returns the block at an address.
    pub(super) fn block(&self, at: u64) -> Option<&[u8]> {
        self.blocks.get(&at).map(Vec::as_slice)
    }

    /// Returns bytes from within one block.
    pub(super) fn slice(&self, at: u64, len: u64) -> Option<&[u8]> {
        let (start, block) = self.blocks.range(..=at).next_back()?;
        let from = usize::try_from(at - start).ok()?;
        block.get(from..from.checked_add(usize::try_from(len).ok()?)?)
    }

    /// Returns bytes within one block for writing.
    pub(super) fn slice_mut(&mut self, at: u64, len: u64) -> Option<&mut [u8]> {
        let (start, block) = self.blocks.range_mut(..=at).next_back()?;
        let from = usize::try_from(at - start).ok()?;
        block.get_mut(from..from.checked_add(usize::try_from(len).ok()?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_apart_and_end_where_they_end() {
        let mut memory = Memory::default();
        let a = memory.put(b"hello".to_vec()).unwrap();
        let b = memory.make(3).unwrap();
        assert_eq!(memory.block(a), Some(b"hello".as_slice()));
        assert_eq!(memory.slice(a + 1, 3), Some(b"ell".as_slice()));
        assert_eq!(memory.slice(a + 1, 5), None, "beyond its end");
        assert_eq!(memory.slice(3, 1), None, "before the first");
        memory.slice_mut(b, 3).unwrap().copy_from_slice(b"xyz");
        memory.free(a);
        assert_eq!((memory.block(a), memory.block(b)), (None, Some(b"xyz".as_slice())));
    }

    #[test]
    fn memory_is_bounded_and_freed_blocks_make_room() {
        let mut memory = Memory::default();
        assert_eq!(memory.make(u64::MAX), None);
        let whole = memory.make((LIMIT - OVERHEAD) as u64).unwrap();
        assert_eq!(memory.make(1), None);
        memory.free(whole);
        assert!(memory.make(1).is_some());
    }

    #[test]
    fn empty_blocks_count_too() {
        let mut memory = Memory::default();
        let made = std::iter::from_fn(|| memory.make(0)).take(LIMIT).count();
        assert_eq!(made, LIMIT / OVERHEAD);
    }
}
