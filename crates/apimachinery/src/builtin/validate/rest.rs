//! Validates the remaining built-in kinds.

use serde_json::Value;

use super::meta::violations;
use super::numbers::{int_or_percent, not_negative, not_over_100_percent, one_of, required};
use super::{Errors, label_selector, names};
use crate::builtin::field::Path;
use crate::builtin::{BuiltIn, given, items, text};

pub(super) fn content(kind: BuiltIn<'_>, object: &Value, errors: &mut Errors) {
    match (kind.group, kind.kind) {
        ("", "Namespace") => namespace(object, errors),
        ("", "Node") => node(object, errors),
        ("" | "events.k8s.io", "Event") => event(object, errors),
        ("policy", "PodDisruptionBudget") => budget(object, errors),
        ("coordination.k8s.io", "Lease") => lease(object, errors),
        ("scheduling.k8s.io", "PriorityClass") => priority_class(object, errors),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler(object, errors),
        ("node.k8s.io", "RuntimeClass") => {
            let handler = text(object, "handler");
            violations(&Path::new("handler"), handler, names::label(handler), errors);
        }
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => role(object, errors),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            role_binding(object, kind.kind == "RoleBinding", errors);
        }
        ("admissionregistration.k8s.io", _) => webhooks(object, errors),
        _ => {}
    }
}

fn namespace(object: &Value, errors: &mut Errors) {
    for finalizer in items(&object["spec"], "finalizers").iter().filter_map(Value::as_str) {
        let path = Path::new("spec.finalizers");
        violations(&path, finalizer, names::qualified(finalizer), errors);
        if !finalizer.contains('/') && finalizer != "kubernetes" {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(path.invalid_text(finalizer, detail));
        }
    }
}

/// Validates a node's taints.
pub(super) fn node(object: &Value, errors: &mut Errors) {
    let taints = items(&object["spec"], "taints");
    for (index, taint) in taints.iter().enumerate() {
        let path = Path::new("metadata.taints").index(index);
        let key = text(taint, "key");
        violations(&path.child("key"), key, names::qualified(key), errors);
        let value = text(taint, "value");
        violations(&path.child("value"), value, names::label_value(value), errors);
        match text(taint, "effect") {
            "" => errors.push(path.child("effect").required("")),
            _ => one_of(
                taint,
                "effect",
                &["NoSchedule", "PreferNoSchedule", "NoExecute"],
                &path,
                errors,
            ),
        }
        let same = |t: &Value| t["key"] == taint["key"] && t["effect"] == taint["effect"];
        if taints[..index].iter().any(same) {
            let mut error = path.duplicate(taint);
            error.detail = "taints must be unique by key and effect pair".to_owned();
            errors.push(error);
        }
    }
}

fn event(object: &Value, errors: &mut Errors) {
    let namespace = text(&object["metadata"], "namespace");
    if object.get("regarding").is_some() {
        if given(object, "eventTime").is_none() {
            errors.push(Path::new("eventTime").required(""));
        }
        let kind = text(object, "type");
        if !matches!(kind, "Normal" | "Warning") {
            errors.push(Path::new("type").invalid_text(kind, format!("has invalid value: {kind}")));
        }
        return;
    }
    let about = text(&object["involvedObject"], "namespace");
    let is_right = if about.is_empty() { namespace == "default" } else { about == namespace };
    if !is_right {
        let detail = "does not match event.namespace";
        errors.push(Path::new("involvedObject.namespace").invalid_text(about, detail));
    }
}

fn budget(object: &Value, errors: &mut Errors) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    if given(spec, "minAvailable").is_some() && given(spec, "maxUnavailable").is_some() {
        errors.push(path.invalid(spec, "minAvailable and maxUnavailable cannot be both set"));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        int_or_percent(spec, field, &path, errors);
        not_over_100_percent(spec, field, &path, errors);
    }
    label_selector(&spec["selector"], &path.child("selector"), errors);
    one_of(spec, "unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"], &path, errors);
}

fn lease(object: &Value, errors: &mut Errors) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    if spec["leaseDurationSeconds"].as_i64().is_some_and(|n| n <= 0) {
        let value = &spec["leaseDurationSeconds"];
        errors.push(path.child("leaseDurationSeconds").invalid(value, "must be greater than 0"));
    }
    not_negative(spec, "leaseTransitions", &path, errors);
}

