//! Finds equal values: a hash table from values to indices, with a deterministic order.
//!
//! `std`'s map is not allowed here because its iteration order is random; nothing ever iterates over this one.

use std::hash::{Hash, Hasher};

/// Assigns consecutive indices to distinct values in the order of their first appearance.
#[derive(Default)]
pub(super) struct Distinct {
    /// Index plus one, or 0 for a free slot; the number of slots is a power of two.
    slots: Vec<u32>,
    hashes: Vec<u64>,
}

impl Distinct {
    /// Returns the index of the value with this hash for which `is_same` returns true, and whether it is new.
    pub(super) fn number(&mut self, hash: u64, is_same: impl Fn(usize) -> bool) -> (usize, bool) {
        if self.slots.len() < 2 * (self.hashes.len() + 1) {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at] != 0 {
            let number = self.slots[at] as usize - 1;
            if self.hashes[number] == hash && is_same(number) {
                return (number, false);
            }
            at = (at + 1) & mask;
        }
        self.hashes.push(hash);
        self.slots[at] = u32::try_from(self.hashes.len()).expect("fewer than four billion values");
        (self.hashes.len() - 1, true)
    }

    /// Returns the index of the value with this hash for which `is_same` returns true, if it exists.
    pub(super) fn find(&self, hash: u64, is_same: impl Fn(usize) -> bool) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        while self.slots[at] != 0 {
            let number = self.slots[at] as usize - 1;
            if self.hashes[number] == hash && is_same(number) {
                return Some(number);
            }
            at = (at + 1) & mask;
        }
        None
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(64);
        self.slots = vec![0; size];
        for (number, hash) in self.hashes.iter().enumerate() {
            let mut at = *hash as usize & (size - 1);
            while self.slots[at] != 0 {
                at = (at + 1) & (size - 1);
            }
            self.slots[at] = u32::try_from(number + 1).expect("fewer than four billion values");
        }
    }
}

/// Hashes a value deterministically.
pub(super) fn hash(value: &(impl Hash + ?Sized)) -> u64 {
    let mut mixer = Mixer(0);
    value.hash(&mut mixer);
    mixer.finish()
}

/// Multiplies and rotates eight bytes at a time: not collision-resistant, but collisions only slow an evaluation down.
struct Mixer(u64);

impl Mixer {
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.mix(u64::from_le_bytes(word.try_into().expect("eight bytes")));
        }
        let rest = words.remainder();
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.mix(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        self.mix(n);
    }

    fn write_usize(&mut self, n: usize) {
        self.mix(n as u64);
    }

    fn finish(&self) -> u64 {
        // The low bits choose the slot, so the well-mixed high ones are folded in.
        self.0 ^ (self.0 >> 29)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_equal_indices() {
        let words: Vec<String> = (0..1000).map(|n| format!("word-{}", n % 300)).collect();
        let (mut distinct, mut kept) = (Distinct::default(), Vec::<&str>::new());
        for word in &words {
            let (number, is_new) = distinct.number(hash(word), |n| kept[n] == word);
            if is_new {
                kept.push(word);
            }
            assert_eq!(kept[number], word);
        }
        assert_eq!(kept.len(), 300);
    }

    #[test]
    fn values_with_equal_hashes_are_distinguished() {
        let mut distinct = Distinct::default();
        assert_eq!(distinct.number(7, |_| false), (0, true));
        assert_eq!(distinct.number(7, |_| false), (1, true));
        assert_eq!(distinct.number(7, |n| n == 1), (1, false));
        assert_eq!(distinct.find(7, |n| n == 1), Some(1));
        assert_eq!(distinct.find(8, |_| true), None);
    }
}
