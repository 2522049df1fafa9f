//! How is an object kept?
//!
//! As its JSON without `apiVersion`, `kind` and `metadata.resourceVersion`: the first two depend on who asks, and the
//! third is only known when the object is stored. What is kept starts with its metadata, so that all three can be
//! put in front without reading it. In memory it may be kept as a difference: see `pack`.

use std::borrow::Cow;
use std::fmt;
use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize as _;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::pack::{Packed, Packer};
use apimachinery::depth;

/// What every kept object starts with.
const START: &[u8] = br#"{"metadata":{"#;

/// These parts of the metadata are read only where they are named; what identifies an object, or is the API's own, always.
const LARGE: [&str; 5] =
    ["annotations", "finalizers", "labels", "managedFields", "ownerReferences"];

/// How much of an object is read to change it.
///
/// What is not read is in its place as a string: the text of its JSON. It is moved, compared and written back as that, and
/// must not be shown to anyone.
#[derive(Clone, Debug)]
pub(crate) enum Parts<'a> {
    /// All of it.
    All,
    /// What this names, as a merge patch does: a member that is an object names members in its turn, any other is read whole.
    Named(Cow<'a, Value>),
}

/// How much of one value is read.
#[derive(Clone, Copy)]
enum Reading<'a> {
    Whole,
    Text,
    /// Who owns what: a text also after it has changed.
    Owners,
    /// The members that are named; the others are texts.
    Members(Named<'a>),
    /// The same, of the whole object.
    Object(Named<'a>),
    /// The same, and all that is not large.
    Metadata(Named<'a>),
}

type Named<'a> = Option<&'a Map<String, Value>>;

impl Parts<'_> {
    /// Names these fields as a whole, and all metadata but for who owns what.
    pub(crate) fn whole(fields: &[&str]) -> Value {
        let metadata = LARGE.into_iter().filter(|field| *field != "managedFields");
        let metadata: Map<String, Value> = metadata.map(|f| (f.to_owned(), Value::Null)).collect();
        let fields = fields.iter().map(|field| ((*field).to_owned(), Value::Null));
        fields.chain([("metadata".to_owned(), metadata.into())]).collect()
    }

    fn reading(&self) -> Reading<'_> {
        match self {
            Self::All => Reading::Whole,
            Self::Named(named) => Reading::Object(named.as_object()),
        }
    }
}

impl Reading<'_> {
    /// How much is read of a member.
    fn of(self, key: &str) -> Self {
        let (Self::Members(named) | Self::Object(named) | Self::Metadata(named)) = self else {
            return self;
        };
        match (self, named.and_then(|named| named.get(key))) {
            (Self::Object(_), named) if key == "metadata" => {
                Self::Metadata(named.and_then(Value::as_object))
            }
            (Self::Metadata(_), None) if key == "managedFields" => Self::Owners,
            (Self::Metadata(_), None) if !LARGE.contains(&key) => Self::Whole,
            (_, None) => Self::Text,
            (Self::Object(_) | Self::Members(_), Some(Value::Object(named))) => {
                Self::Members(Some(named))
            }
            (_, Some(_)) => Self::Whole,
        }
    }
}

/// Reads the members of an object, and of what is in it.
impl<'de> DeserializeSeed<'de> for Reading<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self {
            Self::Whole => Value::deserialize(deserializer),
            Self::Text | Self::Owners => {
                <&RawValue>::deserialize(deserializer).map(|text| text.get().into())
            }
            Self::Members(_) | Self::Object(_) | Self::Metadata(_) => {
                deserializer.deserialize_map(Members(self))
            }
        }
    }
}

struct Members<'a>(Reading<'a>);

impl<'de> Visitor<'de> for Members<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(self.0.of(&key))?;
            members.insert(key, value);
        }
        Ok(Value::Object(members))
    }
}

/// What housekeeping goes by: who owns an object, and what keeps it from going.
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
    /// Takes down an object. Its metadata has at least a name.
    pub(crate) fn new(object: &Value) -> Self {
        Self::changed(object, &Value::Null, &Parts::All)
    }

    /// Takes down what was made of an object of which these parts were read.
    pub(crate) fn changed(object: &Value, old: &Value, parts: &Parts<'_>) -> Self {
        let reading = parts.reading();
        let mut out = Vec::with_capacity(4096);
        out.extend_from_slice(START);
        let (metadata, was) = (&object["metadata"], &old["metadata"]);
        let of_metadata = reading.of("metadata");
        let mut is_first = true;
        for (key, value) in members(metadata).filter(|(key, _)| *key != "resourceVersion") {
            if !is_first {
                out.push(b',');
            }
            is_first = false;
            member(&mut out, key, value, was.get(key), of_metadata.of(key));
        }
        out.push(b'}');
        let known = ["apiVersion", "kind", "metadata"];
        for (key, value) in members(object).filter(|(key, _)| !known.contains(&key.as_str())) {
            out.push(b',');
            member(&mut out, key, value, old.get(key), reading.of(key));
        }
        out.push(b'}');
        let keeps_ties = was.is_object() && TIES.iter().all(|tie| metadata[tie] == was[tie]);
        Self { keeps_ties, ..Self::of(Bytes::from(out.into_boxed_slice())) }
    }

    fn of(whole: Bytes) -> Self {
        Self { kept: Packed::Whole(whole.clone()), whole, keeps_ties: false }
    }

    /// Reads the JSON of an object back from the disk, unless it is not such a thing.
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

    /// Tells whether an object already is this.
    pub(crate) fn is_same(&self, object: &Object) -> bool {
        self.whole.len() == object.body.len() && self.whole == object.body.bytes()
    }

    /// Gives the same, kept in less memory if the collection has others like it.
    pub(super) fn packed(self, packer: &Packer, collection: &Arc<str>) -> Self {
        Self { kept: packer.pack(collection, self.kept), ..self }
    }

    /// Gives the object at a version, as it is kept.
    pub(crate) fn at(&self, version: u64) -> Object {
        Object { version, body: self.kept.clone() }
    }

    /// Gives the object at a version, for who reads it now.
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

