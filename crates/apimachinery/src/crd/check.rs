//! Does a custom resource fit its schema?
//!
//! The words are those of the validator that the real server uses.

mod scalar;

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Number, Value};

use super::at::At;
use crate::builtin::field::{CauseType, FieldError, Path};
use crate::members::Before;
use crate::schema::{OrBool, Structural};

/// No more mistakes than this are looked for: nobody reads more, and each takes memory.
const MOST_ERRORS: usize = 1000;

/// Checks a whole object; what is as in `old` is not asked about again, as the real server does not. Rules in CEL are not evaluated.
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
    walk(schema, document, old, true, &At::Root, &mut errors);
    lists(schema, document, old, &At::Root, &mut errors);
    if has_rules && !errors.is_empty() {
        let detail = "some validation rules were not checked because the object was invalid; correct the existing errors \
                      to complete validation";
        errors.push(Path::new("<nil>").invalid(&Value::Null, detail));
    }
    errors
}

/// Checks a value that stands somewhere inside an object, such as a default.
pub(super) fn place(schema: &Structural, value: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, value, None, schema.is_embedded, &At::Start(path), &mut errors);
    errors
}

/// A mistake that the validator does not tie to a field.
fn unplaced(detail: String) -> FieldError {
    Path::new("<nil>").invalid_text("", detail)
}

fn walk(
    schema: &Structural,
    value: &Value,
    old: Option<&Value>,
    is_object_root: bool,
    path: &At<'_>,
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

fn is_whole(value: &Value) -> bool {
    value.as_number().is_some_and(|n| !n.is_f64() || n.as_f64().is_some_and(|f| f.fract() == 0.0))
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn combined(schema: &Structural, value: &Value, path: &At<'_>, errors: &mut Vec<FieldError>) {
    let faults = |schema: &Structural| {
        let mut faults = Vec::new();
        walk(schema, value, None, false, path, &mut faults);
        faults
    };
    if !schema.any_of.is_empty() {
        let found: Vec<_> = schema.any_of.iter().map(faults).collect();
        if found.iter().all(|f| !f.is_empty()) {
            errors.push(unplaced(format!("\"{path}\" must validate at least one schema (anyOf)")));
            errors.extend(found.into_iter().next().unwrap_or_default());
        }
    }
    if !schema.one_of.is_empty() {
        let found: Vec<_> = schema.one_of.iter().map(faults).collect();
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
        errors.extend(faults(part));
    }
    if schema.not.as_ref().is_some_and(|not| faults(not).is_empty()) {
        errors.push(unplaced(format!("\"{path}\" must not validate the schema (not)")));
    }
}

fn properties(
    schema: &Structural,
    map: &serde_json::Map<String, Value>,
    old: Option<&Value>,
    is_object_root: bool,
    path: &At<'_>,
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
    let mut before = Before::of(old);
    for (name, child) in map {
        let was = before.get(name);
        if (is_object_root && name == "metadata") || was == Some(child) {
            continue;
        }
        let inner = schema.member(name);
        match inner {
            Some(inner) => {
                walk(inner, child, was, inner.is_embedded, &At::Field(path, name), errors);
            }
            None if matches!(schema.additional_properties, Some(OrBool::Bool(false))) => {
                errors.push(path.path().child(name).forbidden("is not allowed"));
            }
            None => {}
        }
    }
}

fn items(schema: &Structural, list: &[Value], path: &At<'_>, errors: &mut Vec<FieldError>) {
    let count = i64::try_from(list.len()).unwrap_or(i64::MAX);
    if let Some(least) = schema.min_items.filter(|least| count < *least) {
        let detail = format!("{path} in body should have at least {least} items");
        errors.push(path.path().invalid(&Value::from(count), detail));
    }
    if let Some(most) = schema.max_items.filter(|most| count > *most) {
        errors.push(path.path().too_many(list.len(), usize::try_from(most).unwrap_or_default()));
    }
    let mut seen = HashSet::new();
    if schema.unique_items && !list.iter().all(|item| seen.insert(item)) {
        errors.push(unplaced(format!("{path} in body shouldn't contain duplicates")));
    }
    if let Some(inner) = &schema.items {
        for (index, child) in list.iter().enumerate() {
            walk(inner, child, None, inner.is_embedded, &At::Item(path, index), errors);
        }
    }
}

/// Refuses items that are the same where each has to have an identity of its own.
fn lists(
    schema: &Structural,
    value: &Value,
    old: Option<&Value>,
    path: &At<'_>,
    errors: &mut Vec<FieldError>,
) {
    match value {
        Value::Object(map) => {
            let mut before = Before::of(old);
            for (name, child) in map {
                let was = before.get(name);
                if was == Some(child) {
                    continue;
                }
                if let Some(inner) = schema.member(name) {
                    lists(inner, child, was, &At::Field(path, name), errors);
                }
            }
        }
        Value::Array(list) => {
            let mut seen = HashSet::new();
            for (index, item) in list.iter().enumerate() {
                let Some(key) = identity(schema, item) else { break };
                if errors.len() < MOST_ERRORS && seen.contains(&key) {
                    errors.push(At::Item(path, index).path().duplicate(&key));
                }
                seen.insert(key);
            }
            if let Some(inner) = &schema.items {
                for (index, child) in list.iter().enumerate() {
                    lists(inner, child, None, &At::Item(path, index), errors);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns what tells an item of a list from the others; `None` where the list does not ask for that.
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

/// Writes a bound as Go's `%v` does.
fn shown(number: &Number) -> String {
    match number.as_f64() {
        Some(f) if f.fract() == 0.0 && f.abs() < 1e15 => format!("{f:.0}"),
        Some(f) => f.to_string(),
        None => number.to_string(),
    }
}

#[cfg(test)]
mod tests;
