//! How does a CustomResourceDefinition become a served kind?
//!
//! The definition is an object like any other; what makes it special is that its versions are served, with their
//! schemas, once its names are accepted. Deleting it deletes its objects first.

mod at;
mod check;
mod defaulting;
mod definition;
mod pruning;
mod resources;

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

pub use definition::{default, prepare_create, prepare_update, validate, warnings};
pub use resources::resources;

use crate::builtin::field::FieldError;
use crate::members::Before;
use crate::schema::decode::{self, Decoded, Error};
use crate::schema::{Structural, Types};

/// What the write path knows of one version of a custom resource.
#[derive(Debug)]
pub struct Custom {
    schema: Option<Structural>,
    /// The schema as it was written, for OpenAPI.
    pub document: Value,
    /// Whether any part of the schema has rules in CEL.
    has_rules: bool,
    /// Whether stored objects may be older than the schema's defaults, which then are filled in as they are read.
    pub fills_stored: bool,
    /// What a client is told when it uses the version.
    pub deprecation: Option<String>,
    /// Where the `scale` subresource finds its numbers.
    pub scale: Option<Scale>,
}

/// Where in an object its `scale` is.
#[derive(Clone, Debug)]
pub struct Scale {
    pub replicas: String,
    pub status_replicas: String,
    pub selector: Option<String>,
}

impl Custom {
    /// Brings a document into the form of its version: unknown fields out, defaults in. What was unknown is listed. What is as
    /// in `old` has that form.
    pub fn settle(&self, mut document: Value, old: Option<&Value>) -> Result<Decoded, Error> {
        let mut strict = Vec::new();
        if document["metadata"].is_null()
            && let Some(map) = document.as_object_mut()
        {
            map.remove("metadata");
        }
        let (new, was) = (document.get_mut("metadata"), old.map(|old| &old["metadata"]));
        if let Some(new) = new.filter(|new| was.is_none_or(|was| *was != **new)) {
            let changed = take_changed(new, was);
            let settled = metadata(&changed, "metadata")?;
            strict.extend(settled.strict);
            match (new.as_object_mut(), settled.value) {
                (Some(new), Value::Object(settled)) => new.extend(settled),
                (_, settled) => *new = settled,
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

    /// Checks an object against the schema.
    pub fn check(&self, document: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let schema = self.schema.as_ref();
        schema.map(|s| check::object(s, self.has_rules, document, old)).unwrap_or_default()
    }

    /// Tells whether an object may be changed without reading more than this names. Where a schema looks at several members together,
    /// all of them are read.
    pub fn can_be_read_in_parts(&self, named: &mut Cow<'_, Value>) -> bool {
        let Some(schema) = &self.schema else { return true };
        if names_combined(schema, named) {
            read_combined(schema, named.to_mut());
        }
        named.is_object()
    }

    /// The shape that patches and server-side apply walk.
    pub fn types(&self) -> Option<Arc<Types>> {
        self.schema.as_ref().map(|s| Arc::new(s.shape()))
    }
}

/// Writes whole numbers as such, as the real server does: a typed client cannot read `2.0` into an integer.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            // From 2^63 on a number is not an integer to clients, either.
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

/// Takes out the members of an object that are not as they were; all of what is not an object.
fn take_changed(new: &mut Value, was: Option<&Value>) -> Value {
    let Some(members) = new.as_object_mut() else { return std::mem::take(new) };
    let mut before = Before::of(was);
    let changed = members.iter().filter(|(name, value)| before.get(name) != Some(*value));
    let changed: Vec<String> = changed.map(|(name, _)| name.clone()).collect();
    changed.iter().filter_map(|name| members.remove_entry(name)).collect()
}

/// Tells whether something is named where a schema looks at several members together.
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

/// Decodes metadata, in which a custom resource has no say.
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
