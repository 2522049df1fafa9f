//! The OpenAPI schemas of built-in and custom kinds.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::SpecVersion;
use apimachinery::crd::CustomVersion;
use apimachinery::resource::Resource;
use apimachinery::schema::{ListType, MapType, Shape, Types, ValueType, descriptions};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// Returns the names of the types that a built-in resource uses.
pub(super) fn names(resource: &Resource) -> Vec<String> {
    let types = Types::builtin();
    let kinds = [resource.kind.as_str(), resource.list_kind.as_str()];
    let found = kinds.into_iter().filter_map(|k| types.kind(&resource.group, &resource.version, k));
    let mut names: Vec<String> = found.map(|shape| shape.name().to_owned()).collect();
    if !resource.subresources.is_empty() {
        for (group, version, kind) in [
            ("autoscaling", "v1", "Scale"),
            ("policy", "v1", "Eviction"),
            ("authentication.k8s.io", "v1", "TokenRequest"),
            ("", "v1", "Binding"),
        ] {
            names.extend(types.kind(group, version, kind).map(|s| s.name().to_owned()));
        }
    }
    names
}

/// Collects the names of the schemas that a schema references.
pub(super) fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            if let Some(to) = map.get("$ref").and_then(Value::as_str) {
                found.extend(to.rsplit('/').next().map(str::to_owned));
            }
            map.values().for_each(|v| references(v, found));
        }
        Value::Array(list) => list.iter().for_each(|v| references(v, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the schema of a built-in type.
pub(super) fn builtin(name: &str, spec: SpecVersion) -> Option<Value> {
    let types = Types::builtin();
    let shape = types.named(name)?;
    let mut schema = field_schema(shape, true, spec);
    let texts = descriptions(name);
    if let Some(text) = texts.and_then(|t| t.get("")).filter(|t| !t.is_empty()) {
        schema["description"] = text.as_str().into();
    }
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (field, shape) in shape.fields() {
        let mut property = field_schema(shape, false, spec);
        if let Some(text) = texts.and_then(|t| t.get(field)).filter(|t| !t.is_empty()) {
            property["description"] = text.as_str().into();
        }
        if spec == SpecVersion::V3
            && let Some(default) = shape.default()
        {
            property["default"] = default.clone();
        }
        if shape.is_required() {
            required.push(field);
        }
        properties.insert(field.to_owned(), property);
    }
    if !properties.is_empty() {
        schema["properties"] = properties.into();
    }
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    let kinds: Vec<Value> = types.kinds_of(name).map(|(g, v, k)| gvk(g, v, k)).collect();
    if !kinds.is_empty() {
        schema["x-kubernetes-group-version-kind"] = kinds.into();
    }
    Some(schema)
}

fn gvk(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

fn field_schema(shape: Shape<'_>, is_definition: bool, spec: SpecVersion) -> Value {
    let mut schema = match shape.reference().filter(|_| !is_definition) {
        Some(name) => {
            let reference = format!("{}{name}", spec.prefix());
            // Version 3 ignores siblings of `$ref`, so the reference is wrapped unless it is a list item.
            match spec {
                SpecVersion::V3 if !shape.go().is_empty() => {
                    json!({"allOf": [{"$ref": reference}]})
                }
                SpecVersion::V2 | SpecVersion::V3 => json!({"$ref": reference}),
            }
        }
        None => type_schema(shape, spec),
    };
    if let Some(list) = shape.own_list_type() {
        schema["x-kubernetes-list-type"] = list_type(list).into();
    }
    if !shape.list_keys().is_empty() {
        schema["x-kubernetes-list-map-keys"] = json!(shape.list_keys());
    }
    if let Some(map) = shape.own_map_type() {
        schema["x-kubernetes-map-type"] = map_type(map).into();
    }
    let strategies: Vec<&str> = shape.patch_strategies().collect();
    if !strategies.is_empty() {
        schema["x-kubernetes-patch-strategy"] = strategies.join(",").into();
    }
    if let Some(key) = shape.merge_key() {
        schema["x-kubernetes-patch-merge-key"] = key.into();
    }
    if !shape.known_values().is_empty() {
        schema["enum"] = json!(shape.known_values());
    }
    schema
}

fn type_schema(shape: Shape<'_>, spec: SpecVersion) -> Value {
    let mut schema = match (shape.value_type(), spec) {
        (ValueType::Any, _) => json!({}),
        (ValueType::String, _) => json!({"type": "string"}),
        (ValueType::Integer, _) => json!({"type": "integer"}),
        (ValueType::Number, _) => json!({"type": "number"}),
        (ValueType::Boolean, _) => json!({"type": "boolean"}),
        (ValueType::Object, _) => json!({"type": "object"}),
        (ValueType::List, _) => json!({"type": "array"}),
        (ValueType::Quantity | ValueType::IntOrString, SpecVersion::V2) => {
            json!({"type": "string"})
        }
        (ValueType::Quantity, SpecVersion::V3) => {
            json!({"oneOf": [{"type": "string"}, {"type": "number"}]})
        }
        (ValueType::IntOrString, SpecVersion::V3) => {
            json!({"oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
    };
    if !shape.format().is_empty() {
        schema["format"] = shape.format().into();
    } else if shape.value_type() == ValueType::IntOrString {
        schema["format"] = "int-or-string".into();
    }
    if let Some(items) = shape.items() {
        schema["items"] = field_schema(items, false, spec);
    }
    if let Some(values) = shape.values() {
        schema["additionalProperties"] = field_schema(values, false, spec);
    }
    schema
}

fn list_type(list: ListType) -> &'static str {
    match list {
        ListType::Atomic => "atomic",
        ListType::Set => "set",
        ListType::Map => "map",
    }
}

fn map_type(map: MapType) -> &'static str {
    match map {
        MapType::Atomic => "atomic",
        MapType::Granular => "granular",
    }
}

/// Returns the schema name of a custom kind: its reversed group, version and kind.
pub(super) fn custom_name(resource: &Resource) -> String {
    let group: Vec<&str> = resource.group.split('.').rev().collect();
    format!("{}.{}.{}", group.join("."), resource.version, resource.kind)
}

/// Returns the name and schema of a custom kind, with the fields that every object has.
pub(super) fn custom(
    resource: &Resource,
    custom: &CustomVersion,
    spec: SpecVersion,
) -> (String, Value) {
    let mut schema = custom.document.clone();
    let preserves_unknown = schema["x-kubernetes-preserve-unknown-fields"] == true;
    if !schema.is_object() || (preserves_unknown && spec == SpecVersion::V2) {
        // kubectl takes fields that a version 2 schema does not list for unknown, so a kind that preserves unknown fields lists none.
        schema = json!({"type": "object"});
    } else {
        if spec == SpecVersion::V2 {
            simplify(&mut schema);
        }
        schema["type"] = "object".into();
        add_object_fields(&mut schema, spec);
        add_embedded_fields(&mut schema, spec);
    }
    let kind = gvk(&resource.group, &resource.version, &resource.kind);
    schema["x-kubernetes-group-version-kind"] = json!([kind]);
    (custom_name(resource), schema)
}

fn add_object_fields(schema: &mut Value, spec: SpecVersion) {
    let texts = descriptions("io.k8s.api.core.v1.ConfigMap");
    let text = |field: &str| texts.and_then(|t| t.get(field)).cloned().unwrap_or_default();
    if schema.get("properties").is_none() {
        schema["properties"] = json!({});
    }
    let properties = &mut schema["properties"];
    for field in ["apiVersion", "kind"] {
        properties[field] = json!({"type": "string", "description": text(field)});
    }
    let reference = json!({"$ref": format!("{}{OBJECT_META}", spec.prefix())});
    let mut meta = match spec {
        SpecVersion::V2 => reference,
        SpecVersion::V3 => json!({"allOf": [reference]}),
    };
    meta["description"] = text("metadata").into();
    properties["metadata"] = meta;
}

/// Adds the fields that every object has to embedded objects.
fn add_embedded_fields(schema: &mut Value, spec: SpecVersion) {
    let inner = schema.get_mut("properties").and_then(Value::as_object_mut);
    for property in inner.into_iter().flat_map(|p| p.values_mut()) {
        if property["x-kubernetes-embedded-resource"] == true
            && property.get("properties").is_some()
        {
            add_object_fields(property, spec);
        }
        add_embedded_fields(property, spec);
    }
    for field in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(field).filter(|i| i.is_object()) {
            add_embedded_fields(inner, spec);
        }
    }
}

/// Removes what version 2 cannot express.
fn simplify(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    for field in ["allOf", "oneOf", "anyOf", "not", "x-kubernetes-validations"] {
        map.remove(field);
    }
    let preserves = map.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    if map.remove("nullable") == Some(Value::Bool(true)) {
        for field in ["type", "items", "properties"] {
            map.remove(field);
        }
    }
    if preserves {
        map.remove("items");
        map.remove("properties");
        if map.get("type").is_some_and(|t| t == "object" || t == "array") {
            map.remove("type");
        }
    }
    let nullable: Vec<String> = map
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter(|(_, p)| p["nullable"] == true)
        .map(|(name, _)| name.clone())
        .collect();
    if let Some(required) = map.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|r| !nullable.iter().any(|n| r == n));
        if required.is_empty() {
            map.remove("required");
        }
    }
    let inner = map.get_mut("properties").and_then(Value::as_object_mut);
    inner.into_iter().flat_map(|p| p.values_mut()).for_each(simplify);
    for field in ["items", "additionalProperties"] {
        if let Some(inner) = map.get_mut(field) {
            simplify(inner);
        }
    }
}

/// Returns the schema of the list of a custom kind.
pub(super) fn list(resource: &Resource, name: &str, spec: SpecVersion) -> Value {
    let texts = descriptions("io.k8s.api.core.v1.ConfigMapList");
    let text = |field: &str| texts.and_then(|t| t.get(field)).cloned().unwrap_or_default();
    let to = |name: &str| format!("{}{name}", spec.prefix());
    let items = format!(
        "List of {}. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md",
        resource.plural
    );
    json!({"description": format!("{} is a list of {}", resource.list_kind, resource.kind), "type": "object",
        "required": ["items"], "properties": {
            "apiVersion": {"type": "string", "description": text("apiVersion")},
            "kind": {"type": "string", "description": text("kind")},
            "items": {"type": "array", "description": items, "items": {"$ref": to(name)}},
            "metadata": {"description": text("metadata"), "$ref": to(LIST_META)}},
        "x-kubernetes-group-version-kind": [gvk(&resource.group, &resource.version, &resource.list_kind)]})
}
