//! Validates object metadata.

use std::collections::HashSet;

use serde_json::Value;

use super::names::{self, Violations};
use super::{Errors, numbers};
use crate::builtin::field::Path;
use crate::builtin::{given, items, text};
use crate::members::OldMembers;

/// The syntax required of an object's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// An RFC 1123 label.
    Label,
    /// An RFC 1123 subdomain.
    Subdomain,
    /// Anything that can be a segment of a URL path.
    PathSegment,
}

impl NameRule {
    fn check(self) -> fn(&str) -> Violations {
        match self {
            Self::Label => names::label,
            Self::Subdomain => names::subdomain,
            Self::PathSegment => names::path_segment,
        }
    }
}

/// Validates the metadata of a new object.
pub fn validate_meta(
    meta: &Value,
    namespaced: bool,
    rule: NameRule,
    path: &Path,
    errors: &mut Errors,
) {
    let prefix = text(meta, "generateName");
    if !prefix.is_empty() {
        violations(
            &path.child("generateName"),
            prefix,
            names::generated(prefix, rule.check()),
            errors,
        );
    }
    match text(meta, "name") {
        "" => errors.push(path.child("name").required("name or generateName is required")),
        name => violations(&path.child("name"), name, rule.check()(name), errors),
    }
    let namespace = text(meta, "namespace");
    if !namespaced && !namespace.is_empty() {
        errors.push(path.child("namespace").forbidden("not allowed on this type"));
    } else if namespaced && namespace.is_empty() {
        errors.push(path.child("namespace").required(""));
    } else if namespaced {
        violations(&path.child("namespace"), namespace, names::label(namespace), errors);
    }
    numbers::not_negative(meta, "generation", path, errors);
    common(meta, None, path, errors);
    finalizers(meta, &path.child("finalizers"), errors);
}

/// Validates the metadata of a changed object.
pub fn validate_meta_update(meta: &Value, old: &Value, path: &Path, errors: &mut Errors) {
    if given(old, "deletionTimestamp").is_some() {
        let known: HashSet<&Value> = items(old, "finalizers").iter().collect();
        let added: Vec<&Value> =
            items(meta, "finalizers").iter().filter(|f| !known.contains(f)).collect();
        if !added.is_empty() {
            let list: Vec<&str> = added.iter().filter_map(|f| f.as_str()).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                list.iter().map(|f| crate::quote::quote(f)).collect::<Vec<_>>().join(", ")
            );
            errors.push(path.child("finalizers").forbidden(detail));
        }
    }
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        immutable(meta, old, field, path, errors);
    }
    common(meta, Some(old), path, errors);
}

/// Rejects a change of an immutable field.
pub(super) fn immutable(new: &Value, old: &Value, field: &str, path: &Path, errors: &mut Errors) {
    let (value, before) = (&new[field], &old[field]);
    if value != before {
        errors.push(path.child(field).invalid(value, "field is immutable"));
    }
}

/// Validates what new and changed objects have in common. Parts that equal `old` were validated before.
fn common(meta: &Value, old: Option<&Value>, path: &Path, errors: &mut Errors) {
    let was = |field: &str| old.and_then(|old| old.get(field));
    let is = |field: &str| meta.get(field).filter(|is| was(field) != Some(*is));
    if let Some(is) = is("labels") {
        labels(is, &path.child("labels"), errors);
    }
    if let Some(is) = is("annotations") {
        annotations(is, was("annotations"), &path.child("annotations"), errors);
    }
    if is("ownerReferences").is_some() {
        owners(meta, &path.child("ownerReferences"), errors);
    }
}

/// Adds an error for each violation.
pub(super) fn violations(path: &Path, value: &str, violations: Violations, errors: &mut Errors) {
    errors.extend(violations.into_iter().map(|violation| path.invalid_text(value, violation)));
}

/// Validates labels, or a map that selects by labels.
pub(super) fn labels(labels: &Value, path: &Path, errors: &mut Errors) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        violations(path, key, names::qualified(key), errors);
        let value = value.as_str().unwrap_or_default();
        violations(path, value, names::label_value(value), errors);
    }
}

fn annotations(annotations: &Value, old: Option<&Value>, path: &Path, errors: &mut Errors) {
    const LIMIT: usize = 256 * 1024;
    let mut size = 0;
    let mut before = OldMembers::new(old);
    for (key, value) in annotations.as_object().into_iter().flatten() {
        if before.get(key).is_none() {
            violations(path, key, names::qualified(&key.to_lowercase()), errors);
        }
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    if size > LIMIT {
        errors.push(path.too_long(LIMIT));
    }
}

fn owners(meta: &Value, path: &Path, errors: &mut Errors) {
    let (mut controller, mut has_two): (Option<String>, bool) = (None, false);
    for owner in items(meta, "ownerReferences") {
        if text(owner, "apiVersion").rsplit('/').next().unwrap_or_default().is_empty() {
            let api_version = text(owner, "apiVersion");
            errors.push(
                path.child("apiVersion").invalid_text(api_version, "version must not be empty"),
            );
        }
        for field in ["kind", "name", "uid"] {
            if text(owner, field).is_empty() {
                errors.push(path.child(field).invalid_text("", "must not be empty"));
            }
        }
        if text(owner, "kind") == "Event"
            && matches!(text(owner, "apiVersion"), "v1" | "events.k8s.io/v1")
        {
            let detail = format!(
                "{}, Kind=Event is disallowed from being an owner",
                text(owner, "apiVersion")
            );
            errors.push(path.invalid(owner, detail));
        }
        if owner["controller"] == Value::Bool(true) {
            let this = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
            // Each such error shows the whole list, so one is enough.
            if let Some(first) = controller.as_ref().filter(|_| !has_two) {
                has_two = true;
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                );
                errors.push(path.invalid(&meta["ownerReferences"], detail));
            } else {
                controller.get_or_insert(this);
            }
        }
    }
}

fn finalizers(meta: &Value, path: &Path, errors: &mut Errors) {
    let list = items(meta, "finalizers");
    for finalizer in list.iter().filter_map(Value::as_str) {
        violations(path, finalizer, names::qualified(finalizer), errors);
    }
    let has = |name: &str| list.iter().any(|f| f == name);
    if has("orphan") && has("foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(path.invalid(&meta["finalizers"], detail));
    }
}
