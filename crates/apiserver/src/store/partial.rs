//! Reads only some members of a stored object, to change it.
//!
//! Most changes concern a few members of a large object. The others are not parsed: their JSON is kept as it is stored, apart
//! from the object's value, and written back. Only the place of a member decides which of the two it is, never its content.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

const MANAGED_FIELDS: &str = "managedFields";

/// The metadata that is parsed only where it is named. What identifies an object, or is set by the API only, is parsed always.
const LARGE: [&str; 5] = ["annotations", "finalizers", "labels", MANAGED_FIELDS, "ownerReferences"];

/// The members of an object that are parsed to change it.
#[derive(Clone, Debug)]
pub(crate) enum Parts<'a> {
    /// All of it.
    All,
    /// The members that this names, as a merge patch does: a member that is an object names members of it, any other is parsed
    /// as a whole.
    Named(Cow<'a, Value>),
}

/// An object of which some members are not parsed.
#[derive(Debug)]
pub(crate) struct PartialObject {
    /// The object. A member that is not parsed is null in it, so that it counts as present and as unchanged.
    pub(crate) value: Value,
    /// The members that are not parsed.
    pub(crate) unparsed: Unparsed,
}

/// The members of a value that are not parsed, by name.
#[derive(Debug, Default)]
pub(crate) struct Unparsed(BTreeMap<String, Member>);

/// A member that is not parsed, or not all of it.
#[derive(Debug)]
pub(super) enum Member {
    /// It is not parsed: this is its JSON.
    Text(Bytes),
    /// It is an object with such members.
    Object(Unparsed),
}

impl Parts<'_> {
    /// Names these fields as a whole, and all metadata except the `managedFields`.
    pub(crate) fn whole(fields: &[&str]) -> Value {
        let metadata = LARGE.into_iter().filter(|field| *field != MANAGED_FIELDS);
        let metadata: Map<String, Value> = metadata.map(|f| (f.to_owned(), Value::Null)).collect();
        let fields = fields.iter().map(|field| ((*field).to_owned(), Value::Null));
        fields.chain([("metadata".to_owned(), metadata.into())]).collect()
    }
}

impl PartialObject {
    /// Parses the members of an object that are named, as by [`Parts::Named`].
    pub(super) fn parse(body: &Bytes, named: &Value) -> serde_json::Result<Self> {
        let mut unparsed = Unparsed::default();
        let seed =
            MembersSeed { scope: Scope::Object(named.as_object()), body, unparsed: &mut unparsed };
        let value = seed.deserialize(&mut serde_json::Deserializer::from_slice(body))?;
        Ok(Self { value, unparsed })
    }

    /// Returns an object that is parsed as a whole.
    pub(crate) fn whole(value: Value) -> Self {
        Self { value, unparsed: Unparsed::default() }
    }
}

impl Unparsed {
    /// Returns a member that is not parsed, or not all of it.
    pub(super) fn get(&self, name: &str) -> Option<&Member> {
        self.0.get(name)
    }

    /// Returns the members of a member that are not parsed.
    pub(super) fn below(&self, name: &str) -> Option<&Self> {
        match self.0.get(name)? {
            Member::Object(below) => Some(below),
            Member::Text(_) => None,
        }
    }

    /// Returns the JSON of the `managedFields` of an object, if they are there and not parsed.
    pub(crate) fn managed_fields(&self) -> Option<&[u8]> {
        match self.below("metadata")?.0.get(MANAGED_FIELDS)? {
            Member::Text(text) => Some(text),
            Member::Object(_) => None,
        }
    }

    /// Replaces the `managedFields` of an object, which were not parsed.
    pub(crate) fn set_managed_fields(&mut self, value: &mut Value, json: Option<String>) {
        let (Some(Member::Object(unparsed)), Some(metadata)) =
            (self.0.get_mut("metadata"), value["metadata"].as_object_mut())
        else {
            return;
        };
        match json {
            Some(json) => {
                metadata.insert(MANAGED_FIELDS.to_owned(), Value::Null);
                unparsed.0.insert(MANAGED_FIELDS.to_owned(), Member::Text(Bytes::from(json)));
            }
            None => {
                metadata.remove(MANAGED_FIELDS);
                unparsed.0.remove(MANAGED_FIELDS);
            }
        }
    }
}

