//! What must hold for any input, however strange?
//!
//! Entry points for the fuzzer (`fuzz/`) and for the test that replays its corpus. Each takes bytes as they might come
//! over the wire, and panics only when a property does not hold.

use crate::patch::{json, merge, strategic};
use crate::schema::Types;
use crate::selector::{Fields, Labels, Selectable};
use serde_json::Value;

/// A target's name and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 4] = [
    ("json_patch", json_patch),
    ("merge_patch", merge_patch),
    ("strategic_patch", strategic_patch),
    ("selector", selector),
];

/// Reads an object and a patch: two JSON documents, one after the other.
fn object_and_patch(data: &[u8]) -> Option<(Value, Value)> {
    let mut documents = serde_json::Deserializer::from_slice(data).into_iter::<Value>();
    let object = documents.next()?.ok().filter(Value::is_object)?;
    Some((object, documents.next()?.ok()?))
}

/// A JSON patch applies or is refused, and one that only tests changes nothing.
pub fn json_patch(data: &[u8]) {
    let Some((object, patch)) = object_and_patch(data) else { return };
    let only_tests = patch.as_array().is_some_and(|ops| ops.iter().all(|op| op["op"] == "test"));
    let Ok(patch) = json::Patch::decode(patch) else { return };
    let mut result = object.clone();
    if patch.apply(&mut result).is_ok() && only_tests {
        assert_eq!(result, object);
    }
}

/// A merge patch leaves no member that it sets to null, and all that it sets to a plain value.
pub fn merge_patch(data: &[u8]) {
    let Some((object, patch)) = object_and_patch(data) else { return };
    let mut result = object;
    if merge::apply(&mut result, &patch).is_err() {
        return;
    }
    assert_follows(&result, &patch);
}

fn assert_follows(result: &Value, patch: &Value) {
    for (name, value) in patch.as_object().into_iter().flatten() {
        match value {
            Value::Null => assert_eq!(result.get(name), None, "{name} was to go"),
            Value::Object(_) => assert_follows(&result[name], value),
            Value::Array(_) => assert!(result[name].is_array(), "{name} was to be a list"),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                assert_eq!(result[name], *value, "{name} was to be set");
            }
        }
    }
}

/// A strategic merge patch applies or is refused, and an empty one changes nothing.
pub fn strategic_patch(data: &[u8]) {
    let Some((object, patch)) = object_and_patch(data) else { return };
    let shape = Types::builtin().kind("", "v1", "Pod");
    let mut result = object.clone();
    let is_empty = patch.as_object().is_some_and(serde_json::Map::is_empty);
    if strategic::apply(&mut result, patch, shape).is_ok() && is_empty {
        assert_eq!(result, object);
    }
}

/// A selector that is understood says the same when it is written down and read again.
pub fn selector(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(labels) = Labels::parse(text) {
        let again = Labels::parse(&labels.to_string()).expect("what was written down can be read");
        assert_eq!(again.to_string(), labels.to_string());
        assert!(labels.matches(None) == again.matches(None));
    }
    let pod = Selectable::Builtin { group: "", kind: "Pod" };
    if let Ok(fields) = Fields::parse(text, pod) {
        let again =
            Fields::parse(&fields.to_string(), pod).expect("what was written down can be read");
        assert_eq!(again.to_string(), fields.to_string());
    }
}
