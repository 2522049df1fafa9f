//! Encodes and decodes the values on the disk. All numbers are little-endian; the last eight bytes are a checksum.

use std::sync::Arc;

use bytes::Bytes;

use super::super::pack::Packed;
use super::super::{Body, Change, Object, Write};

/// Joins a collection and a key to a key of the table, which sorts like the two.
pub(super) fn join(collection: &str, key: &str) -> String {
    format!("{collection}\0{key}")
}

/// Splits a key of the table.
pub(super) fn split(place: &str) -> Option<(Arc<str>, Arc<str>)> {
    place.split_once('\0').map(|(collection, key)| (Arc::from(collection), Arc::from(key)))
}

/// Encodes an object.
pub(super) fn write_object(object: &Object) -> Vec<u8> {
    let mut out = Vec::with_capacity(object.size() + 16);
    put_object(&mut out, object);
    seal(out)
}

/// Decodes an object, unless it is damaged.
pub(super) fn object(bytes: &[u8]) -> Option<Object> {
    take_object(unseal(bytes)?)
}

/// Encodes the changes of one commit: first the bases that their objects are differences from, then each change.
pub(super) fn write_changes(changes: &[Arc<Change>]) -> Vec<u8> {
    let mut bases: Vec<&Bytes> = Vec::new();
    for change in changes {
        if let Packed::Like(like) = change.object.kept()
            && !bases.iter().any(|base| base.as_ptr() == like.base.as_ptr())
        {
            bases.push(&like.base);
        }
    }
    let mut out = Vec::with_capacity(1024 * (changes.len() + bases.len()));
    put_number(&mut out, bases.len());
    bases.iter().for_each(|base| put_bytes(&mut out, base));
    for change in changes {
        out.extend_from_slice(&change.at.to_le_bytes());
        put_bytes(&mut out, join(&change.collection, &change.key).as_bytes());
        match change.object.kept() {
            _ if change.deleted => put_number(&mut out, DELETED),
            Packed::Whole(bytes) | Packed::Unreadable(bytes) => {
                put_number(&mut out, WHOLE);
                put_bytes(&mut out, bytes);
            }
            Packed::Like(like) => {
                let is_its = |base: &&Bytes| base.as_ptr() == like.base.as_ptr();
                put_number(&mut out, bases.iter().position(is_its).unwrap_or(WHOLE));
                put_number(&mut out, like.len);
                put_bytes(&mut out, &like.bytes);
            }
        }
    }
    seal(out)
}

/// The placeholder for the number of a base.
const WHOLE: usize = u32::MAX as usize;
const DELETED: usize = u32::MAX as usize - 1;

/// Decodes changes and their times, unless they are damaged. The objects before the changes are not included.
pub(super) fn changes(bytes: &[u8]) -> Option<Vec<(i64, Write)>> {
    let mut rest = unseal(bytes)?;
    let count = take_number(&mut rest)?;
    let bases: Vec<Bytes> = (0..count)
        .map(|_| take_bytes(&mut rest).map(Bytes::copy_from_slice))
        .collect::<Option<_>>()?;
    let mut changes = Vec::new();
    while !rest.is_empty() {
        let at = i64::from_le_bytes(*take(&mut rest)?);
        let (collection, key) = split(std::str::from_utf8(take_bytes(&mut rest)?).ok()?)?;
        let body = match take_number(&mut rest)? {
            DELETED => None,
            WHOLE => Some(Body::restored(Bytes::copy_from_slice(take_bytes(&mut rest)?))?),
            base => {
                let (base, len) = (bases.get(base)?, take_number(&mut rest)?);
                Some(Body::restored(Packed::unpack(base, take_bytes(&mut rest)?, len)?)?)
            }
        };
        changes.push((at, Write { collection, key, expected: None, body }));
    }
    Some(changes)
}

fn put_number(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(taken)
}

fn take_number(rest: &mut &[u8]) -> Option<usize> {
    take(rest).map(|bytes| u32::from_le_bytes(*bytes) as usize)
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = take_number(rest)?;
    let (taken, left) = rest.split_at_checked(len)?;
    *rest = left;
    Some(taken)
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

/// Computes a checksum, eight bytes at a time. It has to detect damage, not an attacker.
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
    use super::super::super::pack::Packer;
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
    fn changes_come_back_as_they_were() {
        let long = "a value that others have, too; ".repeat(20);
        let body = |name: &str| Body::new(&json!({"metadata": {"name": name}, "data": long}));
        let (packer, collection) = (Packer::default(), Arc::from("pods"));
        let change = |version: u64, name: &str, deleted: bool| {
            let (packed, key) =
                (body(name).packed(&packer, &collection), Arc::from(format!("n/{name}")));
            let before = deleted.then(|| packed.at(version - 1));
            let packed = (!deleted).then_some(packed);
            let place = (Arc::clone(&collection), key);
            Arc::new(Change::new(5, place, version, packed, before).unwrap())
        };
        let written = [change(7, "a", false), change(8, "b", false), change(9, "a", true)];
        assert!(matches!(written[1].object.kept(), Packed::Like(_)));
        let back = changes(&write_changes(&written)).unwrap();
        assert_eq!(back.len(), written.len());
        for ((at, write), change) in back.iter().zip(&written) {
            assert_eq!(*at, 5);
            assert_eq!((&*write.collection, &write.key), ("pods", &change.key));
            let body = write.body.as_ref().map(|body| body.at(change.version()).body());
            assert_eq!(body, (!change.deleted).then(|| change.object.body()));
        }
    }
}