fn member(out: &mut Vec<u8>, key: &str, value: &Value, old: Option<&Value>, reading: Reading<'_>) {
    const SURE: &str = "JSON values can always be written to memory";
    serde_json::to_writer(&mut *out, key).expect(SURE);
    out.push(b':');
    match (reading, value) {
        // A string that was not there before is one: someone filled it in.
        (Reading::Text, Value::String(text)) if old == Some(value) => {
            out.extend_from_slice(text.as_bytes());
        }
        (Reading::Owners, Value::String(text)) => out.extend_from_slice(text.as_bytes()),
        (Reading::Members(_), Value::Object(members)) => {
            out.push(b'{');
            for (index, (key, value)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                member(out, key, value, old.and_then(|old| old.get(key)), reading.of(key));
            }
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

    /// Returns how many bytes it is kept in, without what it is like.
    pub(super) fn packed_size(&self) -> usize {
        match &self.body {
            Packed::Whole(bytes) | Packed::Unreadable(bytes) => bytes.len(),
            Packed::Like(like) => like.bytes.len(),
        }
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

    /// Writes the event that tells watchers of the object.
    pub(crate) fn event(&self, kind: &str, opening: &str) -> Bytes {
        let mut out = Vec::with_capacity(self.body.len() + 160);
        event_start(kind).iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
        self.write(opening, &mut out);
        out.extend_from_slice(b"}\n");
        Bytes::from(out)
    }

    /// Tells whether an event of this kind was written with this opening.
    pub(super) fn is_event(event: &[u8], kind: &str, opening: &str) -> bool {
        let start: usize = event_start(kind).iter().map(|part| part.len()).sum();
        event.get(start..).is_some_and(|object| object.starts_with(opening.as_bytes()))
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

    /// Tells whether the object can be read, and may be shown to those who read it.
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

    /// Reads parts of the object; `None` where members are named of something that has none.
    pub(crate) fn parts(&self, api_version: &str, kind: &str, parts: &Parts<'_>) -> Option<Value> {
        let body = self.body.bytes();
        let reader = &mut serde_json::Deserializer::from_slice(&body);
        let value = parts.reading().deserialize(reader).ok()?;
        Some(self.completed(value, api_version, kind))
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
    fn an_object_comes_back_with_its_version_and_whatever_kind_is_asked_for() {
        let kept = json!({
            "apiVersion": "x/v1", "kind": "X", "spec": {"a": "\u{1f600}\n"},
            "metadata": {"name": "a\"b", "resourceVersion": "stale"},
        });
        let object = Body::new(&kept).at(42);
        let mut out = Vec::new();
        object.write(&apimachinery::resource::opening("y/v2", "Y"), &mut out);
        let mut wanted = kept;
        wanted["apiVersion"] = "y/v2".into();
        wanted["kind"] = "Y".into();
        wanted["metadata"]["resourceVersion"] = "42".into();
        assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), wanted);
        assert_eq!(object.value("y/v2", "Y").unwrap(), wanted);
    }

    #[test]
    fn parts_of_an_object_are_read_and_the_rest_is_written_back_as_it_was() {
        let kept = json!({
            "apiVersion": "y/v2", "kind": "Y", "spec": {"a": "\u{1f600}\n", "b": [1, 2.5, null]},
            "status": {"c": "\"d\"", "e": {"f": "g", "h": "i\u{1f600}"}, "j": "k"},
            "metadata": {"name": "a\"b", "labels": {"l": "m"}, "managedFields": [{"manager": "m"}], "resourceVersion": "42"},
        });
        let object = Body::new(&kept).at(42);
        let parts = Parts::Named(Cow::Owned(
            json!({"metadata": {"labels": {"n": "o"}}, "status": {"c": 1, "e": {"f": 2}, "p": 3}}),
        ));
        let old = object.parts("y/v2", "Y", &parts).unwrap();
        for read in ["/metadata/name", "/metadata/labels", "/status/c", "/status/e/f"] {
            assert_eq!(old.pointer(read), kept.pointer(read), "{read}");
        }
        for text in ["/metadata/managedFields", "/spec", "/status/e/h", "/status/j"] {
            let wanted = kept.pointer(text).unwrap().to_string();
            assert_eq!(old.pointer(text), Some(&Value::from(wanted)), "{text}");
        }
        assert!(Body::changed(&old, &old, &parts).is_same(&object));
        let (mut new, mut wanted) = (old.clone(), kept);
        for changed in [&mut new, &mut wanted] {
            changed["status"]["c"] = "e".into();
            // Not named, as what a schema fills in is not.
            changed["status"]["e"]["q"] = "r".into();
            changed["metadata"]["labels"]["n"] = "o".into();
            changed["status"].as_object_mut().unwrap().remove("j");
        }
        assert_eq!(Body::changed(&new, &old, &parts).at(42).value("y/v2", "Y").unwrap(), wanted);
        let too_deep = Parts::Named(Cow::Owned(json!({"status": {"c": {"d": 1}}})));
        assert!(object.parts("y/v2", "Y", &too_deep).is_none());
    }

    #[test]
    fn what_is_not_an_object_is_not_restored() {
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
