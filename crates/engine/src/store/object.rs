//! How is an object kept?
//!
//! As its JSON without `apiVersion`, `kind` and `metadata.resourceVersion`: the first two depend on who asks, and the
//! third is only known when the object is stored. What is kept starts with its metadata, so that all three can be
//! put in front without reading it. In memory it may be kept as a difference: see `pack`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::pack::{Packed, Packer};

/// What every kept object starts with.
const START: &[u8] = br#"{"metadata":{"#;

/// How much of an object is read to change it.
///
/// What is not read is in its place as a string: the text of its JSON. It is moved, compared and written back as that, and
/// must not be shown to anyone.
#[derive(Clone, Debug)]
pub(crate) enum Parts {
    /// All of it.
    All,
    /// The metadata but for `managedFields`, and these fields.
    Some(Vec<String>),
}

impl Parts {
    fn are_read(&self, field: &str) -> bool {
        match self {
            Self::All => true,
            Self::Some(read) => field == "metadata" || read.iter().any(|name| name == field),
        }
    }

    fn are_read_of_metadata(&self, field: &str) -> bool {
        matches!(self, Self::All) || field != "managedFields"
    }
}

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
        Self::of(object, &Parts::All)
    }

    /// Takes down an object of which these parts were read.
    pub(crate) fn of(object: &Value, parts: &Parts) -> Self {
        let empty = Map::new();
        let object = object.as_object().unwrap_or(&empty);
        let mut out = Vec::with_capacity(512);
        out.extend_from_slice(START);
        let metadata = object.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
        let mut is_first = true;
        for (key, value) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
            member(&mut out, key, value, parts.are_read_of_metadata(key), is_first);
            is_first = false;
        }
        out.push(b'}');
        let known = ["apiVersion", "kind", "metadata"];
        for (key, value) in object.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
            member(&mut out, key, value, parts.are_read(key), false);
        }
        out.push(b'}');
        Self(Packed::Whole(Bytes::from(out.into_boxed_slice())))
    }

    /// Reads the JSON of an object back from the disk, unless it is not such a thing.
    pub(super) fn restored(bytes: Bytes) -> Option<Self> {
        let is_whole = bytes.starts_with(START) && bytes.ends_with(b"}");
        is_whole.then(|| Self(Packed::Whole(bytes)))
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

fn member(out: &mut Vec<u8>, key: &str, value: &Value, is_read: bool, is_first: bool) {
    if !is_first {
        out.push(b',');
    }
    let written = serde_json::to_writer(&mut *out, key).and_then(|()| {
        out.push(b':');
        match value.as_str().filter(|_| !is_read) {
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                Ok(())
            }
            None => serde_json::to_writer(&mut *out, value),
        }
    });
    written.expect("JSON values can always be written to memory");
}

impl Object {
    /// Reads an object back from the disk.
    pub(super) fn restored(version: u64, body: &[u8]) -> Option<Self> {
        Body::restored(Bytes::copy_from_slice(body)).map(|body| body.at(version))
    }

    /// Gives what is kept, as it is kept.
    pub(super) fn kept(&self) -> &Packed {
        &self.body
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
        self.parts(api_version, kind, &Parts::All)
    }

    /// Reads parts of the object.
    pub(crate) fn parts(&self, api_version: &str, kind: &str, parts: &Parts) -> Value {
        let body = self.body.bytes();
        let value = match parts {
            Parts::All => serde_json::from_slice(&body),
            Parts::Some(_) => read(&body, parts),
        };
        let mut value: Value = value.expect("only valid JSON is ever kept");
        value["apiVersion"] = api_version.into();
        value["kind"] = kind.into();
        value["metadata"]["resourceVersion"] = self.version.to_string().into();
        value
    }
}

fn read(body: &[u8], parts: &Parts) -> serde_json::Result<Value> {
    let members = |text: &str,
                   is_read: &dyn Fn(&str) -> bool,
                   read: &dyn Fn(&str, &str) -> serde_json::Result<Value>| {
        let texts: BTreeMap<Key<'_>, &RawValue> = serde_json::from_str(text)?;
        let values = texts.into_iter().map(|(Key(key), text)| {
            let text = text.get();
            let value = if is_read(&key) { read(&key, text)? } else { text.into() };
            Ok((key.into_owned(), value))
        });
        values.collect::<serde_json::Result<Map<String, Value>>>().map(Value::Object)
    };
    let value = |_: &str, text: &str| serde_json::from_str(text);
    let of_metadata = |field: &str| parts.are_read_of_metadata(field);
    let field = |key: &str, text: &str| match key {
        "metadata" => members(text, &of_metadata, &value),
        _ => serde_json::from_str(text),
    };
    let text = std::str::from_utf8(body).map_err(serde::de::Error::custom)?;
    members(text, &|field| parts.are_read(field), &field)
}

/// A name in an object, borrowed where it is written as it is.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

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
    fn parts_of_an_object_are_read_and_the_rest_is_written_back_as_it_was() {
        let kept = json!({
            "apiVersion": "y/v2", "kind": "Y", "spec": {"a": "\u{1f600}\n", "b": [1, 2.5, null]}, "status": {"c": "\"d\""},
            "metadata": {"name": "a\"b", "managedFields": [{"manager": "m"}], "resourceVersion": "42"},
        });
        let object = Body::new(&kept).at(42);
        let parts = Parts::Some(vec!["status".to_owned()]);
        let mut read = object.parts("y/v2", "Y", &parts);
        assert_eq!(read["status"], kept["status"]);
        assert_eq!(read["metadata"]["name"], kept["metadata"]["name"]);
        assert!(read["spec"].is_string() && read["metadata"]["managedFields"].is_string());
        assert!(Body::of(&read, &parts).is_same(&object));
        read["status"] = json!({"c": "e"});
        let mut wanted = kept;
        wanted["status"] = json!({"c": "e"});
        assert_eq!(Body::of(&read, &parts).at(42).value("y/v2", "Y"), wanted);
    }

    #[test]
    fn what_is_not_an_object_is_not_restored() {
        assert!(Object::restored(1, br#"{"metadata":{"name":"a"}}"#).is_some());
        assert!(Object::restored(1, br#"{"metadata":{"name""#).is_none());
        assert!(Object::restored(1, b"").is_none());
    }
}
