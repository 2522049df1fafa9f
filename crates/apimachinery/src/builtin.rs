//! Processes objects of Kubernetes' own kinds when they are written.
//!
//! Pure functions on decoded objects, in the order in which a write calls them: `default` fills in omitted fields, `admit`
//! does the work of a cluster's admission plugins, `prepare` resets fields that a client may not set and maintains the
//! generation, and `validate` rejects invalid objects.

pub mod admit;
mod defaults;
pub mod field;
mod prepare;
mod validate;

use serde_json::Value;

pub use defaults::default;
pub use prepare::{WrittenPart, prepare_create, prepare_update};
pub use validate::{
    NameRule, names, validate_create, validate_meta, validate_meta_update, validate_stored,
    validate_update,
};

/// One of Kubernetes' own kinds, by group and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltIn<'a> {
    pub group: &'a str,
    pub kind: &'a str,
}

/// Returns a field's value, unless it is absent, null or an empty string.
fn given<'v>(object: &'v Value, field: &str) -> Option<&'v Value> {
    object.get(field).filter(|v| !v.is_null() && v.as_str() != Some(""))
}

/// Returns the string in a field, or an empty one.
fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the items of the list in a field.
fn items<'v>(object: &'v Value, field: &str) -> &'v [Value] {
    object.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the items of the list in a field, mutably.
fn items_mut<'v>(object: &'v mut Value, field: &str) -> &'v mut [Value] {
    object.get_mut(field).and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default()
}

/// Sets a field that is absent.
fn fill(object: &mut Value, field: &str, with: impl Into<Value>) {
    if given(object, field).is_none()
        && let Some(map) = object.as_object_mut()
    {
        map.insert(field.to_owned(), with.into());
    }
}

/// Removes a field.
pub fn remove_field(object: &mut Value, field: &str) {
    take_field(object, field);
}

/// Removes a field and returns its value.
fn take_field(object: &mut Value, field: &str) -> Option<Value> {
    object.as_object_mut().and_then(|map| map.remove(field))
}
