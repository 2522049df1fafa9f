//! Prunes fields that a schema does not declare.

use serde_json::Value;

use super::location::Location;
use super::metadata;
use crate::members::OldMembers;
use crate::schema::Structural;
use crate::schema::decode::{Error, StrictErrors};

/// Drops undeclared fields, and lists them as strict decoding does. Parts that equal `old` are already pruned.
pub(super) fn prune(
    schema: &Structural,
    document: &mut Value,
    old: Option<&Value>,
) -> Result<Vec<String>, Error> {
    let mut unknown = StrictErrors::default();
    walk(schema, document, old, true, Location::Root, &mut unknown)?;
    Ok(unknown.into_vec())
}

fn walk(
    schema: &Structural,
    value: &mut Value,
    old: Option<&Value>,
    is_object_root: bool,
    at: Location<'_>,
    unknown: &mut StrictErrors,
) -> Result<(), Error> {
    match value {
        Value::Object(map) => {
            let free = schema.preserves_unknown || schema.keeps_all();
            let mut dropped = Vec::new();
            let mut before = OldMembers::new(old);
            for (key, child) in map.iter_mut() {
                let was = before.get(key);
                if was == Some(child) {
                    continue;
                }
                let step = Location::Field(&at, key);
                if is_object_root && matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
                    let is_embedded = !matches!(at, Location::Root);
                    if key == "metadata" && is_embedded && child.is_object() {
                        let decoded = metadata(child, &step.to_string())?;
                        unknown.extend(decoded.strict);
                        *child = decoded.value;
                    }
                    continue;
                }
                match schema.member(key) {
                    Some(inner) => {
                        walk(inner, child, was, inner.is_embedded, step, unknown)?;
                    }
                    None if free => {}
                    None => {
                        unknown.add(|| format!("unknown field \"{step}\""));
                        dropped.push(key.clone());
                    }
                }
            }
            for key in dropped {
                map.remove(&key);
            }
        }
        Value::Array(list) => {
            if let Some(items) = &schema.items {
                for (index, child) in list.iter_mut().enumerate() {
                    let step = Location::Item(&at, index);
                    walk(items, child, None, items.is_embedded, step, unknown)?;
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_fields_are_pruned_unless_the_schema_preserves_them() {
        let schema = Structural::read(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "a": {"type": "string"}, "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "list": {"type": "array", "items": {"type": "object", "properties": {"b": {"type": "string"}}}}}}}}))
        .unwrap();
        let mut document = json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "foo": 1, "spec": {
            "a": "x", "z": 1, "any": {"deep": {"er": 1}}, "list": [{"b": "x", "c": 1}]}});
        let unknown = prune(&schema, &mut document, None).unwrap();
        let expected = [
            "unknown field \"foo\"",
            "unknown field \"spec.list[0].c\"",
            "unknown field \"spec.z\"",
        ];
        assert_eq!(unknown, expected);
        assert_eq!(
            document["spec"],
            json!({"a": "x", "any": {"deep": {"er": 1}}, "list": [{"b": "x"}]})
        );
    }
}
