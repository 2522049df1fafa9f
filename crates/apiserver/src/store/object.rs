//! Stores an object as JSON.
//!
//! The JSON lacks `apiVersion`, `kind` and `metadata.resourceVersion`: the first two depend on the request, and the third is
//! known only once the object is stored. The metadata comes first, so that all three can be prepended without parsing. In
//! memory an object may be kept as a difference from another: see `pack`.

use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::pack::{Packed, Packer};
use super::partial::{Member, PartialObject, Unparsed};
use apimachinery::depth;

/// The first bytes of every stored object.
const START: &[u8] = br#"{"metadata":{"#;

/// The metadata that garbage collection depends on.
const TIES: [&str; 3] = ["deletionTimestamp", "finalizers", "ownerReferences"];

/// The JSON of an object that is not stored yet.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    whole: Bytes,
    /// The same, as it will be kept.
    kept: Packed,
    /// Whether its ties are those that it had before.
    keeps_ties: bool,
}

/// Why a stored object cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    /// An earlier version stored what hardly any client can read.
    #[error("the stored object is nested too deeply")]
    TooDeep,
    /// It is not an object's JSON.
    #[error("the stored object is damaged: {0}")]
    Damaged(#[from] serde_json::Error),
}

/// An object at a version.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    version: u64,
    body: Packed,
}

impl Body {
    /// Encodes an object. Its metadata has at least a name.
    pub(crate) fn new(object: &Value) -> Self {
        Self::changed(object, &Value::Null, &Unparsed::default())
    }

    /// Encodes a changed object, of which these members were not parsed.
    pub(crate) fn changed(object: &Value, old: &Value, unparsed: &Unparsed) -> Self {
        let mut out = Vec::with_capacity(4096);
        out.extend_from_slice(START);
        let metadata = &object["metadata"];
        let shown = members(metadata).filter(|(name, _)| *name != "resourceVersion");
        write_members(&mut out, shown, unparsed.below("metadata"));
        out.push(b'}');
        let known = ["apiVersion", "kind", "metadata"];
        for (name, value) in members(object).filter(|(name, _)| !known.contains(&name.as_str())) {
            out.push(b',');
            write_member(&mut out, name, value, unparsed.get(name));
        }
        out.push(b'}');
        let was = &old["metadata"];
        let keeps_ties =
            was.is_object() && TIES.iter().all(|tie| metadata.get(tie) == was.get(tie));
        Self { keeps_ties, ..Self::of(Bytes::from(out.into_boxed_slice())) }
    }

    fn of(whole: Bytes) -> Self {
        Self { kept: Packed::Whole(whole.clone()), whole, keeps_ties: false }
    }

    /// Reads the JSON of an object back from the disk, if it is the JSON of an object.
    pub(super) fn restored(bytes: Bytes) -> Option<Self> {
        let is_whole = bytes.starts_with(START) && bytes.ends_with(b"}");
        let mut body = is_whole.then(|| Self::of(bytes))?;
        // Depth was not bounded always.
        if !depth::is_readable(&body.whole) {
            body.kept = Packed::Unreadable(body.whole.clone());
        }
        Some(body)
    }

    /// Returns how many bytes its JSON has.
    pub(crate) fn size(&self) -> usize {
        self.whole.len()
    }

    /// Returns whether an object already is this.
    pub(crate) fn is_same(&self, object: &Object) -> bool {
        self.whole.len() == object.body.len() && self.whole == object.body.bytes()
    }

    /// Returns the same, kept in less memory if the collection has others like it.
    pub(super) fn packed(self, packer: &Packer, collection: &Arc<str>) -> Self {
        Self { kept: packer.pack(collection, self.kept), ..self }
    }

    /// Returns the object at a version, as it is kept.
    pub(crate) fn at(&self, version: u64) -> Object {
        Object { version, body: self.kept.clone() }
    }