/// The value in which members are read, and the ones that are named.
#[derive(Clone, Copy)]
enum Scope<'a> {
    /// The whole object.
    Object(Named<'a>),
    /// The metadata of the object.
    Metadata(Named<'a>),
    /// Any other value.
    Below(Named<'a>),
}

type Named<'a> = Option<&'a Map<String, Value>>;

/// How much of one member is parsed.
enum Extent<'a> {
    All,
    Nothing,
    Members(Scope<'a>),
}

impl<'a> Scope<'a> {
    fn extent(self, member: &str) -> Extent<'a> {
        let (Self::Object(named) | Self::Metadata(named) | Self::Below(named)) = self;
        let named = named.and_then(|named| named.get(member));
        match self {
            Self::Object(_) if member == "metadata" => {
                Extent::Members(Self::Metadata(named.and_then(Value::as_object)))
            }
            Self::Metadata(_) if named.is_none() && !LARGE.contains(&member) => Extent::All,
            Self::Metadata(_) if named.is_some() => Extent::All,
            Self::Object(_) | Self::Metadata(_) | Self::Below(_) => match named {
                None => Extent::Nothing,
                Some(Value::Object(named)) => Extent::Members(Self::Below(Some(named))),
                Some(_) => Extent::All,
            },
        }
    }
}

/// Reads the members of an object.
struct MembersSeed<'a, 'b> {
    scope: Scope<'a>,
    body: &'b Bytes,
    unparsed: &'b mut Unparsed,
}

impl<'de> DeserializeSeed<'de> for MembersSeed<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for MembersSeed<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = match self.scope.extent(&name) {
                Extent::All => map.next_value()?,
                Extent::Nothing => {
                    let text = map.next_value::<&RawValue>()?.get();
                    let text = self.body.slice_ref(text.as_bytes());
                    self.unparsed.0.insert(name.clone(), Member::Text(text));
                    Value::Null
                }
                Extent::Members(scope) => {
                    let mut below = Unparsed::default();
                    let (body, unparsed) = (self.body, &mut below);
                    let value = map.next_value_seed(MembersSeed { scope, body, unparsed })?;
                    if !below.0.is_empty() {
                        self.unparsed.0.insert(name.clone(), Member::Object(below));
                    }
                    value
                }
            };
            members.insert(name, value);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Body, Object};
    use serde_json::json;

    fn stored(object: &Value) -> Object {
        Body::new(object).at(42)
    }

    #[test]
    fn named_members_are_parsed_and_the_others_are_written_back_as_they_were() {
        let kept = json!({
            "apiVersion": "y/v2", "kind": "Y", "spec": {"a": "\u{1f600}\n", "b": [1, 2.5, null]},
            "status": {"c": "\"d\"", "e": {"f": "g", "h": "i\u{1f600}"}, "j": "k"},
            "metadata": {"name": "a\"b", "labels": {"l": "m"}, "managedFields": [{"manager": "m"}], "resourceVersion": "42"},
        });
        let object = stored(&kept);
        let named =
            json!({"metadata": {"labels": {"n": "o"}}, "status": {"c": 1, "e": {"f": 2}, "p": 3}});
        let PartialObject { value: old, unparsed } = object.partial("y/v2", "Y", &named).unwrap();
        for parsed in ["/metadata/name", "/metadata/labels", "/status/c", "/status/e/f"] {
            assert_eq!(old.pointer(parsed), kept.pointer(parsed), "{parsed}");
        }
        for text in ["/metadata/managedFields", "/spec", "/status/e/h", "/status/j"] {
            assert_eq!(old.pointer(text), Some(&Value::Null), "{text}");
        }
        assert_eq!(unparsed.managed_fields(), Some(&br#"[{"manager":"m"}]"#[..]));
        assert!(Body::changed(&old, &old, &unparsed).is_same(&object));
        let (mut new, mut wanted) = (old.clone(), kept);
        for changed in [&mut new, &mut wanted] {
            changed["status"]["c"] = "e".into();
            // Not named, as what a schema fills in is not.
            changed["status"]["e"]["q"] = "r".into();
            changed["metadata"]["labels"]["n"] = "o".into();
            changed["status"].as_object_mut().unwrap().remove("j");
        }
        let changed = Body::changed(&new, &old, &unparsed).at(42);
        assert_eq!(changed.value("y/v2", "Y").unwrap(), wanted);
        let too_deep = json!({"status": {"c": {"d": 1}}});
        assert!(object.partial("y/v2", "Y", &too_deep).is_none());
    }

    #[test]
    fn a_value_is_never_mistaken_for_the_text_of_a_member() {
        let kept = json!({
            "apiVersion": "y/v2", "kind": "Y",
            "metadata": {"name": "a", "managedFields": [{"manager": "m"}], "resourceVersion": "42"},
            "spec": {"null": null, "object": "{\"a\":1}", "string": "\"b\"", "text": "[", "c": 1},
        });
        let object = stored(&kept);
        let named = json!({"spec": {"c": 1}});
        let read = || object.partial("y/v2", "Y", &named).unwrap();
        let PartialObject { value: old, unparsed } = read();
        let (mut new, mut wanted) = (old.clone(), kept.clone());
        // Values that equal the JSON of members: one that was not there, and one that is set again.
        for changed in [&mut new, &mut wanted] {
            changed["spec"]["added"] = r#""{\"a\":1}""#.into();
            changed["spec"]["string"] = r#""\"b\"""#.into();
            changed["metadata"]["managedFields"] = "[]".into();
        }
        let changed = Body::changed(&new, &old, &unparsed).at(42);
        assert_eq!(changed.value("y/v2", "Y").unwrap(), wanted);
        let mut replaced = read();
        let PartialObject { value, unparsed } = &mut replaced;
        unparsed.set_managed_fields(value, Some("[1]".to_owned()));
        let changed = Body::changed(value, &old, unparsed).at(42).value("y/v2", "Y").unwrap();
        assert_eq!(changed["metadata"]["managedFields"], json!([1]));
        let mut removed = read();
        let PartialObject { value, unparsed } = &mut removed;
        unparsed.set_managed_fields(value, None);
        let changed = Body::changed(value, &old, unparsed).at(42).value("y/v2", "Y").unwrap();
        assert_eq!(changed["metadata"].get("managedFields"), None);
        assert_eq!(changed["spec"], kept["spec"]);
    }

    #[test]
    fn a_removed_finalizer_that_was_not_parsed_is_a_change_of_ties() {
        let kept = json!({"metadata": {"name": "a", "finalizers": ["f"]}});
        let PartialObject { value: old, unparsed } =
            stored(&kept).partial("y/v2", "Y", &json!({})).unwrap();
        assert!(Body::changed(&old, &old, &unparsed).keeps_ties());
        let mut new = old.clone();
        new["metadata"].as_object_mut().unwrap().remove("finalizers");
        assert!(!Body::changed(&new, &old, &unparsed).keeps_ties());
    }
}
