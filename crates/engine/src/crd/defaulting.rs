//! What does a schema say where a writer said nothing?

use serde_json::Value;

use crate::schema::Structural;

/// Fills in defaults, and drops nulls where the schema does not allow them. What is as in `old` has been through this.
pub(super) fn apply(schema: &Structural, value: &mut Value, old: Option<&Value>) {
    if old.is_some_and(|old| *old == *value) {
        return;
    }
    match value {
        Value::Object(map) => {
            for (name, property) in &schema.properties {
                let is_wrong_null = map.get(name).is_some_and(Value::is_null) && !property.nullable;
                if is_wrong_null {
                    map.remove(name);
                }
                if let Some(default) = property.default.as_ref().filter(|_| !map.contains_key(name))
                {
                    map.insert(name.clone(), default.clone());
                }
                if let Some(child) = map.get_mut(name) {
                    apply(property, child, old.and_then(|old| old.get(name)));
                }
            }
            if let Some(values) = schema.values_schema() {
                for (name, child) in map.iter_mut() {
                    if !schema.properties.contains_key(name) {
                        if child.is_null()
                            && !values.nullable
                            && let Some(default) = &values.default
                        {
                            *child = default.clone();
                        }
                        apply(values, child, old.and_then(|old| old.get(name)));
                    }
                }
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
    fn defaults_fill_what_is_absent_or_wrongly_null() {
        let schema = Structural::read(&json!({"type": "object", "properties": {
            "a": {"type": "string", "default": "x"}, "b": {"type": "string", "nullable": true, "default": "y"},
            "c": {"type": "object", "default": {}, "properties": {"d": {"type": "integer", "default": 5}}}}}))
        .unwrap();
        let mut document = json!({"a": null, "b": null});
        apply(&schema, &mut document, None);
        assert_eq!(document, json!({"a": "x", "b": null, "c": {"d": 5}}));
    }
}
