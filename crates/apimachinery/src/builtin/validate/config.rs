//! Validates ConfigMaps, Secrets, LimitRanges and ResourceQuotas.

use std::collections::HashSet;

use serde_json::Value;

use super::meta::violations;
use super::numbers::quantity;
use super::{Errors, names};
use crate::builtin::field::Path;
use crate::builtin::{given, items, text};

const LARGEST: usize = 1024 * 1024;

pub(super) fn config_map(object: &Value, errors: &mut Errors) {
    let mut size = 0;
    for field in ["data", "binaryData"] {
        for (key, value) in object[field].as_object().into_iter().flatten() {
            let path = Path::new(field).key(key);
            violations(&path, key, names::config_key(key), errors);
            if field == "data" && object["binaryData"].get(key).is_some() {
                errors.push(path.invalid_text(key, "duplicate of key present in binaryData"));
            }
            size += value.as_str().unwrap_or_default().len();
        }
    }
    if size > LARGEST {
        errors.push(Path::new("").too_long(LARGEST));
    }
}

pub(super) fn secret(object: &Value, errors: &mut Errors) {
    let data = &object["data"];
    let mut size = 0;
    for (key, value) in data.as_object().into_iter().flatten() {
        violations(&Path::new("data").key(key), key, names::config_key(key), errors);
        size += value.as_str().unwrap_or_default().len() / 4 * 3;
    }
    if size > LARGEST {
        errors.push(Path::new("data").too_long(LARGEST));
    }
    let require = |keys: &[&str], errors: &mut Errors| {
        for key in keys.iter().filter(|key| data.get(**key).is_none()) {
            errors.push(Path::new("data").key(key).required(""));
        }
    };
    match text(object, "type") {
        "kubernetes.io/service-account-token" => {
            let name = "kubernetes.io/service-account.name";
            if text(&object["metadata"]["annotations"], name).is_empty() {
                errors.push(Path::new("metadata.annotations").key(name).required(""));
            }
        }
        "kubernetes.io/tls" => require(&["tls.crt", "tls.key"], errors),
        "kubernetes.io/ssh-auth" => require(&["ssh-privatekey"], errors),
        "kubernetes.io/dockercfg" => require(&[".dockercfg"], errors),
        "kubernetes.io/dockerconfigjson" => require(&[".dockerconfigjson"], errors),
        "kubernetes.io/basic-auth"
            if data.get("username").is_none() && data.get("password").is_none() =>
        {
            require(&["username", "password"], errors);
        }
        _ => {}
    }
}

pub(super) fn limit_range(object: &Value, errors: &mut Errors) {
    let mut taken = HashSet::new();
    for (index, item) in items(&object["spec"], "limits").iter().enumerate() {
        let path = Path::new("spec.limits").index(index);
        let kind = text(item, "type");
        if !taken.insert(kind) {
            errors.push(path.child("type").duplicate(&item["type"]));
        }
        if kind == "Pod" {
            for field in ["default", "defaultRequest"] {
                if given(item, field).is_some() {
                    errors.push(
                        path.child(field).forbidden("may not be specified when `type` is 'Pod'"),
                    );
                }
            }
            continue;
        }
        compare(item, ("min", "max"), ("min", "min value", "max value"), &path, errors);
        let request = ("defaultRequest", "min value", "default request value");
        compare(item, ("min", "defaultRequest"), request, &path, errors);
        compare(item, ("min", "default"), ("default", "min value", "default value"), &path, errors);
    }
}

fn compare(
    item: &Value,
    sides: (&str, &str),
    words: (&str, &str, &str),
    path: &Path,
    errors: &mut Errors,
) {
    for (name, least) in item[sides.0].as_object().into_iter().flatten() {
        let most = &item[sides.1][name];
        if let (Some(a), Some(b)) = (quantity(least), quantity(most))
            && a > b
        {
            let (field, smaller, larger) = words;
            let (a, b) = (least.as_str().unwrap_or_default(), most.as_str().unwrap_or_default());
            let shown = if field == "defaultRequest" { most } else { least };
            let detail = format!("{smaller} {a} is greater than {larger} {b}");
            errors.push(path.child(field).key(name).invalid(shown, detail));
        }
    }
}

pub(super) fn resource_quota(object: &Value, errors: &mut Errors) {
    for (name, amount) in object["spec"]["hard"].as_object().into_iter().flatten() {
        let path = Path::new("spec.hard").key(name);
        let bare =
            name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name);
        let counts = matches!(
            name.as_str(),
            "pods"
                | "services"
                | "secrets"
                | "configmaps"
                | "resourcequotas"
                | "replicationcontrollers"
                | "persistentvolumeclaims"
                | "services.nodeports"
                | "services.loadbalancers"
        );
        let measures = matches!(bare, "cpu" | "memory" | "storage" | "ephemeral-storage");
        if !counts && !measures && !name.contains('/') && !name.starts_with("hugepages-") {
            errors.push(
                path.invalid_text(name, "must be a standard resource type or fully qualified"),
            );
            errors.push(path.invalid_text(name, "must be a standard resource for quota"));
        }
        let Some(found) = quantity(amount) else { continue };
        if found.is_negative() {
            errors.push(path.invalid(amount, "must be greater than or equal to 0"));
        }
        if counts && !found.is_whole() {
            errors.push(path.invalid(amount, "must be an integer"));
        }
    }
    const SCOPES: &[&str] = &[
        "Terminating",
        "NotTerminating",
        "BestEffort",
        "NotBestEffort",
        "PriorityClass",
        "CrossNamespacePodAffinity",
        "VolumeAttributesClass",
    ];
    let scopes = &object["spec"]["scopes"];
    if items(&object["spec"], "scopes")
        .iter()
        .any(|s| !SCOPES.contains(&s.as_str().unwrap_or_default()))
    {
        errors.push(Path::new("spec.scopes").invalid(scopes, "unsupported scope"));
    }
}
