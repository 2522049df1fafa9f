//! Lists the resources that a CustomResourceDefinition serves.

use std::sync::Arc;

use serde_json::Value;

use super::{CustomVersion, Scale};
use crate::resource::{
    Origin, Resource, STORED_VERBS, Subresource, WriteRules, json_prefix, qualified,
};
use crate::schema::Structural;
use crate::table::{Columns, PrinterColumn};

fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object[field].as_str().unwrap_or_default()
}

fn words(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|w| w.as_str().map(str::to_owned)).collect()
}

/// Builds the resources that a definition serves.
pub fn resources(crd: &Value) -> Vec<Resource> {
    let spec = &crd["spec"];
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    versions.iter().filter(|v| v["served"] == true).map(|version| resource(crd, version)).collect()
}

fn resource(crd: &Value, version: &Value) -> Resource {
    let spec = &crd["spec"];
    let (group, names) = (text(spec, "group"), &spec["names"]);
    let (plural, kind) = (text(names, "plural"), text(names, "kind"));
    let api_version = format!("{group}/{}", text(version, "name"));
    let mut custom = custom(version, &api_version, kind);
    // Objects written since the first version of the definition already have its defaults.
    custom.fills_stored &= crd["metadata"]["generation"].as_i64() > Some(1);
    let mut subresources = Vec::new();
    if version["subresources"]["status"].is_object() {
        subresources.push(Subresource::Status);
    }
    if custom.scale.is_some() {
        subresources.push(Subresource::Scale);
    }
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    Resource {
        group: group.to_owned(),
        version: text(version, "name").to_owned(),
        plural: plural.to_owned(),
        singular: text(names, "singular").to_owned(),
        kind: kind.to_owned(),
        list_kind: text(names, "listKind").to_owned(),
        short_names: words(&names["shortNames"]),
        categories: words(&names["categories"]),
        namespaced: text(spec, "scope") == "Namespaced",
        verbs: STORED_VERBS,
        subresources,
        storage: Arc::from(qualified(plural, group)),
        origin: Origin::Custom,
        types: custom.types(),
        columns: Columns::Custom(PrinterColumn::all(version)),
        selectable: fields
            .map(|f| text(f, "jsonPath").trim_start_matches('.').to_owned())
            .collect(),
        json_prefix: json_prefix(&api_version, kind),
        rules: WriteRules::CUSTOM,
        action: None,
        deprecation: None,
        custom: Some(Arc::new(custom)),
    }
}

fn custom(version: &Value, api_version: &str, kind: &str) -> CustomVersion {
    let document = version["schema"]["openAPIV3Schema"].clone();
    let schema = Structural::read(&document).ok();
    let scale = version["subresources"].get("scale").filter(|s| s.is_object()).map(|scale| Scale {
        replicas: text(scale, "specReplicasPath").to_owned(),
        status_replicas: text(scale, "statusReplicasPath").to_owned(),
        selector: scale["labelSelectorPath"].as_str().map(str::to_owned),
    });
    let deprecation =
        (version["deprecated"] == true).then(|| match version["deprecationWarning"].as_str() {
            Some(warning) => warning.to_owned(),
            None => format!("{api_version} {kind} is deprecated"),
        });
    let fills_stored = schema.as_ref().is_some_and(Structural::has_defaults);
    let has_rules = schema.as_ref().is_some_and(Structural::has_rules);
    CustomVersion { schema, document, has_rules, fills_stored, deprecation, scale }
}
