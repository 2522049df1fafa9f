//! Defaults and validates CustomResourceDefinitions.

mod schema;

use serde_json::{Value, json};

use crate::builtin::field::{FieldError, Path};
use crate::builtin::names;
use crate::schema::Structural;

type Errors = Vec<FieldError>;

fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object[field].as_str().unwrap_or_default()
}

fn versions(crd: &Value) -> &[Value] {
    crd["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Fills in omitted fields.
pub fn default(crd: &mut Value) {
    let names = &mut crd["spec"]["names"];
    let kind = text(names, "kind").to_owned();
    if text(names, "singular").is_empty() && !kind.is_empty() {
        names["singular"] = kind.to_lowercase().into();
    }
    if text(names, "listKind").is_empty() && !kind.is_empty() {
        names["listKind"] = format!("{kind}List").into();
    }
    if crd["spec"]["conversion"].is_null() {
        crd["spec"]["conversion"] = json!({"strategy": "None"});
    }
    let service = &mut crd["spec"]["conversion"]["webhook"];
    if service["clientConfig"]["service"].is_object()
        && service["clientConfig"]["service"]["port"].is_null()
    {
        service["clientConfig"]["service"]["port"] = 443.into();
    } else if service.is_null() {
        crate::builtin::remove_field(&mut crd["spec"]["conversion"], "webhook");
    }
}

/// Returns the version that objects are stored in.
fn storage_version(crd: &Value) -> Option<&str> {
    versions(crd).iter().find(|v| v["storage"] == true).map(|v| text(v, "name"))
}

/// Initializes the status of a new definition.
pub fn prepare_create(crd: &mut Value) {
    let stored: Vec<&str> = storage_version(crd).into_iter().collect();
    crd["status"] = json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored});
}

/// Records a new storage version in the status.
pub fn prepare_update(crd: &mut Value) {
    let Some(version) = storage_version(crd).map(str::to_owned) else { return };
    if !crd["status"]["storedVersions"].is_array() {
        crd["status"]["storedVersions"] = json!([]);
    }
    if let Some(stored) = crd["status"]["storedVersions"].as_array_mut()
        && !stored.iter().any(|v| *v == version.as_str())
    {
        stored.push(version.into());
    }
}

/// Returns warnings about a valid definition.
pub fn warnings(crd: &Value) -> Vec<String> {
    let has_rules = |v: &Value| {
        Structural::read(&v["schema"]["openAPIV3Schema"]).is_ok_and(|schema| schema.has_rules())
    };
    if versions(crd).iter().any(has_rules) {
        let warning = "x-kubernetes-validations: rules are stored but not evaluated by this server";
        return vec![warning.to_owned()];
    }
    Vec::new()
}

/// Validates a definition; `old` is its previous version.
pub fn validate(crd: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let (spec, path) = (&crd["spec"], Path::new("spec"));
    let (group, plural) = (text(spec, "group"), text(&spec["names"], "plural"));
    let expected = format!("{plural}.{group}");
    let name = text(&crd["metadata"], "name");
    if name != expected {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(Path::new("metadata.name").invalid_text(name, detail));
    }
    check_group(crd, group, &path, &mut errors);
    match text(spec, "scope") {
        "" => errors.push(path.child("scope").required("")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(path.child("scope").not_supported(other, &["Cluster", "Namespaced"])),
    }
    check_versions(crd, &path, &mut errors);
    check_names(&spec["names"], &path.child("names"), &mut errors);
    check_conversion(&spec["conversion"], &path.child("conversion"), &mut errors);
    if spec["preserveUnknownFields"] == true {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        errors.push(path.child("preserveUnknownFields").invalid(&json!(true), detail));
    }
    schema::check(crd, &mut errors);
    if let Some(old) = old {
        check_update(crd, old, &mut errors);
    }
    errors
}

fn check_group(crd: &Value, group: &str, path: &Path, errors: &mut Errors) {
    let path = path.child("group");
    if group.is_empty() {
        return errors.push(path.required(""));
    }
    let violations = names::subdomain(group);
    if !violations.is_empty() {
        errors.push(path.invalid_text(group, violations.join(",")));
    } else if !group.contains('.') {
        errors.push(path.invalid_text(group, "should be a domain with at least one dot"));
    }
    let is_protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|p| group == *p || group.ends_with(&format!(".{p}")));
    let approval = "api-approved.kubernetes.io";
    if is_protected && text(&crd["metadata"]["annotations"], approval).is_empty() {
        let detail = "protected groups must have approval annotation \"api-approved.kubernetes.io\", see \
                      https://github.com/kubernetes/enhancements/pull/1111";
        errors.push(Path::new("metadata.annotations").key(approval).required(detail));
    }
}

