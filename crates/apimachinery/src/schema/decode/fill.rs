//! Which fields does Go write back?
//!
//! A Go struct has a value for every field. What is written depends on the field's tag: an empty value may be left
//! out, and a struct or a field without `omitempty` is always there.

use serde_json::{Map, Value};

use crate::schema::{Shape, What};

/// Drops fields whose value Go leaves out, and adds those that it always writes.
pub(super) fn settle(shape: Shape<'_>, map: &mut Map<String, Value>) {
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

/// The value that Go writes for a place where nothing was given.
pub fn zero(shape: Shape<'_>) -> Value {
    if shape.is_pointer() {
        return Value::Null;
    }
    match shape.what() {
        What::Object if shape.has_fields() => {
            let mut map = Map::new();
            settle(shape, &mut map);
            Value::Object(map)
        }
        What::String if shape.format() == "date-time" || shape.format() == "byte" => Value::Null,
        What::String => Value::String(String::new()),
        What::Quantity => Value::String("0".to_owned()),
        What::Integer | What::IntOrString | What::Number => Value::from(0),
        What::Boolean => Value::Bool(false),
        What::Any | What::Object | What::List => Value::Null,
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
        Value::Number(v) => v.as_f64() != Some(0.0) || field.what() == What::IntOrString,
        Value::String(v) => !v.is_empty() || field.what() == What::IntOrString,
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
