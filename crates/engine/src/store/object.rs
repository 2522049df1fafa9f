//! How is an object kept?
//!
//! As its JSON without `apiVersion`, `kind` and `metadata.resourceVersion`: the first two depend on who asks, and the
//! third is only known when the object is stored. What is kept starts with its metadata, so that all three can be
//! put in front without reading it. In memory it may be kept as a difference: see `pack`.

use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::pack::{Packed, Packer};

/// What every kept object starts with.
const START: &[u8] = br#"{"metadata":{"#;

/// The JSON of an object that is not stored yet.
#[derive(Clone, Debug)]
pub(crate) struct Body(Packed);

/// An object at a version.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    version: u64,
    body: Packed,
}

impl Body {
    /// Takes down an object. Its metadata has at least a name.
    pub(crate) fn new(object: &Value) -> Self {
        let empty = Map::new();
        let object = object.as_object().unwrap_or(&empty);
        let mut out = Vec::with_capacity(512);
        out.extend_from_slice(START);
        let metadata = object.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
        fields(&mut out, metadata, &["resourceVersion"], true);
        out.push(b'}');
        fields(&mut out, object, &["apiVersion", "kind", "metadata"], false);
        out.push(b'}');
        Self(Packed::Whole(Bytes::from(out.into_boxed_slice())))
    }

    /// Tells whether an object already is this.
    pub(crate) fn is_same(&self, object: &Object) -> bool {
        self.0.len() == object.body.len() && self.0.bytes() == object.body.bytes()
    }

    /// Gives the same, kept in less memory if the collection has others like it.
    pub(super) fn packed(self, packer: &Packer, collection: &Arc<str>) -> Self {
        Self(packer.pack(collection, self.0))
    }

    /// Gives the object at a version.
    pub(crate) fn at(&self, version: u64) -> Object {
        Object { version, body: self.0.clone() }
    }
}

fn fields(out: &mut Vec<u8>, map: &Map<String, Value>, without: &[&str], mut is_first: bool) {
    for (key, value) in map.iter().filter(|(key, _)| !without.contains(&key.as_str())) {
        if !is_first {
            out.push(b',');
        }
        is_first = false;
        let written = serde_json::to_writer(&mut *out, key)
            .map(|()| out.push(b':'))
            .and_then(|()| serde_json::to_writer(&mut *out, value));
        written.expect("JSON values can always be written to memory");
    }
}

impl Object {
    /// Reads an object back from the disk.
    pub(super) fn restored(version: u64, body: &[u8]) -> Option<Self> {
        let is_whole = body.starts_with(START) && body.ends_with(b"}");
        is_whole.then(|| Self { version, body: Packed::Whole(Bytes::copy_from_slice(body)) })
    }

    /// Gives the same, kept in less memory if the collection has others like it.
    pub(super) fn packed(self, packer: &Packer, collection: &Arc<str>) -> Self {
        Self { body: packer.pack(collection, self.body), ..self }
    }

    /// Gives the version.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Gives the same object at another version.
    pub(crate) fn at(&self, version: u64) -> Self {
        Self { version, body: self.body.clone() }
    }

    /// Gives what is kept.
    pub(crate) fn body(&self) -> Bytes {
        self.body.bytes()
    }

    /// Gives about how many bytes its JSON has.
    pub(crate) fn size(&self) -> usize {
        self.body.len()
    }

    /// Reads the metadata, or some of it, and nothing else.
    pub(crate) fn metadata<T: DeserializeOwned>(&self) -> Option<T> {
        let body = self.body.bytes();
        // It comes first, and what follows it is not even looked at.
        let start = START.len() - 1;
        T::deserialize(&mut serde_json::Deserializer::from_slice(&body[start..])).ok()
    }

    /// Tells whether a word occurs anywhere in the object; a cheap look before reading it.
    pub(crate) fn mentions(&self, word: &[u8]) -> bool {
        self.body.bytes().windows(word.len()).any(|w| w == word)
    }

    /// Writes the JSON of the object, opened by what `Resource::opening` says.
    pub(crate) fn write(&self, opening: &str, out: &mut Vec<u8>) {
        out.reserve(opening.len() + self.body.len() + 32);
        out.extend_from_slice(opening.as_bytes());
        self.rest(out);
    }

    /// Writes the JSON of the object as an item of a list, where built-in kinds leave out what they are.
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

    /// Reads the object.
    pub(crate) fn value(&self, api_version: &str, kind: &str) -> Value {
        let mut value: Value =
            serde_json::from_slice(&self.body.bytes()).expect("only valid JSON is ever kept");
        value["apiVersion"] = api_version.into();
        value["kind"] = kind.into();
        value["metadata"]["resourceVersion"] = self.version.to_string().into();
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_comes_back_with_its_version_and_whatever_kind_is_asked_for() {
        let kept = json!({
            "apiVersion": "x/v1", "kind": "X", "spec": {"a": "\u{1f600}\n"},
            "metadata": {"name": "a\"b", "resourceVersion": "stale"},
        });
        let object = Body::new(&kept).at(42);
        let mut out = Vec::new();
        object.write(&crate::resource::opening("y/v2", "Y"), &mut out);
        let mut wanted = kept;
        wanted["apiVersion"] = "y/v2".into();
        wanted["kind"] = "Y".into();
        wanted["metadata"]["resourceVersion"] = "42".into();
        assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), wanted);
        assert_eq!(object.value("y/v2", "Y"), wanted);
    }

    #[test]
    fn what_is_not_an_object_is_not_restored() {
        assert!(Object::restored(1, br#"{"metadata":{"name":"a"}}"#).is_some());
        assert!(Object::restored(1, br#"{"metadata":{"name""#).is_none());
        assert!(Object::restored(1, b"").is_none());
    }
}
