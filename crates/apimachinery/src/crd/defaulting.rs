//! Fills in the defaults of a custom resource's schema.

use serde_json::Value;

use crate::members::OldMembers;
use crate::schema::Structural;

/// Fills in defaults, and drops nulls where the schema does not allow them. Parts that equal `old` are already defaulted.
pub(super) fn apply(schema: &Structural, value: &mut Value, old: Option<&Value>) {
    match value {
        Value::Object(map) => {
            let mut before = OldMembers::new(old);
            let mut nulls = Vec::new();
            for (name, child) in map.iter_mut() {
                let was = before.get(name);
                if was == Some(child) {
                    continue;
                }
                match (schema.properties.get(name), schema.values_schema()) {
                    (Some(property), _) if child.is_null() && !property.nullable => {
                        nulls.push(name.clone());
                    }
                    (Some(property), _) => apply(property, child, was),
                    (None, Some(values)) => {
                        if child.is_null()
                            && !values.nullable
                            && let Some(default) = &values.default
                        {
                            *child = default.clone();
                        }
                        apply(values, child, was);
                    }
                    (None, None) => {}
                }
            }
            nulls.iter().for_each(|name| drop(map.remove(name)));
            let absent: Vec<&String> =
                schema.defaulted.iter().filter(|name| !map.contains_key(*name)).collect();
            for name in absent {
                let property = &schema.properties[name];
                let mut default = property.default.clone().unwrap_or_default();
                apply(property, &mut default, None);
                map.insert(name.clone(), default);
            }
        }
        Value::Array(list) => {
            if let Some(items) = &schema.items {
                list.iter_mut().for_each(|child| apply(items, child, None));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_replace_absent_and_disallowed_null_values() {
        let schema = Structural::read(&json!({"type": "object", "properties": {
            "a": {"type": "string", "default": "x"}, "b": {"type": "string", "nullable": true, "default": "y"},
            "c": {"type": "object", "default": {}, "properties": {"d": {"type": "integer", "default": 5}}}}}))
        .unwrap();
        let mut document = json!({"a": null, "b": null});
        apply(&schema, &mut document, None);
        assert_eq!(document, json!({"a": "x", "b": null, "c": {"d": 5}}));
    }
}
