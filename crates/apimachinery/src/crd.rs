//! Serves CustomResourceDefinitions, and prunes, defaults and validates custom objects.
//!
//! A definition is stored like any other object. Once its names are accepted, its versions are served with their schemas.
//! Deleting it deletes its objects first.

mod check;
mod defaulting;
mod definition;
mod location;
mod pruning;
mod resources;

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

pub use definition::{default, prepare_create, prepare_update, validate, warnings};
pub use resources::resources;

use crate::builtin::field::FieldError;
use crate::members::OldMembers;
use crate::schema::decode::{self, Decoded, Error};
use crate::schema::{Structural, Types};

/// Keeps a deleted definition until its custom objects are deleted.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// One version of a custom resource, as writes need it.
#[derive(Debug)]
pub struct CustomVersion {
    schema: Option<Structural>,
    /// The schema as the definition has it, for OpenAPI.
    pub document: Value,
    /// Whether any part of the schema has CEL rules.
    has_rules: bool,
    /// Whether stored objects may be older than the schema's defaults, which are then filled in when the objects are read.
    pub fills_stored: bool,
    /// The warning that clients of a deprecated version get.
    pub deprecation: Option<String>,
    /// The paths of the `scale` subresource.
    pub scale: Option<Scale>,
}

/// The paths in an object that its `scale` subresource reads and writes.
#[derive(Clone, Debug)]
pub struct Scale {
    pub replicas: String,
    pub status_replicas: String,
    pub selector: Option<String>,
}

impl CustomVersion {
    /// Prunes unknown fields and fills in defaults. Unknown fields are listed as strict decoding errors. Parts that equal
    /// `old` are already normalized.
    pub fn normalize(&self, mut document: Value, old: Option<&Value>) -> Result<Decoded, Error> {
        let mut strict = Vec::new();
        if document["metadata"].is_null()
            && let Some(map) = document.as_object_mut()
        {
            map.remove("metadata");
        }
        let (new, was) = (document.get_mut("metadata"), old.map(|old| &old["metadata"]));
        if let Some(new) = new.filter(|new| was.is_none_or(|was| *was != **new)) {
            let changed = take_changed(new, was);
            let decoded = metadata(&changed, "metadata")?;
            strict.extend(decoded.strict);
            match (new.as_object_mut(), decoded.value) {
                (Some(new), Value::Object(decoded)) => new.extend(decoded),
                (_, decoded) => *new = decoded,
            }
        }
        whole_numbers(&mut document);
        if let Some(schema) = &self.schema {
            let mut unknown = pruning::prune(schema, &mut document, old)?;
            unknown.sort();
            strict.extend(unknown);
            self.default(&mut document, old);
        }
        Ok(Decoded { value: document, strict })
    }

    /// Fills in the defaults of the schema.
    pub fn default(&self, document: &mut Value, old: Option<&Value>) {
        if let Some(schema) = self.schema.as_ref().filter(|_| old != Some(document)) {
            defaulting::apply(schema, document, old);
        }
    }

    /// Validates an object against the schema.
    pub fn check(&self, document: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let schema = self.schema.as_ref();
        schema.map(|s| check::object(s, self.has_rules, document, old)).unwrap_or_default()
    }

    /// Returns whether a patch can be applied to an object after decoding only the members in `named`. Where a schema combines
    /// several members (`anyOf` and the like), all of them are added to `named`.
    pub fn can_be_read_in_parts(&self, named: &mut Cow<'_, Value>) -> bool {
        let Some(schema) = &self.schema else { return true };
        if names_combined(schema, named) {
            read_combined(schema, named.to_mut());
        }
        named.is_object()
    }

    /// Returns the types that patches and server-side apply use.
    pub fn types(&self) -> Option<Arc<Types>> {
        self.schema.as_ref().map(|s| Arc::new(s.shape()))
    }
}

/// Stores whole numbers as integers, as kube-apiserver does: a typed client cannot decode `2.0` into an integer.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            // From 2^63 on, clients cannot read a number as an integer anyway.
            let whole = number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9.2e18);
            if let Some(whole) = whole {
                *value = Value::from(whole as i64);
            }
        }
        Value::Object(map) => map.values_mut().for_each(whole_numbers),
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Removes the changed members of an object and returns them; returns all of a value that is not an object.
fn take_changed(new: &mut Value, was: Option<&Value>) -> Value {
    let Some(members) = new.as_object_mut() else { return std::mem::take(new) };
    let mut before = OldMembers::new(was);
    let changed = members.iter().filter(|(name, value)| before.get(name) != Some(*value));
    let changed: Vec<String> = changed.map(|(name, _)| name.clone()).collect();
    changed.iter().filter_map(|name| members.remove_entry(name)).collect()
}

/// Returns whether `named` has a member where a schema combines several members.
fn names_combined(schema: &Structural, named: &Value) -> bool {
    let mut members = named.as_object().into_iter().flatten();
    schema.combines()
        || members.any(|(name, below)| {
            schema.member(name).is_some_and(|schema| names_combined(schema, below))
        })
}

fn read_combined(schema: &Structural, named: &mut Value) {
    if schema.combines() {
        *named = Value::Null;
    }
    for (name, below) in named.as_object_mut().into_iter().flatten() {
        if let Some(schema) = schema.member(name) {
            read_combined(schema, below);
        }
    }
}

/// Decodes metadata, which is the same for every custom resource.
fn metadata(meta: &Value, path: &str) -> Result<Decoded, Error> {
    let shape = Types::builtin().named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    let mut decoded = decode::value(meta, shape).map_err(|error| {
        let at = |text: String| text.replace("Go struct field .", "Go struct field ObjectMeta.");
        Error::Type(at(error.to_string()))
    })?;
    for note in &mut decoded.strict {
        *note = note.replacen("field \"", &format!("field \"{path}."), 1);
    }
    Ok(decoded)
}