    /// Returns the object at a version, uncompressed for immediate reads.
    pub(super) fn whole_at(&self, version: u64) -> Object {
        Object { version, body: Packed::Whole(self.whole.clone()) }
    }

    /// Whether its ties are those that the object had before.
    pub(super) fn keeps_ties(&self) -> bool {
        self.keeps_ties
    }
}

fn members(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flatten()
}

fn write_members<'v>(
    out: &mut Vec<u8>,
    members: impl Iterator<Item = (&'v String, &'v Value)>,
    unparsed: Option<&Unparsed>,
) {
    for (index, (name, value)) in members.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_member(out, name, value, unparsed.and_then(|unparsed| unparsed.get(name)));
    }
}

fn write_member(out: &mut Vec<u8>, name: &str, value: &Value, unparsed: Option<&Member>) {
    const SURE: &str = "JSON values can always be written to memory";
    serde_json::to_writer(&mut *out, name).expect(SURE);
    out.push(b':');
    match (unparsed, value) {
        // Any other value replaces the member.
        (Some(Member::Text(text)), Value::Null) => out.extend_from_slice(text),
        (Some(Member::Object(unparsed)), Value::Object(members)) => {
            out.push(b'{');
            write_members(out, members.iter(), Some(unparsed));
            out.push(b'}');
        }
        (_, value) => serde_json::to_writer(&mut *out, value).expect(SURE),
    }
}

impl Object {
    /// Reads an object back from the disk.
    pub(super) fn restored(version: u64, body: &[u8]) -> Option<Self> {
        Body::restored(Bytes::copy_from_slice(body)).map(|body| body.at(version))
    }

    /// Returns what is kept, as it is kept.
    pub(super) fn kept(&self) -> &Packed {
        &self.body
    }

    /// Returns the same, kept in less memory if the collection has others like it.
    pub(super) fn packed(self, packer: &Packer, collection: &Arc<str>) -> Self {
        Self { body: packer.pack(collection, self.body), ..self }
    }

    /// Returns the version.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Returns the same object at another version.
    pub(crate) fn at(&self, version: u64) -> Self {
        Self { version, body: self.body.clone() }
    }

    /// Returns what is kept.
    pub(crate) fn body(&self) -> Bytes {
        self.body.bytes()
    }

    /// Returns the number of bytes that it takes, without its base.
    pub(super) fn packed_size(&self) -> usize {
        match &self.body {
            Packed::Whole(bytes) | Packed::Unreadable(bytes) => bytes.len(),
            Packed::Like(like) => like.bytes.len(),
        }
    }

    /// Returns about how many bytes its JSON has.
    pub(crate) fn size(&self) -> usize {
        self.body.len()
    }

    /// Reads the metadata, or some of it, and nothing else.
    pub(crate) fn metadata<T: DeserializeOwned>(&self) -> Option<T> {
        let body = self.body.bytes();
        // It comes first, and what follows is not parsed.
        let start = START.len() - 1;
        T::deserialize(&mut serde_json::Deserializer::from_slice(&body[start..])).ok()
    }

    /// Returns whether a word occurs anywhere in the object; cheaper than parsing it.
    pub(crate) fn mentions(&self, word: &[u8]) -> bool {
        self.body.bytes().windows(word.len()).any(|w| w == word)
    }

    /// Writes the JSON of the object after a prefix, as `apimachinery::resource::json_prefix` makes it.
    pub(crate) fn write(&self, opening: &str, out: &mut Vec<u8>) {
        out.reserve(opening.len() + self.body.len() + 32);
        out.extend_from_slice(opening.as_bytes());
        self.rest(out);
    }

    /// Writes the watch event of the object.
    pub(crate) fn event(&self, kind: &str, opening: &str) -> Bytes {
        let mut out = Vec::with_capacity(self.body.len() + 160);
        event_start(kind).iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
        self.write(opening, &mut out);
        out.extend_from_slice(b"}\n");
        Bytes::from(out)
    }

