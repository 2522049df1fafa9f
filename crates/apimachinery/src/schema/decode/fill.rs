//! Applies Go's serialization rules to decoded structs.
//!
//! A Go struct has a value for every field. The field's tag decides whether an empty value is omitted; a struct or a field
//! without `omitempty` is always serialized.

use serde_json::{Map, Value};

use crate::schema::{Shape, ValueType};

/// Drops fields whose value Go omits, and adds those that it always serializes.
pub(super) fn apply_omitempty(shape: Shape<'_>, map: &mut Map<String, Value>) {
    map.retain(|name, value| match shape.field(name) {
        Some(field) => is_written(field, value),
        None => true,
    });
    for (name, field) in shape.always() {
        let is_null_list =
            map.get(name).is_some_and(|v| is_empty_collection(v) && !field.has_fields());
        if is_null_list && !field.is_pointer() {
            map.insert(name.to_owned(), Value::Null);
        } else if !map.contains_key(name) {
            map.insert(name.to_owned(), zero(field));
        }
    }
}

/// Returns the value that Go serializes for an unset field.
pub fn zero(shape: Shape<'_>) -> Value {
    if shape.is_pointer() {
        return Value::Null;
    }
    match shape.value_type() {
        ValueType::Object if shape.has_fields() => {
            let mut map = Map::new();
            apply_omitempty(shape, &mut map);
            Value::Object(map)
        }
        ValueType::String if shape.format() == "date-time" || shape.format() == "byte" => {
            Value::Null
        }
        ValueType::String => Value::String(String::new()),
        ValueType::Quantity => Value::String("0".to_owned()),
        ValueType::Integer | ValueType::IntOrString | ValueType::Number => Value::from(0),
        ValueType::Boolean => Value::Bool(false),
        ValueType::Any | ValueType::Object | ValueType::List => Value::Null,
    }
}

fn is_written(field: Shape<'_>, value: &Value) -> bool {
    if value.is_null() {
        return false;
    }
    if field.is_pointer() || !field.omits_empty() {
        return true;
    }
    match value {
        Value::Null => false,
        Value::Bool(v) => *v,
        Value::Number(v) => v.as_f64() != Some(0.0) || field.value_type() == ValueType::IntOrString,
        Value::String(v) => !v.is_empty() || field.value_type() == ValueType::IntOrString,
        Value::Array(_) | Value::Object(_) => !is_empty_collection(value) || field.has_fields(),
    }
}

fn is_empty_collection(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
