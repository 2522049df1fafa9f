//! Validates a custom resource against its schema.
//!
//! Messages match those of kube-apiserver's validator.

mod scalar;

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Number, Value};

use super::location::Location;
use crate::builtin::field::{CauseType, FieldError, Path};
use crate::members::OldMembers;
use crate::schema::{OrBool, Structural};

/// The most errors that are collected: no client needs more, and each takes memory.
const MOST_ERRORS: usize = 1000;

/// Validates a whole object. Parts that equal `old` are not validated again, as in kube-apiserver. CEL rules are not evaluated.
pub(super) fn object(
    schema: &Structural,
    has_rules: bool,
    document: &Value,
    old: Option<&Value>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old == Some(document) {
        return errors;
    }
    walk(schema, document, old, true, &Location::Root, &mut errors);
    lists(schema, document, old, &Location::Root, &mut errors);
    if has_rules && !errors.is_empty() {
        let detail = "some validation rules were not checked because the object was invalid; correct the existing errors \
                      to complete validation";
        errors.push(Path::new("<nil>").invalid(&Value::Null, detail));
    }
    errors
}

/// Validates a value inside an object, such as a default.
pub(super) fn place(schema: &Structural, value: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, value, None, schema.is_embedded, &Location::Start(path), &mut errors);
    errors
}

/// Returns an error that the validator does not attribute to a field.
fn unplaced(detail: String) -> FieldError {
    Path::new("<nil>").invalid_text("", detail)
}

fn walk(
    schema: &Structural,
    value: &Value,
    old: Option<&Value>,
    is_object_root: bool,
    path: &Location<'_>,
    errors: &mut Vec<FieldError>,
) {
    let is_allowed_null = value.is_null() && (schema.nullable || schema.kind.is_empty());
    if is_allowed_null || errors.len() >= MOST_ERRORS {
        return;
    }
    if !has_type(schema, value) {
        let expected = if schema.is_int_or_string { "integer,string" } else { &schema.kind };
        let found = type_name(value);
        let detail = format!("{path} in body must be of type {expected}: \"{found}\"");
        errors.push(path.path().wrong_type(&Value::from(found), detail));
        return;
    }
    combined(schema, value, path, errors);
    if !schema.values.is_empty() && !schema.values.contains(value) {
        let supported: Vec<String> = schema.values.iter().map(Value::to_string).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        errors.push(path.path().with(CauseType::NotSupported, value, detail));
    }
    match value {
        Value::Object(map) => properties(schema, map, old, is_object_root, path, errors),
        Value::Array(list) => items(schema, list, path, errors),
        Value::String(text) => scalar::text(schema, text, path, errors),
        Value::Number(number) => scalar::number(schema, number, path, errors),
        Value::Null | Value::Bool(_) => {}
    }
}

fn has_type(schema: &Structural, value: &Value) -> bool {
    if schema.is_int_or_string {
        return value.is_string() || is_whole(value);
    }
    match schema.kind.as_str() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => is_whole(value),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        _ => true,
    }
}

