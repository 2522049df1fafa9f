//! Reads the schemas of the wanted kinds from the published documents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use crate::kinds::{META, META_PREFIX, WANTED};

/// The schemas of the wanted kinds and of all that they refer to, by name.
pub(crate) fn read(folder: &Path) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut all = BTreeMap::new();
    let mut open: BTreeSet<String> = META.iter().map(|m| format!("{META_PREFIX}{m}")).collect();
    let shared = [("api", &[][..]), ("apis", &[][..])];
    for (document, kinds) in WANTED.iter().copied().chain(shared) {
        let path = folder.join(format!("{document}_openapi.json"));
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("could not read {}", path.display()))?;
        let mut document: Value = serde_json::from_str(&text)?;
        let Value::Object(schemas) = document["components"]["schemas"].take() else { continue };
        for (name, schema) in schemas {
            let kind = name.rsplit('.').next().unwrap_or_default();
            let kind = kind.strip_suffix("List").unwrap_or(kind);
            if kinds.contains(&kind) && schema.get("x-kubernetes-group-version-kind").is_some() {
                open.insert(name.clone());
            }
            all.entry(name).or_insert(schema);
        }
    }
    let mut wanted = BTreeMap::new();
    while let Some(name) = open.pop_first() {
        let schema = all.get(&name).with_context(|| format!("no schema named {name}"))?;
        refer(schema, &mut |to| {
            if !wanted.contains_key(to) && to != name {
                open.insert(to.to_owned());
            }
        });
        wanted.insert(name, schema.clone());
    }
    Ok(wanted)
}

fn refer(schema: &Value, found: &mut impl FnMut(&str)) {
    match schema {
        Value::Object(map) => {
            if let Some(to) = map.get("$ref").and_then(Value::as_str) {
                found(to.rsplit('/').next().unwrap_or_default());
            }
            map.values().for_each(|v| refer(v, found));
        }
        Value::Array(list) => list.iter().for_each(|v| refer(v, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
