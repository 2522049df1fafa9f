//! The paths and operations in the OpenAPI documents.

use serde_json::{Map, Value, json};

use super::{SpecVersion, definitions};
use apimachinery::resource::{Resource, Subresource};
use apimachinery::schema::Types;

const PATCH_TYPES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
];

/// Adds the paths of a resource.
pub(super) fn add(resource: &Resource, spec: SpecVersion, paths: &mut Map<String, Value>) {
    let group_path = match resource.group.as_str() {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    };
    let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{group_path}{scope}/{}", resource.plural);
    let item = format!("{collection}/{{name}}");
    let mut entry = Map::new();
    for (verb, method, action) in [
        ("list", "get", "list"),
        ("create", "post", "post"),
        ("deletecollection", "delete", "deletecollection"),
    ] {
        if resource.verbs.contains(&verb) {
            entry.insert(method.to_owned(), operation(resource, "", action, spec));
        }
    }
    paths.insert(collection, with_parameters(resource, false, entry, spec));
    if resource.namespaced && resource.verbs.contains(&"list") {
        let mut entry = Map::new();
        entry.insert("get".to_owned(), operation(resource, "", "list", spec));
        paths.insert(format!("{group_path}/{}", resource.plural), Value::Object(entry));
    }
    if resource.is_stored() {
        paths.insert(item.clone(), methods(resource, "", resource.verbs, spec));
    }
    for sub in &resource.subresources {
        paths.insert(
            format!("{item}/{}", sub.name()),
            methods(resource, sub.name(), sub.verbs(), spec),
        );
    }
}

fn methods(resource: &Resource, sub: &str, verbs: &[&str], spec: SpecVersion) -> Value {
    let mut entry = Map::new();
    for (verb, method, action) in [
        ("get", "get", "get"),
        ("update", "put", "put"),
        ("patch", "patch", "patch"),
        ("delete", "delete", "delete"),
        ("create", "post", "post"),
    ] {
        let is_item_verb = !sub.is_empty() || verb != "create";
        let is_connection = Subresource::named(sub).is_some_and(Subresource::is_connection);
        if is_item_verb && verbs.contains(&verb) {
            let operation = match is_connection {
                true => connection(resource, sub, method, spec),
                false => operation(resource, sub, action, spec),
            };
            entry.insert(method.to_owned(), operation);
        }
    }
    with_parameters(resource, true, entry, spec)
}

fn with_parameters(
    resource: &Resource,
    named: bool,
    mut entry: Map<String, Value>,
    spec: SpecVersion,
) -> Value {
    let mut parameters = Vec::new();
    if named {
        parameters.push(parameter("name", "path", &format!("name of the {}", resource.kind), spec));
    }
    if resource.namespaced {
        let text = "object name and auth scope, such as for teams and projects";
        parameters.push(parameter("namespace", "path", text, spec));
    }
    if !parameters.is_empty() {
        entry.insert("parameters".to_owned(), parameters.into());
    }
    Value::Object(entry)
}

fn parameter(name: &str, location: &str, description: &str, spec: SpecVersion) -> Value {
    let mut parameter = json!({"name": name, "in": location, "description": description});
    if location == "path" {
        parameter["required"] = true.into();
    }
    match spec {
        SpecVersion::V2 => {
            parameter["type"] = "string".into();
            parameter["uniqueItems"] = true.into();
        }
        SpecVersion::V3 => parameter["schema"] = json!({"type": "string", "uniqueItems": true}),
    }
    parameter
}

/// Returns the operation of a subresource that requests connect to.
fn connection(resource: &Resource, sub: &str, method: &str, spec: SpecVersion) -> Value {
    let capital = |s: &str| s[..1].to_uppercase() + &s[1..];
    let (kind, version) = (&resource.kind, &resource.version);
    let id = format!(
        "connectCore{}{}Namespaced{kind}{}",
        capital(version),
        capital(method),
        capital(sub)
    );
    let mut operation = json!({
        "description": format!("connect {} requests to {sub} of {kind}", method.to_uppercase()),
        "operationId": id, "tags": [format!("core_{version}")], "x-kubernetes-action": "connect",
        "x-kubernetes-group-version-kind": {"group": resource.group, "version": version, "kind": kind},
    });
    let text = json!({"type": "string"});
    let response = match spec {
        SpecVersion::V2 => {
            operation["consumes"] = json!(["*/*"]);
            operation["produces"] = json!(["*/*"]);
            operation["schemes"] = json!(["https"]);
            json!({"description": "OK", "schema": text})
        }
        SpecVersion::V3 => json!({"description": "OK", "content": {"*/*": {"schema": text}}}),
    };
    operation["responses"] = json!({"200": response, "401": {"description": "Unauthorized"}});
    operation
}

