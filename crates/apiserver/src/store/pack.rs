//! Compresses objects that resemble each other.
//!
//! The objects of a collection mostly resemble each other: pods of one template differ in a name, an address, a few
//! times. So an object is kept as the difference from an earlier one, its base, if that is much smaller. Bases are
//! objects that resembled no other when they were stored, and are kept whole; a few per collection are remembered.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use lz4_flex::block;

/// Objects smaller than this are kept as they are.
const SMALL: usize = 256;
/// Objects larger than this are not taken as a base, since only the nearest 64 KiB of one can be referred to.
const LARGE: usize = 32 << 10;
/// How many bases of a collection are tried.
const BASES: usize = 4;

/// The bytes of an object, whole or as a difference.
#[derive(Clone, Debug)]
pub(super) enum Packed {
    Whole(Bytes),
    Like(Arc<Difference>),
    /// Whole, from a disk that an earlier version wrote, and nested too deeply to be read.
    Unreadable(Bytes),
}

#[derive(Debug)]
pub(super) struct Difference {
    pub(super) base: Bytes,
    pub(super) bytes: Box<[u8]>,
    /// How long the whole is.
    pub(super) len: usize,
}

impl Packed {
    /// Returns the whole.
    pub(super) fn bytes(&self) -> Bytes {
        match self {
            Self::Whole(bytes) | Self::Unreadable(bytes) => bytes.clone(),
            Self::Like(like) => Self::unpack(&like.base, &like.bytes, like.len)
                .expect("it was packed with this base"),
        }
    }

    /// Returns the whole, so long, that differs from a base; `None` if that cannot be.
    pub(super) fn unpack(base: &[u8], bytes: &[u8], len: usize) -> Option<Bytes> {
        block::decompress_with_dict(bytes, len, base).ok().map(Bytes::from)
    }

    /// Returns how long the whole is.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Whole(bytes) | Self::Unreadable(bytes) => bytes.len(),
            Self::Like(like) => like.len,
        }
    }
}

/// Finds what objects can be like.
#[derive(Debug, Default)]
pub(super) struct Packer {
    /// By collection, the last one that was of use first.
    bases: Mutex<BTreeMap<Arc<str>, Vec<Bytes>>>,
}

impl Packer {
    /// Packs an object of a collection.
    pub(super) fn pack(&self, collection: &Arc<str>, packed: Packed) -> Packed {
        let Packed::Whole(bytes) = &packed else { return packed };
        if bytes.len() < SMALL || bytes.len() > LARGE {
            return packed;
        }
        let bases = self.bases(collection);
        let found = bases.iter().enumerate().find_map(|(at, base)| {
            let differs_in = block::compress_with_dict(bytes, base);
            (differs_in.len() <= bytes.len() / 3).then_some((at, differs_in))
        });
        match found {
            Some((at, differs_in)) => {
                if at > 0 {
                    self.prefer(collection, &bases[at]);
                }
                let (base, bytes, len) = (bases[at].clone(), differs_in.into(), bytes.len());
                Packed::Like(Arc::new(Difference { base, bytes, len }))
            }
            None => {
                self.prefer(collection, bytes);
                packed
            }
        }
    }

    fn bases(&self, collection: &str) -> Vec<Bytes> {
        let bases = self.bases.lock().expect("no one panics while holding it");
        bases.get(collection).cloned().unwrap_or_default()
    }

    /// Puts a base in front of the others, and forgets the last if there are too many.
    fn prefer(&self, collection: &Arc<str>, base: &Bytes) {
        let mut bases = self.bases.lock().expect("no one panics while holding it");
        let bases = bases.entry(Arc::clone(collection)).or_default();
        bases.retain(|other| other.as_ptr() != base.as_ptr());
        bases.insert(0, base.clone());
        bases.truncate(BASES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(kind: &str, number: usize) -> Bytes {
        let words: String = (0..40).map(|n| format!(r#""{kind}-{}":"{n}","#, n * n)).collect();
        format!(r#"{{"metadata":{{"name":"{number}"}},{words}"number":{number}}}"#).into()
    }

    #[test]
    fn packed_objects_are_restored_and_similar_ones_are_small() {
        let packer = Packer::default();
        let collection = Arc::from("things");
        for number in 0..100 {
            let whole = text(["a", "b", "c"][number % 3], number);
            let packed = packer.pack(&collection, Packed::Whole(whole.clone()));
            assert_eq!((packed.bytes(), packed.len()), (whole.clone(), whole.len()));
            match packed {
                Packed::Whole(_) => assert!(number < 3, "{number} is like an earlier one"),
                Packed::Unreadable(_) => panic!("{number} can be read"),
                Packed::Like(like) => assert!(like.bytes.len() < whole.len() / 3),
            }
        }
    }

    #[test]
    fn objects_that_are_like_no_other_are_kept_whole_and_few_are_remembered() {
        let packer = Packer::default();
        let collection = Arc::from("things");
        for number in 0..50_u64 {
            let mut dice = number + 1;
            let noise: Vec<u8> = std::iter::repeat_with(|| {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (dice >> 56) as u8
            })
            .take(1000)
            .collect();
            let packed = packer.pack(&collection, Packed::Whole(noise.into()));
            assert!(matches!(packed, Packed::Whole(_)));
        }
        assert_eq!(packer.bases(&collection).len(), BASES);
    }
}
