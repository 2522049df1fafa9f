//! Properties that hold for any input.
//!
//! Entry points for the fuzzer (`fuzz/`) and for the test that replays its corpus. Each takes bytes as received from a client
//! and panics only when a property is violated.

use crate::patch::{json, merge, strategic};
use crate::schema::Types;
use crate::selector::{FieldSelector, LabelSelector, Selectable};
use serde_json::Value;

/// The name of a fuzz target and its function.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [FuzzTarget; 4] = [
    ("json_patch", json_patch),
    ("merge_patch", merge_patch),
    ("strategic_patch", strategic_patch),
    ("selector", selector),
];

/// Parses an object and a patch: two JSON documents, one after the other.
fn object_and_patch(data: &[u8]) -> Option<(Value, Value)> {
    let mut documents = serde_json::Deserializer::from_slice(data).into_iter::<Value>();
    let object = documents.next()?.ok().filter(Value::is_object)?;
    Some((object, documents.next()?.ok()?))
}

/// Applies a JSON patch: it succeeds or is rejected, and one that only has tests changes nothing.
pub fn json_patch(data: &[u8]) {
    let Some((object, patch)) = object_and_patch(data) else { return };
    let only_tests = patch.as_array().is_some_and(|ops| ops.iter().all(|op| op["op"] == "test"));
    let Ok(patch) = json::Patch::decode(patch) else { return };
    let mut result = object.clone();
    if patch.apply(&mut result).is_ok() && only_tests {
        assert_eq!(result, object);
    }
}

/// Applies a merge patch: no member that it sets to null remains, and members set to a scalar have that value.
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
            Value::Null => assert_eq!(result.get(name), None, "{name} is removed"),
            Value::Object(_) => assert_follows(&result[name], value),
            Value::Array(_) => assert!(result[name].is_array(), "{name} is a list"),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                assert_eq!(result[name], *value, "{name} is set");
            }
        }
    }
}

/// Applies a strategic merge patch: it succeeds or is rejected, and an empty one changes nothing.
pub fn strategic_patch(data: &[u8]) {
    let Some((object, patch)) = object_and_patch(data) else { return };
    let shape = Types::builtin().kind("", "v1", "Pod");
    let mut result = object.clone();
    let is_empty = patch.as_object().is_some_and(serde_json::Map::is_empty);
    if strategic::apply(&mut result, patch, shape).is_ok() && is_empty {
        assert_eq!(result, object);
    }
}

/// Parses a selector: formatting and parsing a valid one again returns an equal selector.
pub fn selector(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(labels) = LabelSelector::parse(text) {
        let again =
            LabelSelector::parse(&labels.to_string()).expect("what was written down can be read");
        assert_eq!(again.to_string(), labels.to_string());
        assert!(labels.matches(None) == again.matches(None));
    }
    let pod = Selectable::Builtin { group: "", kind: "Pod" };
    if let Ok(fields) = FieldSelector::parse(text, pod) {
        let again = FieldSelector::parse(&fields.to_string(), pod)
            .expect("what was written down can be read");
        assert_eq!(again.to_string(), fields.to_string());
    }
}
