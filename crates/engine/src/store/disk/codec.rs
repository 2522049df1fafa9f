//! The bytes of what is on the disk. All numbers are little-endian; the last eight bytes are a checksum.

use std::sync::Arc;

use super::super::{Change, Object};

/// A change as it is on the disk.
pub(super) struct Stored {
    pub(super) happened_at: i64,
    pub(super) collection: Arc<str>,
    pub(super) key: Arc<str>,
    pub(super) before: Option<Object>,
    pub(super) deleted: bool,
}

/// Joins a collection and a key to a key of the table, which sorts like the two.
pub(super) fn join(collection: &str, key: &str) -> String {
    format!("{collection}\0{key}")
}

/// Takes a key of the table apart.
pub(super) fn split(place: &str) -> Option<(Arc<str>, Arc<str>)> {
    place.split_once('\0').map(|(collection, key)| (Arc::from(collection), Arc::from(key)))
}

/// Writes an object.
pub(super) fn write_object(object: &Object) -> Vec<u8> {
    let mut out = Vec::with_capacity(object.size() + 16);
    put_object(&mut out, object);
    seal(out)
}

/// Reads an object, unless it is damaged.
pub(super) fn object(bytes: &[u8]) -> Option<Object> {
    take_object(unseal(bytes)?)
}

/// Writes a change.
pub(super) fn write_change(change: &Change) -> Vec<u8> {
    let place = join(&change.collection, &change.key);
    let mut out = Vec::with_capacity(place.len() + 32);
    out.extend_from_slice(&change.at.to_le_bytes());
    out.push(u8::from(change.deleted));
    out.extend_from_slice(&u32::try_from(place.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(place.as_bytes());
    if let Some(before) = &change.before {
        put_object(&mut out, before);
    }
    seal(out)
}

/// Reads a change, unless it is damaged.
pub(super) fn change(bytes: &[u8]) -> Option<Stored> {
    let rest = unseal(bytes)?;
    let (at, rest) = rest.split_first_chunk::<8>()?;
    let (deleted, rest) = rest.split_first()?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let (place, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    let (collection, key) = split(std::str::from_utf8(place).ok()?)?;
    let before = if rest.is_empty() { None } else { Some(take_object(rest)?) };
    let happened_at = i64::from_le_bytes(*at);
    Some(Stored { happened_at, collection, key, before, deleted: *deleted == 1 })
}

fn put_object(out: &mut Vec<u8>, object: &Object) {
    out.extend_from_slice(&object.version().to_le_bytes());
    out.extend_from_slice(&object.body());
}

fn take_object(bytes: &[u8]) -> Option<Object> {
    let (version, body) = bytes.split_first_chunk::<8>()?;
    Object::restored(u64::from_le_bytes(*version), body)
}

fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = checksum(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

fn unseal(bytes: &[u8]) -> Option<&[u8]> {
    let (content, sum) = bytes.split_last_chunk::<8>()?;
    (checksum(content) == u64::from_le_bytes(*sum)).then_some(content)
}

/// Mixes eight bytes at a time. It has to notice damage, not an enemy.
fn checksum(bytes: &[u8]) -> u64 {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let step = |sum: u64, word: u64| (sum ^ word).wrapping_mul(MIX).rotate_left(29);
    let mut chunks = bytes.chunks_exact(8);
    let sum = (&mut chunks).fold(bytes.len() as u64, |sum, chunk| {
        step(sum, u64::from_le_bytes(chunk.try_into().expect("it has eight bytes")))
    });
    let last = chunks.remainder().iter().fold(sum, |sum, byte| step(sum, u64::from(*byte)));
    step(last, MIX)
}

#[cfg(test)]
mod tests {
    use super::super::super::Body;
    use super::*;
    use serde_json::json;

    #[test]
    fn any_flipped_bit_is_noticed() {
        let body = Body::new(&json!({"metadata": {"name": "a"}, "data": {"k": "some value"}}));
        let whole = write_object(&body.at(7));
        assert_eq!(object(&whole).unwrap().version(), 7);
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(object(&damaged).is_none(), "bit {bit}");
        }
        assert!(object(&whole[..whole.len() - 1]).is_none());
    }

    #[test]
    fn a_change_comes_back_as_it_was() {
        let before = Body::new(&json!({"metadata": {"name": "a"}})).at(6);
        let change = Change::new(5, "pods".into(), "n/a".into(), before.at(7), Some(before), true);
        let back = super::change(&write_change(&change)).unwrap();
        assert_eq!((back.happened_at, &*back.collection, &*back.key), (5, "pods", "n/a"));
        assert!(back.deleted);
        assert_eq!(back.before.unwrap().version(), 6);
    }
}