fn check_versions(crd: &Value, path: &Path, errors: &mut Errors) {
    let path = path.child("versions");
    let all = versions(crd);
    let mut taken = Vec::new();
    let mut is_unique = true;
    for (index, version) in all.iter().enumerate() {
        let name = text(version, "name");
        let violations = names::label_1035(name);
        if !violations.is_empty() {
            errors.push(path.index(index).child("name").invalid_text(name, violations.join(",")));
        }
        is_unique &= !taken.contains(&name);
        taken.push(name);
        check_subresources(
            &version["subresources"],
            &path.index(index).child("subresources"),
            errors,
        );
        check_columns(version, &path.index(index).child("additionalPrinterColumns"), errors);
        if version["schema"]["openAPIV3Schema"].is_null() {
            errors.push(path.index(index).child("schema").child("openAPIV3Schema").required(""));
        }
    }
    if !is_unique {
        errors.push(path.invalid(&crd["spec"]["versions"], "must contain unique version names"));
    }
    if all.iter().filter(|v| v["storage"] == true).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(path.invalid(&crd["spec"]["versions"], detail));
    }
    let stored = crd["status"]["storedVersions"].as_array();
    for (index, version) in stored.into_iter().flatten().enumerate() {
        let version = version.as_str().unwrap_or_default();
        if !taken.contains(&version) {
            let detail = format!(
                "missing from spec.versions; {version} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {version} and removes {version} from \
                 status.storedVersions"
            );
            errors.push(
                Path::new("status.storedVersions").index(index).invalid_text(version, detail),
            );
        }
    }
}

fn check_subresources(subresources: &Value, path: &Path, errors: &mut Errors) {
    let Some(scale) = subresources.get("scale").filter(|s| s.is_object()) else { return };
    for (field, start) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let path = path.child(&format!("scale.{field}"));
        match text(scale, field) {
            "" => errors.push(path.required("")),
            value if !value.starts_with(&format!("{start}.")) => {
                errors
                    .push(path.invalid_text(value, format!("should be a json path under {start}")));
            }
            _ => {}
        }
    }
    let selector = text(scale, "labelSelectorPath");
    if !selector.is_empty() && ![".spec.", ".status."].iter().any(|p| selector.starts_with(p)) {
        let detail = "should be a json path under either .spec or .status";
        errors.push(path.child("scale.labelSelectorPath").invalid_text(selector, detail));
    }
}

fn check_columns(version: &Value, path: &Path, errors: &mut Errors) {
    const TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
    let columns = version["additionalPrinterColumns"].as_array();
    for (index, column) in columns.into_iter().flatten().enumerate() {
        let path = path.index(index);
        if text(column, "name").is_empty() {
            errors.push(path.child("name").required(""));
        }
        let detail = format!("must be one of {}", TYPES.join(","));
        match text(column, "type") {
            "" => errors.push(path.child("type").required(detail)),
            kind if !TYPES.contains(&kind) => {
                errors.push(path.child("type").invalid_text(kind, detail))
            }
            _ => {}
        }
        if text(column, "jsonPath").is_empty() {
            errors.push(path.child("JSONPath").required(""));
        }
    }
}

fn check_names(given: &Value, path: &Path, errors: &mut Errors) {
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(given, field).is_empty() {
            errors.push(path.child(field).required(""));
        }
    }
    for (field, note) in [("plural", ""), ("singular", ""), ("kind", MIXED), ("listKind", MIXED)] {
        let value = text(given, field);
        let violations = names::label_1035(&if note.is_empty() {
            value.to_owned()
        } else {
            value.to_lowercase()
        });
        if !value.is_empty() && !violations.is_empty() {
            errors.push(
                path.child(field).invalid_text(value, format!("{note}{}", violations.join(","))),
            );
        }
    }
    for list in ["shortNames", "categories"] {
        for (index, name) in given[list].as_array().into_iter().flatten().enumerate() {
            let name = name.as_str().unwrap_or_default();
            let violations = names::label_1035(name);
            if !violations.is_empty() {
                errors.push(path.child(list).index(index).invalid_text(name, violations.join(",")));
            }
        }
    }
    if !text(given, "kind").is_empty() && text(given, "kind") == text(given, "listKind") {
        let detail = "kind and listKind may not be the same";
        errors.push(path.child("listKind").invalid(&given["listKind"], detail));
    }
}

const MIXED: &str = "may have mixed case, but should otherwise match: ";

fn check_conversion(conversion: &Value, path: &Path, errors: &mut Errors) {
    let webhook = conversion.get("webhook").filter(|w| w.is_object());
    match text(conversion, "strategy") {
        "" => errors.push(path.child("strategy").required("")),
        "None" if webhook.is_some() => {
            let detail = "should not be set when strategy is not set to Webhook";
            errors.push(path.child("webhookClientConfig").forbidden(detail));
        }
        "None" => {}
        "Webhook" if webhook.is_none() => {
            let detail = "required when strategy is set to Webhook";
            errors.push(path.child("webhookClientConfig").required(detail));
        }
        "Webhook" => {}
        other => errors.push(path.child("strategy").not_supported(other, &["None", "Webhook"])),
    }
}

fn check_update(crd: &Value, old: &Value, errors: &mut Errors) {
    let established = old["status"]["conditions"].as_array().into_iter().flatten();
    let is_established =
        established.into_iter().any(|c| c["type"] == "Established" && c["status"] == "True");
    let (spec, was, path) = (&crd["spec"], &old["spec"], Path::new("spec"));
    let fixed = [
        ("group", &spec["group"], &was["group"]),
        ("names.plural", &spec["names"]["plural"], &was["names"]["plural"]),
    ];
    let mut fixed = fixed.to_vec();
    if is_established {
        fixed.push(("scope", &spec["scope"], &was["scope"]));
        fixed.push(("names.kind", &spec["names"]["kind"], &was["names"]["kind"]));
    }
    for (field, new, old) in fixed {
        if new != old {
            errors.push(path.child(field).invalid(new, "field is immutable"));
        }
    }
}
