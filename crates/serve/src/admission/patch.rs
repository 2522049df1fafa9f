//! The JSON Patch between two objects.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// Returns the operations that change `old` into `new`. A list or a value that differs is replaced as a whole.
pub(super) fn between(old: &Value, new: &Value) -> Vec<Value> {
    let mut changes = Vec::new();
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => diff_objects(old, new, "", &mut changes),
        _ => changes.push(json!({"op": "add", "path": "", "value": new})),
    }
    changes
}

/// Encodes a patch as an AdmissionReview carries it.
pub(super) fn encode(changes: &[Value]) -> String {
    STANDARD.encode(Value::from(changes).to_string())
}

fn diff_objects(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    path: &str,
    changes: &mut Vec<Value>,
) {
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        changes.push(json!({"op": "remove", "path": child_path(path, name)}));
    }
    for (name, value) in new {
        let path = child_path(path, name);
        match (old.get(name), value) {
            (Some(current), value) if current == value => {}
            (Some(Value::Object(current)), Value::Object(value)) => {
                diff_objects(current, value, &path, changes);
            }
            (Some(_) | None, value) => {
                changes.push(json!({"op": "add", "path": path, "value": value}));
            }
        }
    }
}

fn child_path(path: &str, name: &str) -> String {
    format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_differing_fields_are_patched() {
        let old = json!({"a": {"x/y": 1, "gone": 2, "same": [1]}, "b": [1]});
        let new = json!({"a": {"x/y": 3, "same": [1], "new": {}}, "b": [2]});
        assert_eq!(
            between(&old, &new),
            [
                json!({"op": "remove", "path": "/a/gone"}),
                json!({"op": "add", "path": "/a/new", "value": {}}),
                json!({"op": "add", "path": "/a/x~1y", "value": 3}),
                json!({"op": "add", "path": "/b", "value": [2]}),
            ]
        );
        assert_eq!(between(&old, &old), Vec::<Value>::new());
    }
}
