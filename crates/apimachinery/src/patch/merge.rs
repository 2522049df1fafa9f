//! JSON merge patch (RFC 7386).

use super::{Error, type_name};
use serde_json::{Map, Value};

/// Merges `patch` into `object`: null removes, objects merge, all else replaces.
pub fn apply(object: &mut Value, patch: &Value) -> Result<(), Error> {
    match patch {
        Value::Object(patch) => {
            merge(as_object(object), patch);
            Ok(())
        }
        Value::Null => Err(Error::Malformed("Invalid JSON Patch".into())),
        other => Err(Error::Malformed(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            type_name(other)
        ))),
    }
}

fn merge(object: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, value) in patch {
        match (object.get_mut(name), value) {
            (_, Value::Null) => drop(object.remove(name)),
            (Some(Value::Object(target)), Value::Object(value)) => merge(target, value),
            (Some(target), value) => {
                // kube-apiserver removes nulls inside a list only where the list replaces nothing or something other than an
                // object.
                let replaces_object = target.is_object();
                *target = value.clone();
                if !replaces_object {
                    prune(target);
                }
            }
            (None, value) => {
                let mut value = value.clone();
                prune(&mut value);
                object.insert(name.clone(), value);
            }
        }
    }
}

/// Removes members that are null from objects, at any depth; a list keeps its null items.
fn prune(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(prune);
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn as_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made an object above")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_merge_and_nulls_remove() {
        for (object, patch, wanted) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
            (json!({}), json!({"a": [{"b": null, "c": 1}, null]}), json!({"a": [{"c": 1}, null]})),
            (json!({"a": 1}), json!({"a": {"b": null}}), json!({"a": {}})),
        ] {
            let mut result = object.clone();
            apply(&mut result, &patch).unwrap();
            assert_eq!(result, wanted, "{object} with {patch}");
        }
    }

    #[test]
    fn only_objects_are_merge_patches() {
        for (patch, message) in [
            (json!(null), "Invalid JSON Patch"),
            (
                json!([1]),
                "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
            ),
        ] {
            assert_eq!(
                apply(&mut json!({}), &patch).unwrap_err(),
                Error::Malformed(message.into())
            );
        }
    }
}
