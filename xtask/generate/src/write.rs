//! Writes the generated tables of types.
//!
//! One line per type (`T`) and per field (`F`), parts separated by tabs, so that a new release shows as a readable
//! difference. The reader is `crates/apimachinery/src/schema/data.rs`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use crate::go::GoTypes;

type Schemas = BTreeMap<String, Value>;

/// Writes what decoding, patching and validation need.
pub(crate) fn types(path: &Path, schemas: &Schemas, go: &GoTypes) -> anyhow::Result<()> {
    let mut out = String::new();
    for (name, schema) in schemas {
        write!(out, "T\t{name}\t{}", type_of(schema))?;
        attributes(&mut out, schema)?;
        for gvk in schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
            let part = |key: &str| gvk[key].as_str().unwrap_or_default();
            write!(out, "\tgvk={}/{}/{}", part("group"), part("version"), part("kind"))?;
        }
        out.push('\n');
        let required: Vec<&str> = schema["required"]
            .as_array()
            .map(|r| r.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        for (field, property) in schema["properties"].as_object().into_iter().flatten() {
            write!(out, "F\t{field}\t{}", type_of(property))?;
            go_attributes(&mut out, name, field, go)?;
            if required.contains(&field.as_str()) {
                out.push_str("\treq");
            }
            attributes(&mut out, property)?;
            if let Some(default) = property.get("default") {
                write!(out, "\tdef={default}")?;
            }
            out.push('\n');
        }
    }
    save(path, &out)
}

/// Writes what only explaining needs.
pub(crate) fn descriptions(path: &Path, schemas: &Schemas) -> anyhow::Result<()> {
    let mut out = String::new();
    for (name, schema) in schemas {
        writeln!(out, "T\t{name}\t{}", text(schema))?;
        for (field, property) in schema["properties"].as_object().into_iter().flatten() {
            writeln!(out, "F\t{field}\t{}", text(property))?;
        }
    }
    save(path, &out)
}

fn save(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("could not write {}", path.display()))
}

fn text(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().replace('\\', "\\\\").replace('\n', "\\n")
}

fn type_of(schema: &Value) -> String {
    let target = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
    if let Some(target) = target {
        return format!("&{}", target.rsplit('/').next().unwrap_or_default());
    }
    match schema["type"].as_str() {
        Some("array") => format!("[]{}", type_of(&schema["items"])),
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("{{}}{}", type_of(&schema["additionalProperties"]))
        }
        Some(kind) => match schema["format"].as_str() {
            Some(format) => format!("{kind}:{format}"),
            None => kind.to_owned(),
        },
        None => "any".to_owned(),
    }
}

fn attributes(out: &mut String, schema: &Value) -> anyhow::Result<()> {
    for (key, short) in [
        ("x-kubernetes-list-type", "lt"),
        ("x-kubernetes-map-type", "mt"),
        ("x-kubernetes-patch-strategy", "ps"),
        ("x-kubernetes-patch-merge-key", "mk"),
    ] {
        if let Some(value) = schema[key].as_str() {
            write!(out, "\t{short}={value}")?;
        }
    }
    if let Some(keys) = schema["x-kubernetes-list-map-keys"].as_array() {
        let keys: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
        write!(out, "\tlk={}", keys.join(","))?;
    }
    Ok(())
}

fn go_attributes(
    out: &mut String,
    type_name: &str,
    field: &str,
    go: &GoTypes,
) -> anyhow::Result<()> {
    let found = go
        .field(type_name, field)
        .with_context(|| format!("no Go field for {type_name}.{field}"))?;
    write!(out, "\tgo={}", found.go)?;
    if !found.through.is_empty() {
        write!(out, "\tin={}", found.through.join("."))?;
    }
    if let Some(number) = &found.number {
        write!(out, "\tpb={number}")?;
    }
    if found.omit_empty {
        out.push_str("\toe");
    }
    if found.omit_zero {
        out.push_str("\toz");
    }
    if let Some(values) = go.values(type_name, &found.go) {
        write!(out, "\tenum={}", values.join(","))?;
    }
    Ok(())
}