/// Whether a number is an integer. One beyond 64 bits with a sign is a float for kube-apiserver.
fn is_whole(value: &Value) -> bool {
    let is_whole_float = |f: f64| f.fract() == 0.0;
    value
        .as_number()
        .is_some_and(|n| n.is_i64() || (n.is_f64() && n.as_f64().is_some_and(is_whole_float)))
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn combined(schema: &Structural, value: &Value, path: &Location<'_>, errors: &mut Vec<FieldError>) {
    let violations = |schema: &Structural| {
        let mut violations = Vec::new();
        walk(schema, value, None, false, path, &mut violations);
        violations
    };
    if !schema.any_of.is_empty() {
        let found: Vec<_> = schema.any_of.iter().map(violations).collect();
        if found.iter().all(|f| !f.is_empty()) {
            errors.push(unplaced(format!("\"{path}\" must validate at least one schema (anyOf)")));
            errors.extend(found.into_iter().next().unwrap_or_default());
        }
    }
    if !schema.one_of.is_empty() {
        let found: Vec<_> = schema.one_of.iter().map(violations).collect();
        let valid = found.iter().filter(|f| f.is_empty()).count();
        let start = || format!("\"{path}\" must validate one and only one schema (oneOf).");
        if valid == 0 {
            errors.push(unplaced(format!("{} Found none valid", start())));
            errors.extend(found.into_iter().next().unwrap_or_default());
        } else if valid > 1 {
            errors.push(unplaced(format!("{} Found {valid} valid alternatives", start())));
        }
    }
    for part in &schema.all_of {
        errors.extend(violations(part));
    }
    if schema.not.as_ref().is_some_and(|not| violations(not).is_empty()) {
        errors.push(unplaced(format!("\"{path}\" must not validate the schema (not)")));
    }
}

fn properties(
    schema: &Structural,
    map: &serde_json::Map<String, Value>,
    old: Option<&Value>,
    is_object_root: bool,
    path: &Location<'_>,
    errors: &mut Vec<FieldError>,
) {
    let count = i64::try_from(map.len()).unwrap_or(i64::MAX);
    if let Some(least) = schema.min_properties.filter(|least| count < *least) {
        let detail = format!("{path} in body should have at least {least} properties");
        errors.push(path.path().invalid(&Value::from(count), detail));
    }
    if let Some(most) = schema.max_properties.filter(|most| count > *most) {
        errors.push(path.path().too_many(map.len(), usize::try_from(most).unwrap_or_default()));
    }
    for name in schema.required.iter().filter(|name| !map.contains_key(*name)) {
        errors.push(path.path().child(name).required(""));
    }
    if schema.is_embedded {
        for name in ["apiVersion", "kind"] {
            if map.get(name).and_then(Value::as_str).unwrap_or_default().is_empty() {
                errors.push(path.path().child(name).required(""));
            }
        }
    }
    let mut before = OldMembers::new(old);
    for (name, child) in map {
        let was = before.get(name);
        if (is_object_root && name == "metadata") || was == Some(child) {
            continue;
        }
        let inner = schema.member(name);
        match inner {
            Some(inner) => {
                walk(inner, child, was, inner.is_embedded, &Location::Field(path, name), errors);
            }
            None if matches!(schema.additional_properties, Some(OrBool::Bool(false))) => {
                errors.push(path.path().child(name).forbidden("is not allowed"));
            }
            None => {}
        }
    }
}

fn items(schema: &Structural, list: &[Value], path: &Location<'_>, errors: &mut Vec<FieldError>) {
    let count = i64::try_from(list.len()).unwrap_or(i64::MAX);
    if let Some(least) = schema.min_items.filter(|least| count < *least) {
        let detail = format!("{path} in body should have at least {least} items");
        errors.push(path.path().invalid(&Value::from(count), detail));
    }
    if let Some(most) = schema.max_items.filter(|most| count > *most) {
        errors.push(path.path().too_many(list.len(), usize::try_from(most).unwrap_or_default()));
    }
    let mut found = HashSet::new();
    if schema.unique_items && !list.iter().all(|item| found.insert(item)) {
        errors.push(unplaced(format!("{path} in body shouldn't contain duplicates")));
    }
    if let Some(inner) = &schema.items {
        for (index, child) in list.iter().enumerate() {
            walk(inner, child, None, inner.is_embedded, &Location::Item(path, index), errors);
        }
    }
}

/// Rejects duplicate items in lists whose items need an identity.
fn lists(
    schema: &Structural,
    value: &Value,
    old: Option<&Value>,
    path: &Location<'_>,
    errors: &mut Vec<FieldError>,
) {
    match value {
        Value::Object(map) => {
            let mut before = OldMembers::new(old);
            for (name, child) in map {
                let was = before.get(name);
                if was == Some(child) {
                    continue;
                }
                if let Some(inner) = schema.member(name) {
                    lists(inner, child, was, &Location::Field(path, name), errors);
                }
            }
        }
        Value::Array(list) => {
            let mut found = HashSet::new();
            for (index, item) in list.iter().enumerate() {
                let Some(key) = identity(schema, item) else { break };
                if errors.len() < MOST_ERRORS && found.contains(&key) {
                    errors.push(Location::Item(path, index).path().duplicate(&key));
                }
                found.insert(key);
            }
            if let Some(inner) = &schema.items {
                for (index, child) in list.iter().enumerate() {
                    lists(inner, child, None, &Location::Item(path, index), errors);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the value that identifies an item of a list; `None` for lists without identity.
fn identity<'v>(schema: &Structural, item: &'v Value) -> Option<Cow<'v, Value>> {
    match schema.list_type.as_deref() {
        Some("set") => Some(Cow::Borrowed(item)),
        Some("map") => {
            let keys = schema.list_keys.iter();
            let keys = keys.filter_map(|k| item.get(k).map(|v| (k.clone(), v.clone())));
            Some(Cow::Owned(keys.collect()))
        }
        _ => None,
    }
}

/// Formats a bound as Go's `%v` does.
fn shown(number: &Number) -> String {
    match number.as_f64() {
        Some(f) if f.fract() == 0.0 && f.abs() < 1e15 => format!("{f:.0}"),
        Some(f) => f.to_string(),
        None => number.to_string(),
    }
}

#[cfg(test)]
mod tests;
