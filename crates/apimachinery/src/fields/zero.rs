//! What does a kind's object look like before anything is set?
//!
//! The real server compares a new object with an empty one of its Go type, in which structs are there and lists that
//! are always written are null. What is already there in that way is not gained by whoever creates the object.

use super::Write;
use crate::schema::{Shape, What};
use serde_json::{Map, Value, json};

/// Makes the empty object of the kind that is written.
pub fn object(write: &Write<'_>) -> Value {
    match (write.shape)(write.api_version) {
        Some(shape) if write.is_builtin => structure(shape, 0),
        _ => json!({}),
    }
}

fn structure(shape: Shape<'_>, depth: usize) -> Value {
    let mut members = Map::new();
    // Structs that hold themselves do so through pointers; the bound only keeps a slip in the data from looping.
    if depth < 16 {
        for (name, field) in shape.fields() {
            if let Some(value) = field_value(field, depth) {
                members.insert(name.to_owned(), value);
            }
        }
    }
    Value::Object(members)
}

fn field_value(field: Shape<'_>, depth: usize) -> Option<Value> {
    let is_struct =
        field.what() == What::Object && field.values().is_none() && !field.go().starts_with('*');
    if is_struct && field.has_fields() {
        return (!field.omits_zero()).then(|| structure(field, depth + 1));
    }
    if field.omits_empty() || field.omits_zero() {
        return None;
    }
    Some(match field.what() {
        _ if field.go().starts_with('*') => Value::Null,
        What::String => json!(""),
        What::Integer | What::Number => json!(0),
        What::Boolean => json!(false),
        What::Object | What::List | What::Any | What::Quantity | What::IntOrString => Value::Null,
    })
}
