//! What does Kubernetes do with an object of one of its own kinds when it is written?
//!
//! Pure functions on decoded objects, in the order in which a write goes through them: `default` fills in what was
//! left out, `admit` does what the admission plugins of a cluster do, `prepare` resets what a writer may not set
//! and keeps count of generations, and `validate` refuses what makes no sense.

pub mod admit;
mod defaults;
pub mod field;
mod prepare;
mod validate;

use serde_json::Value;

pub use defaults::default;
pub use prepare::{Part, prepare_create, prepare_update};
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

/// A field's content, unless it is absent, null or empty text.
fn given<'v>(object: &'v Value, field: &str) -> Option<&'v Value> {
    object.get(field).filter(|v| !v.is_null() && v.as_str() != Some(""))
}

/// The text in a field; empty when there is none.
fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a list in a field.
fn items<'v>(object: &'v Value, field: &str) -> &'v [Value] {
    object.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The items of a list in a field, to be changed.
fn items_mut<'v>(object: &'v mut Value, field: &str) -> &'v mut [Value] {
    object.get_mut(field).and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default()
}

/// Fills a field that was left out.
fn fill(object: &mut Value, field: &str, with: impl Into<Value>) {
    if given(object, field).is_none()
        && let Some(map) = object.as_object_mut()
    {
        map.insert(field.to_owned(), with.into());
    }
}

/// Takes a field out.
pub fn forget(object: &mut Value, field: &str) {
    remove(object, field);
}

/// Takes a field out, and gives what was in it.
fn remove(object: &mut Value, field: &str) -> Option<Value> {
    object.as_object_mut().and_then(|map| map.remove(field))
}