    /// Returns whether an event of this kind was written with this opening.
    pub(super) fn is_event(event: &[u8], kind: &str, opening: &str) -> bool {
        let start: usize = event_start(kind).iter().map(|part| part.len()).sum();
        event.get(start..).is_some_and(|object| object.starts_with(opening.as_bytes()))
    }

    /// Writes the JSON of the object as an item of a list, where built-in kinds omit `apiVersion` and `kind`.
    pub(crate) fn write_item(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(START);
        self.rest(out);
    }

    fn rest(&self, out: &mut Vec<u8>) {
        let body = self.body.bytes();
        let rest = &body[START.len()..];
        let comma = if rest.first() == Some(&b'}') { "" } else { "," };
        write!(out, r#""resourceVersion":"{}"{comma}"#, self.version)
            .expect("memory can always be written to");
        out.extend_from_slice(rest);
    }

    /// Returns whether the object can be parsed, and so may be returned to clients.
    pub(crate) fn is_readable(&self) -> bool {
        !matches!(self.body, Packed::Unreadable(_))
    }

    /// Reads the object.
    pub(crate) fn value(&self, api_version: &str, kind: &str) -> Result<Value, Unreadable> {
        if !self.is_readable() {
            return Err(Unreadable::TooDeep);
        }
        let value = serde_json::from_slice(&self.body.bytes())?;
        Ok(self.completed(value, api_version, kind))
    }

    /// Parses the members that are named, as by `Parts::Named`; `None` if members are named of a value that is no object.
    pub(crate) fn partial(
        &self,
        api_version: &str,
        kind: &str,
        named: &Value,
    ) -> Option<PartialObject> {
        let partial = PartialObject::parse(&self.body.bytes(), named).ok()?;
        Some(PartialObject { value: self.completed(partial.value, api_version, kind), ..partial })
    }

    fn completed(&self, mut value: Value, api_version: &str, kind: &str) -> Value {
        value["apiVersion"] = api_version.into();
        value["kind"] = kind.into();
        value["metadata"]["resourceVersion"] = self.version.to_string().into();
        value
    }
}

fn event_start(kind: &str) -> [&str; 3] {
    [r#"{"type":""#, kind, r#"","object":"#]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_comes_back_with_its_version_and_the_requested_kind() {
        let kept = json!({
            "apiVersion": "x/v1", "kind": "X", "spec": {"a": "\u{1f600}\n"},
            "metadata": {"name": "a\"b", "resourceVersion": "stale"},
        });
        let object = Body::new(&kept).at(42);
        let mut out = Vec::new();
        object.write(&apimachinery::resource::json_prefix("y/v2", "Y"), &mut out);
        let mut wanted = kept;
        wanted["apiVersion"] = "y/v2".into();
        wanted["kind"] = "Y".into();
        wanted["metadata"]["resourceVersion"] = "42".into();
        assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), wanted);
        assert_eq!(object.value("y/v2", "Y").unwrap(), wanted);
    }

    #[test]
    fn values_other_than_objects_are_not_restored() {
        assert!(Object::restored(1, br#"{"metadata":{"name":"a"}}"#).is_some());
        assert!(Object::restored(1, br#"{"metadata":{"name""#).is_none());
        assert!(Object::restored(1, b"").is_none());
    }

    #[test]
    fn an_object_that_is_too_deep_to_be_read_is_restored_and_says_so() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let object =
            Object::restored(7, format!(r#"{{"metadata":{{}},"spec":{deep}}}"#).as_bytes());
        let object = object.unwrap();
        assert!(!object.is_readable());
        assert!(matches!(object.value("v1", "Pod"), Err(Unreadable::TooDeep)));
        let damaged = Object::restored(7, br#"{"metadata":{"name":}}"#).unwrap();
        assert!(matches!(damaged.value("v1", "Pod"), Err(Unreadable::Damaged(_))));
    }
}