fn operation(resource: &Resource, sub: &str, action: &str, spec: SpecVersion) -> Value {
    let kind = &resource.kind;
    let group = resource.group.split('.').next().unwrap_or_default();
    let group = if group.is_empty() { "core" } else { group };
    let capital = |s: &str| s[..1].to_uppercase() + &s[1..];
    let scope = if resource.namespaced { "Namespaced" } else { "" };
    let part = if sub.is_empty() { String::new() } else { capital(sub) };
    let (verb, text) = match action {
        "list" => ("list", "list or watch objects of kind"),
        "post" => ("create", "create"),
        "put" => ("replace", "replace the specified"),
        "patch" => ("patch", "partially update the specified"),
        "delete" => ("delete", "delete"),
        "deletecollection" => ("deleteCollection", "delete collection of"),
        _ => ("read", "read the specified"),
    };
    let id = format!("{verb}{}{}{scope}{kind}{part}", capital(group), capital(&resource.version));
    let schema = json!({"$ref": format!("{}{}", spec.prefix(), definition(resource, sub, action))});
    let mut operation = json!({"description": format!("{text} {kind}"), "operationId": id,
        "tags": [format!("{group}_{}", resource.version)],
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind":
            {"group": resource.group, "version": resource.version, "kind": kind}});
    let takes_body = matches!(action, "post" | "put" | "patch");
    let mut parameters: Vec<Value> = Vec::new();
    if takes_body {
        for name in ["dryRun", "fieldManager", "fieldValidation"] {
            parameters.push(parameter(name, "query", name, spec));
        }
    }
    if action == "patch" {
        parameters.push(parameter("force", "query", "force", spec));
    }
    let body = if action == "patch" {
        json!({"$ref": format!("{}io.k8s.apimachinery.pkg.apis.meta.v1.Patch", spec.prefix())})
    } else {
        schema.clone()
    };
    let types: Vec<&str> = if action == "patch" { patch_types(resource) } else { vec!["*/*"] };
    match spec {
        SpecVersion::V2 => {
            if takes_body {
                parameters.insert(
                    0,
                    json!({"name": "body", "in": "body", "required": true, "schema": body}),
                );
                operation["consumes"] = json!(types);
            }
            operation["produces"] = json!(["application/json", "application/yaml"]);
            operation["schemes"] = json!(["https"]);
            operation["responses"] = json!({"200": {"description": "OK", "schema": schema},
                "401": {"description": "Unauthorized"}});
        }
        SpecVersion::V3 => {
            if takes_body {
                let content: Map<String, Value> =
                    types.iter().map(|t| ((*t).to_owned(), json!({"schema": body}))).collect();
                operation["requestBody"] = json!({"content": content, "required": true});
            }
            operation["responses"] = json!({"200": {"description": "OK",
                "content": {"application/json": {"schema": schema}, "application/yaml": {"schema": schema}}},
                "401": {"description": "Unauthorized"}});
        }
    }
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    operation
}

fn patch_types(resource: &Resource) -> Vec<&'static str> {
    let mut types = PATCH_TYPES.to_vec();
    if resource.custom.is_none() {
        types.push("application/strategic-merge-patch+json");
    }
    types
}

/// Returns the name of the response schema of an operation, which is also that of its request unless it is a patch.
fn definition(resource: &Resource, sub: &str, action: &str) -> String {
    let status = "io.k8s.apimachinery.pkg.apis.meta.v1.Status".to_owned();
    if matches!(action, "delete" | "deletecollection") {
        return status;
    }
    let types = Types::builtin();
    let other = match Subresource::named(sub) {
        Some(Subresource::Scale) => types.kind("autoscaling", "v1", "Scale"),
        Some(Subresource::Eviction) => types.kind("policy", "v1", "Eviction"),
        Some(Subresource::Token) => types.kind("authentication.k8s.io", "v1", "TokenRequest"),
        Some(Subresource::Binding) => types.kind("", "v1", "Binding"),
        Some(_) | None => None,
    };
    if let Some(other) = other {
        return other.name().to_owned();
    }
    let suffix = if action == "list" { "List" } else { "" };
    if resource.custom.is_some() {
        return format!("{}{suffix}", definitions::custom_name(resource));
    }
    let kind = if action == "list" { &resource.list_kind } else { &resource.kind };
    types.kind(&resource.group, &resource.version, kind).map_or(status, |s| s.name().to_owned())
}
