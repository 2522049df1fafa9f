//! Validates changes of objects.

use std::collections::HashSet;

use serde_json::Value;

use super::meta::immutable;
use super::{Errors, content};
use crate::builtin::field::Path;
use crate::builtin::{BuiltIn, given, items, text};

/// Validates a change of the main resource.
pub(super) fn main(kind: BuiltIn<'_>, object: &Value, old: &Value, errors: &mut Errors) {
    match (kind.group, kind.kind) {
        ("", "Pod") => return pod(object, old, errors),
        ("", "Namespace") => return,
        ("", "Node") => return super::rest::node(object, errors),
        ("", "PersistentVolumeClaim") => return claim(object, old, errors),
        ("storage.k8s.io", "StorageClass") => return storage_class(object, old, errors),
        _ => {}
    }
    content(kind, object, errors);
    let spec = Path::new("spec");
    match (kind.group, kind.kind) {
        ("", "ConfigMap" | "Secret") => config(kind, object, old, errors),
        ("apps", "Deployment" | "ReplicaSet" | "DaemonSet") => {
            immutable(&object["spec"], &old["spec"], "selector", &spec, errors);
        }
        ("apps", "StatefulSet") => stateful_set(object, old, errors),
        ("batch", "Job") => {
            for field in [
                "completions",
                "selector",
                "template",
                "completionMode",
                "podFailurePolicy",
                "backoffLimitPerIndex",
            ] {
                immutable(&object["spec"], &old["spec"], field, &spec, errors);
            }
        }
        ("", "Service") => service(object, old, errors),
        ("scheduling.k8s.io", "PriorityClass") => {
            if object["value"] != old["value"] {
                errors.push(Path::new("value").forbidden("may not be changed in an update."));
            }
            immutable(object, old, "preemptionPolicy", &Path::default(), errors);
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding")
            if object["roleRef"] != old["roleRef"] =>
        {
            errors.push(Path::new("roleRef").invalid(&object["roleRef"], "cannot change roleRef"));
        }
        ("node.k8s.io", "RuntimeClass") => {
            immutable(object, old, "handler", &Path::default(), errors)
        }
        ("discovery.k8s.io", "EndpointSlice") => {
            immutable(object, old, "addressType", &Path::default(), errors);
        }
        _ => {}
    }
}

fn storage_class(object: &Value, old: &Value, errors: &mut Errors) {
    for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        if object[field] != old[field] {
            errors.push(Path::new(field).forbidden(format!("updates to {field} are forbidden.")));
        }
    }
}

fn config(kind: BuiltIn<'_>, object: &Value, old: &Value, errors: &mut Errors) {
    if kind.kind == "Secret" {
        immutable(object, old, "type", &Path::default(), errors);
    }
    if old["immutable"] != Value::Bool(true) {
        return;
    }
    let detail = "field is immutable when `immutable` is set";
    if object["immutable"] != Value::Bool(true) {
        errors.push(Path::new("immutable").forbidden(detail));
    }
    for field in ["data", "binaryData"] {
        if object[field] != old[field] {
            errors.push(Path::new(field).forbidden(detail));
        }
    }
}

fn stateful_set(object: &Value, old: &Value, errors: &mut Errors) {
    const FREE: &[&str] = &[
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    if !same_but_for(&object["spec"], &old["spec"], FREE) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                      'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.push(Path::new("spec").forbidden(detail));
    }
}

fn same_but_for(new: &Value, old: &Value, free: &[&str]) -> bool {
    let keys = new.as_object().into_iter().chain(old.as_object()).flat_map(|o| o.keys());
    keys.filter(|k| !free.contains(&k.as_str())).all(|k| new.get(k) == old.get(k))
}

fn service(object: &Value, old: &Value, errors: &mut Errors) {
    let (new, old) = (&object["spec"], &old["spec"]);
    let stays = |s: &Value| matches!(text(s, "type"), "ClusterIP" | "NodePort" | "LoadBalancer");
    if stays(new)
        && stays(old)
        && given(old, "clusterIP").is_some()
        && new["clusterIP"] != old["clusterIP"]
    {
        let detail = "may not change once set";
        errors.push(Path::new("spec.clusterIPs").index(0).invalid(&new["clusterIPs"][0], detail));
    }
}

fn claim(object: &Value, old: &Value, errors: &mut Errors) {
    super::storage::claim(&object["spec"], &Path::new("spec"), errors);
    let free = ["resources", "volumeAttributesClassName"];
    let binds = given(&old["spec"], "volumeName").is_none();
    let mut free: Vec<&str> = free.to_vec();
    if binds {
        free.push("volumeName");
    }
    if !same_but_for(&object["spec"], &old["spec"], &free) {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.push(Path::new("spec").forbidden(detail));
    }
}

fn pod(object: &Value, old: &Value, errors: &mut Errors) {
    let (new, was) = (&object["spec"], &old["spec"]);
    content(BuiltIn { group: "", kind: "Pod" }, object, errors);
    errors.retain(|e| !e.field.starts_with("spec.ephemeralContainers"));
    let mut same = new.clone();
    for list in ["containers", "initContainers"] {
        if items(new, list).len() != items(was, list).len() {
            let detail = "pod updates may not add or remove containers";
            errors.push(Path::new("spec").child(list).forbidden(detail));
            return;
        }
        for (index, container) in items(was, list).iter().enumerate() {
            if let Some(image) = container.get("image") {
                same[list][index]["image"] = image.clone();
            }
        }
    }
    if contains_all(items(new, "tolerations"), items(was, "tolerations")) {
        copy(&mut same, was, "tolerations");
    }
    if contains_all(items(was, "schedulingGates"), items(new, "schedulingGates")) {
        if !items(was, "schedulingGates").is_empty() {
            // While a pod is gated, its node selection may still be narrowed.
            copy(&mut same, was, "nodeSelector");
            copy(&mut same, was, "affinity");
        }
        copy(&mut same, was, "schedulingGates");
    }
    let shorter =
        match (new["activeDeadlineSeconds"].as_i64(), was["activeDeadlineSeconds"].as_i64()) {
            (Some(new), Some(old)) => new <= old,
            (Some(_), None) | (None, None) => true,
            (None, Some(_)) => false,
        };
    if shorter {
        copy(&mut same, was, "activeDeadlineSeconds");
    }
    if was["terminationGracePeriodSeconds"].as_i64().is_some_and(|g| g < 0)
        && new["terminationGracePeriodSeconds"] == 1
    {
        copy(&mut same, was, "terminationGracePeriodSeconds");
    }
    if same != *was {
        let detail = "pod updates may not change fields other than `spec.containers[*].image`,\
                      `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
                      existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                      previously negative)";
        errors.push(Path::new("spec").forbidden(detail));
    }
}

fn copy(to: &mut Value, from: &Value, field: &str) {
    match from.get(field) {
        Some(value) => to[field] = value.clone(),
        None => {
            crate::builtin::take_field(to, field);
        }
    }
}

/// Returns whether a list contains each of some items.
fn contains_all(list: &[Value], some: &[Value]) -> bool {
    let list: HashSet<&Value> = list.iter().collect();
    some.iter().all(|item| list.contains(item))
}
