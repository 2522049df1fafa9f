//! Builds the empty object of a kind, against which a new object is compared.
//!
//! kube-apiserver compares a new object with the zero value of its Go type, in which structs exist and lists that are always
//! serialized are null. The creator of an object does not become the owner of these.

use super::WriteContext;
use crate::schema::{Shape, ValueType};
use serde_json::{Map, Value, json};

/// Builds the empty object of the written kind.
pub fn object(write: &WriteContext<'_>) -> Value {
    match (write.shape)(write.api_version) {
        Some(shape) if write.is_builtin => structure(shape, 0),
        _ => json!({}),
    }
}

fn structure(shape: Shape<'_>, depth: usize) -> Value {
    let mut members = Map::new();
    // Structs contain themselves only through pointers; the limit guards against an error in the data.
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
    let is_struct = field.value_type() == ValueType::Object
        && field.values().is_none()
        && !field.go().starts_with('*');
    if is_struct && field.has_fields() {
        return (!field.omits_zero()).then(|| structure(field, depth + 1));
    }
    if field.omits_empty() || field.omits_zero() {
        return None;
    }
    Some(match field.value_type() {
        _ if field.go().starts_with('*') => Value::Null,
        ValueType::String => json!(""),
        ValueType::Integer | ValueType::Number => json!(0),
        ValueType::Boolean => json!(false),
        ValueType::Object
        | ValueType::List
        | ValueType::Any
        | ValueType::Quantity
        | ValueType::IntOrString => Value::Null,
    })
}
