//! Checks that schemas are structural.
//!
//! A structural schema declares the type of every value, so that unknown fields can be recognized.

use serde_json::Value;

use super::{Errors, text, versions};
use crate::builtin::field::Path;
use crate::schema::Structural;

/// Validates the schema of every version.
pub(super) fn check(crd: &Value, errors: &mut Errors) {
    let all = versions(crd);
    let first = all.first().map(|v| &v["schema"]);
    let is_same = all.iter().all(|v| Some(&v["schema"]) == first);
    for (index, version) in all.iter().enumerate() {
        let schema = &version["schema"]["openAPIV3Schema"];
        if !schema.is_object() || (is_same && index > 0) {
            continue;
        }
        // A schema that all versions share is reported as the definition's.
        let path = if is_same {
            Path::new("spec.validation.openAPIV3Schema")
        } else {
            Path::new("spec.versions").index(index).child("schema").child("openAPIV3Schema")
        };
        match text(schema, "type") {
            "" => errors.push(path.child("type").required("must not be empty at the root")),
            "object" => {}
            other => {
                errors.push(path.child("type").invalid_text(other, "must be object at the root"))
            }
        }
        if schema["nullable"] == true {
            errors.push(path.child("nullable").forbidden("nullable cannot be true at the root"));
        }
        walk(schema, &path, errors);
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if name == "metadata" {
                check_metadata(property, &path.child("properties").key("metadata"), errors);
            }
        }
    }
}

fn check_metadata(schema: &Value, path: &Path, errors: &mut Errors) {
    let allowed = |k: &String| matches!(k.as_str(), "type" | "properties" | "description");
    let inside = schema["properties"].as_object().into_iter().flatten();
    let names = inside.filter(|(k, _)| !matches!(k.as_str(), "name" | "generateName"));
    if names.count() > 0 || schema.as_object().is_some_and(|s| !s.keys().all(allowed)) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(path.forbidden(detail));
    }
}

fn walk(schema: &Value, path: &Path, errors: &mut Errors) {
    forbidden(schema, path, errors);
    list_rules(schema, path, errors);
    let is_typed = |s: &Value| {
        !text(s, "type").is_empty()
            || s["x-kubernetes-int-or-string"] == true
            || s["x-kubernetes-preserve-unknown-fields"] == true
    };
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = path.child("properties").key(name);
        if !is_typed(property) {
            errors
                .push(path.child("type").required("must not be empty for specified object fields"));
        }
        walk(property, &path, errors);
    }
    if let Some(items) = schema.get("items").filter(|i| i.is_object()) {
        let path = path.child("items");
        if !is_typed(items) {
            errors.push(path.child("type").required("must not be empty for specified array items"));
        }
        walk(items, &path, errors);
    } else if text(schema, "type") == "array" {
        errors.push(path.child("items").required("must be specified"));
    }
    if let Some(values) = schema.get("additionalProperties").filter(|v| v.is_object()) {
        let path = path.child("additionalProperties");
        if !is_typed(values) {
            errors
                .push(path.child("type").required("must not be empty for specified object fields"));
        }
        walk(values, &path, errors);
        if schema["properties"].as_object().is_some_and(|p| !p.is_empty()) {
            let detail = "additionalProperties and properties are mutual exclusive";
            errors.push(path.forbidden(detail));
        }
    }
    if let Some(default) = schema.get("default") {
        check_default(schema, default, &path.child("default"), errors);
    }
}

fn forbidden(schema: &Value, path: &Path, errors: &mut Errors) {
    let kind = text(schema, "type");
    const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(path.child("type").not_supported(kind, TYPES));
    }
    for field in
        ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"]
    {
        if schema.get(field).is_some_and(|v| !v.is_null()) {
            errors.push(path.child(field).forbidden(format!("{field} is not supported")));
        }
    }
    if schema["uniqueItems"] == true {
        let detail =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(path.child("uniqueItems").forbidden(detail));
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        let value = &schema["x-kubernetes-preserve-unknown-fields"];
        errors.push(
            path.child("x-kubernetes-preserve-unknown-fields")
                .invalid(value, "must be true or undefined"),
        );
    }
    let pattern = text(schema, "pattern");
    if !pattern.is_empty()
        && let Err(error) = regex::Regex::new(pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(path.child("pattern").invalid_text(pattern, detail));
    }
}

fn list_rules(schema: &Value, path: &Path, errors: &mut Errors) {
    let list_type = text(schema, "x-kubernetes-list-type");
    let keys: Vec<&str> = schema["x-kubernetes-list-map-keys"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if !list_type.is_empty() {
        match text(schema, "type") {
            "array" => {}
            "" => errors.push(
                path.child("type").required("must be array if x-kubernetes-list-type is specified"),
            ),
            other => {
                let detail = "must be array if x-kubernetes-list-type is specified";
                errors.push(path.child("type").invalid_text(other, detail));
            }
        }
        if !["atomic", "set", "map"].contains(&list_type) {
            let supported = ["atomic", "set", "map"];
            errors.push(path.child("x-kubernetes-list-type").not_supported(list_type, &supported));
        }
    }
    if list_type == "map" {
        if keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            errors.push(path.child("x-kubernetes-list-map-keys").required(detail));
        }
        let known = &schema["items"]["properties"];
        if keys.iter().any(|k| known.get(*k).is_none()) {
            let detail = "entries must all be names of item properties";
            let value = &schema["x-kubernetes-list-map-keys"];
            errors.push(path.child("x-kubernetes-list-map-keys").invalid(value, detail));
        }
        let required = schema["items"]["required"].as_array();
        for key in keys.iter().filter(|k| known.get(**k).is_some()) {
            let is_required = required.is_some_and(|r| r.iter().any(|r| r == key));
            if !is_required && known[*key].get("default").is_none() {
                let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                let path = path.child("items").child("properties").key(key).child("default");
                errors.push(path.required(detail));
            }
        }
    } else if !keys.is_empty() {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        let path = path.child("x-kubernetes-list-type");
        errors.push(if list_type.is_empty() {
            path.required(detail)
        } else {
            path.invalid_text(list_type, detail)
        });
    }
    let map_type = text(schema, "x-kubernetes-map-type");
    if !map_type.is_empty() && !["atomic", "granular"].contains(&map_type) {
        errors.push(
            path.child("x-kubernetes-map-type").not_supported(map_type, &["atomic", "granular"]),
        );
    }
}

/// Requires a default to match its own schema and to have no fields that would be pruned.
fn check_default(schema: &Value, default: &Value, path: &Path, errors: &mut Errors) {
    let Ok(structural) = Structural::read(schema) else { return };
    let mut pruned = default.clone();
    if let Ok(unknown) = super::super::pruning::prune(&structural, &mut pruned, None)
        && !unknown.is_empty()
    {
        errors.push(path.invalid(default, "must not have unknown fields"));
    }
    errors.extend(super::super::check::place(&structural, default, path));
}
