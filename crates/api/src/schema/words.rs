//! Adds the field names of the first design of counters and lists to the published schemas.
//!
//! A client that asks for strict validation is warned about every field that the schema does not have, before admission could
//! convert them. So the CRDs have the old names too; admitted objects never have them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::json;

/// The old names of the fields of a capacity policy.
const CAPACITY: [&str; 6] =
    ["bufferCount", "minCount", "maxCount", "bufferLength", "minLength", "maxLength"];

/// Adds the old names to the game server spec at `path` of each version.
pub(crate) fn for_game_servers(crd: &mut CustomResourceDefinition, path: &[&str]) {
    for root in roots(crd) {
        let Some(spec) = at(root, path) else { continue };
        if let Some(counter) = at(spec, &["counters"]).and_then(values) {
            counter.nullable = Some(true);
            add(counter, "default", whole_number("count"));
        }
        if let Some(list) = at(spec, &["lists"]).and_then(values) {
            list.nullable = Some(true);
        }
    }
}

/// Adds the old names to the policy of an autoscaler, and to the policies inside it.
pub(crate) fn for_autoscalers(crd: &mut CustomResourceDefinition) {
    for root in roots(crd) {
        if let Some(policy) = at(root, &["spec", "policy"]) {
            for_policy(policy);
        }
    }
}

fn for_policy(policy: &mut JSONSchemaProps) {
    if let Some(types) = at(policy, &["type"]).and_then(|t| t.enum_.as_mut()) {
        types.push(JSON(json!("Count")));
    }
    for block in ["counter", "list"] {
        if let Some(capacity) = at(policy, &[block]) {
            // Which of the fields are needed depends on the words; admission knows.
            capacity.required = None;
            for name in CAPACITY {
                add(capacity, name, number_or_share(name));
            }
        }
    }
    if let Some(mut count) = at(policy, &["counter"]).cloned() {
        count.description =
            Some("The block of `type: Count`, and of `List` with the old names.".to_owned());
        add(policy, "count", count);
    }
    if let Some(inner) = at(policy, &["schedule", "policy"]) {
        for_policy(inner);
    }
    if let Some(chain) = at(policy, &["chain"])
        && let Some(JSONSchemaPropsOrArray::Schema(entry)) = &mut chain.items
    {
        for_policy(entry);
    }
}

fn roots(crd: &mut CustomResourceDefinition) -> impl Iterator<Item = &mut JSONSchemaProps> {
    let schemas = crd.spec.versions.iter_mut().filter_map(|v| v.schema.as_mut());
    schemas.filter_map(|s| s.open_api_v3_schema.as_mut())
}

fn at<'a>(schema: &'a mut JSONSchemaProps, path: &[&str]) -> Option<&'a mut JSONSchemaProps> {
    path.iter().try_fold(schema, |schema, name| schema.properties.as_mut()?.get_mut(*name))
}

fn values(map: &mut JSONSchemaProps) -> Option<&mut JSONSchemaProps> {
    match &mut map.additional_properties {
        Some(JSONSchemaPropsOrBool::Schema(values)) => Some(values),
        Some(JSONSchemaPropsOrBool::Bool(_)) | None => None,
    }
}

fn add(schema: &mut JSONSchemaProps, name: &str, property: JSONSchemaProps) {
    schema.properties.get_or_insert_default().insert(name.to_owned(), property);
}

fn whole_number(now: &str) -> JSONSchemaProps {
    JSONSchemaProps {
        type_: Some("integer".to_owned()),
        format: Some("int64".to_owned()),
        nullable: Some(true),
        description: Some(format!("The old name of `{now}`.")),
        ..JSONSchemaProps::default()
    }
}

fn number_or_share(name: &str) -> JSONSchemaProps {
    if !name.starts_with("buffer") {
        let now = if name.starts_with("min") { "minCapacity" } else { "maxCapacity" };
        return whole_number(now);
    }
    JSONSchemaProps {
        x_kubernetes_int_or_string: Some(true),
        nullable: Some(true),
        description: Some("The old name of `bufferSize`.".to_owned()),
        ..JSONSchemaProps::default()
    }
}