fn priority_class(object: &Value, errors: &mut Errors) {
    let name = text(&object["metadata"], "name");
    let value = object["value"].as_i64().unwrap_or_default();
    if name.starts_with("system-")
        && !matches!(name, "system-cluster-critical" | "system-node-critical")
    {
        let detail = format!(
            "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known \
             system priority class"
        );
        errors.push(Path::new("metadata.name").forbidden(detail));
    } else if value > 1_000_000_000 && !name.starts_with("system-") {
        let detail = "maximum allowed value of a user defined priority is 1000000000";
        errors.push(Path::new("value").forbidden(detail));
    }
    one_of(
        object,
        "preemptionPolicy",
        &["PreemptLowerPriority", "Never"],
        &Path::default(),
        errors,
    );
}

fn autoscaler(object: &Value, errors: &mut Errors) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    let (least, most) =
        (spec["minReplicas"].as_i64(), spec["maxReplicas"].as_i64().unwrap_or_default());
    if least.is_some_and(|n| n < 1) {
        let detail = "must be greater than or equal to 1";
        errors.push(path.child("minReplicas").invalid(&spec["minReplicas"], detail));
    }
    if most < 1 {
        errors.push(path.child("maxReplicas").required("must be set and greater than 0"));
    } else if least.is_some_and(|least| most < least) {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.push(path.child("maxReplicas").invalid(&spec["maxReplicas"], detail));
    }
    let (target, path) = (&spec["scaleTargetRef"], path.child("scaleTargetRef"));
    for field in ["kind", "name"] {
        match text(target, field) {
            "" => errors.push(path.child(field).required("")),
            value => violations(&path.child(field), value, names::path_segment(value), errors),
        }
    }
    if text(target, "apiVersion").is_empty() {
        errors.push(path.child("apiVersion").invalid_text("", "apiVersion must specify API group"));
    }
}

fn role(object: &Value, errors: &mut Errors) {
    for (index, rule) in items(object, "rules").iter().enumerate() {
        let path = Path::new("rules").index(index);
        if items(rule, "verbs").is_empty() {
            errors.push(path.child("verbs").required("verbs must contain at least one value"));
        }
        if !items(rule, "nonResourceURLs").is_empty() {
            if !items(rule, "apiGroups").is_empty() || !items(rule, "resources").is_empty() {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                errors
                    .push(path.child("nonResourceURLs").invalid(&rule["nonResourceURLs"], detail));
            }
            continue;
        }
        if items(rule, "apiGroups").is_empty() {
            let detail = "resource rules must supply at least one api group";
            errors.push(path.child("apiGroups").required(detail));
        }
        if items(rule, "resources").is_empty() {
            let detail = "resource rules must supply at least one resource";
            errors.push(path.child("resources").required(detail));
        }
    }
}

fn role_binding(object: &Value, namespaced: bool, errors: &mut Errors) {
    let (role, path) = (&object["roleRef"], Path::new("roleRef"));
    if text(role, "apiGroup") != "rbac.authorization.k8s.io" {
        errors.push(
            path.child("apiGroup")
                .not_supported(text(role, "apiGroup"), &["rbac.authorization.k8s.io"]),
        );
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&text(role, "kind")) {
        errors.push(path.child("kind").not_supported(text(role, "kind"), kinds));
    }
    match text(role, "name") {
        "" => errors.push(path.child("name").required("")),
        name => violations(&path.child("name"), name, names::path_segment(name), errors),
    }
    for (index, subject) in items(object, "subjects").iter().enumerate() {
        let path = Path::new("subjects").index(index);
        required(subject, "name", &path, errors);
        match text(subject, "kind") {
            "ServiceAccount" if !namespaced => required(subject, "namespace", &path, errors),
            "ServiceAccount" | "User" | "Group" => {}
            other => errors.push(
                path.child("kind").not_supported(other, &["ServiceAccount", "User", "Group"]),
            ),
        }
    }
}

fn webhooks(object: &Value, errors: &mut Errors) {
    for (index, webhook) in items(object, "webhooks").iter().enumerate() {
        let path = Path::new("webhooks").index(index);
        let name = text(webhook, "name");
        violations(&path.child("name"), name, names::subdomain(name), errors);
        if name.split('.').count() < 3 {
            let detail = "should be a domain with at least three segments separated by dots";
            errors.push(path.child("name").invalid_text(name, detail));
        }
        match text(webhook, "sideEffects") {
            "" => errors
                .push(path.child("sideEffects").required("must specify one of None, NoneOnDryRun")),
            _ => one_of(webhook, "sideEffects", &["None", "NoneOnDryRun"], &path, errors),
        }
        if items(webhook, "admissionReviewVersions").is_empty() {
            let detail = "must specify one of v1, v1beta1";
            errors.push(path.child("admissionReviewVersions").required(detail));
        }
    }
}
