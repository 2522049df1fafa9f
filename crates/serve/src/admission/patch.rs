//! What turns one object into another, as a JSON Patch?

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// Lists the changes. A list or a value that differs is set as a whole.
pub(super) fn between(old: &Value, new: &Value) -> Vec<Value> {
    let mut changes = Vec::new();
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => objects(old, new, "", &mut changes),
        _ => changes.push(json!({"op": "add", "path": "", "value": new})),
    }
    changes
}

/// Writes a patch the way a review carries it.
pub(super) fn encode(changes: &[Value]) -> String {
    STANDARD.encode(Value::from(changes).to_string())
}

fn objects(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    path: &str,
    changes: &mut Vec<Value>,
) {
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        changes.push(json!({"op": "remove", "path": step(path, name)}));
    }
    for (name, value) in new {
        let path = step(path, name);
        match (old.get(name), value) {
            (Some(there), value) if there == value => {}
            (Some(Value::Object(there)), Value::Object(value)) => {
                objects(there, value, &path, changes);
            }
            (Some(_) | None, value) => {
                changes.push(json!({"op": "add", "path": path, "value": value}));
            }
        }
    }
}

fn step(path: &str, name: &str) -> String {
    format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_changed_where_it_differs() {
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
