//! Fills in the defaults of the built-in kinds.

mod autoscaler;
mod pod;
mod service;
mod workload;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

pub(super) use pod::qos_class;

use super::{BuiltIn, fill, given, items_mut, text};
use crate::schema::{Shape, ValueType};

/// Fills in the defaults of a built-in kind. `shape` has the defaults that the kind's types declare.
pub fn default(kind: BuiltIn<'_>, shape: Option<Shape<'_>>, object: &mut Value) {
    if let Some(shape) = shape {
        declared(shape, object);
    }
    match (kind.group, kind.kind) {
        ("", "Pod") => pod::pod(object),
        ("", "PodTemplate") => pod::template(&mut object["template"]),
        ("", "ReplicationController") => workload::replication_controller(object),
        ("apps", "Deployment") => workload::deployment(object),
        ("apps", "ReplicaSet") => workload::replica_set(object),
        ("apps", "DaemonSet") => workload::daemon_set(object),
        ("apps", "StatefulSet") => workload::stateful_set(object),
        ("batch", "Job") => workload::job(object),
        ("batch", "CronJob") => workload::cron_job(object),
        ("", "Service") => service::service(object),
        ("", "Endpoints") => service::endpoints(object),
        ("discovery.k8s.io", "EndpointSlice") => service::endpoint_slice(object),
        ("networking.k8s.io", "NetworkPolicy") => service::network_policy(object),
        ("networking.k8s.io", "IngressClass") => service::ingress_class(object),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler::autoscaler(object),
        ("", "Namespace") => namespace(object),
        ("", "Node") => node(object),
        ("", "Secret") => secret(object),
        ("", "PersistentVolume") => persistent_volume(object),
        ("", "PersistentVolumeClaim") => persistent_volume_claim(object),
        ("", "LimitRange") => limit_range(object),
        ("scheduling.k8s.io", "PriorityClass") => {
            fill(object, "preemptionPolicy", "PreemptLowerPriority");
        }
        ("storage.k8s.io", "StorageClass") => {
            fill(object, "reclaimPolicy", "Delete");
            fill(object, "volumeBindingMode", "Immediate");
        }
        ("storage.k8s.io", "CSIDriver") => csi_driver(object),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => role_binding(object),
        ("admissionregistration.k8s.io", _) => webhooks(object),
        ("apiregistration.k8s.io", "APIService") if object["spec"]["service"].is_object() => {
            fill(&mut object["spec"]["service"], "port", 443);
        }
        _ => {}
    }
}

/// Fills in the defaults that the types declare.
fn declared(shape: Shape<'_>, value: &mut Value) {
    match value {
        Value::Object(map) if shape.has_fields() => {
            for (name, field) in shape.fields() {
                if let Some(found) = map.get_mut(name).filter(|v| v.as_str() != Some("")) {
                    declared(field, found);
                } else if let Some(default) = field.default().filter(|d| is_effective_default(d)) {
                    map.insert(name.to_owned(), default.clone());
                }
            }
        }
        Value::Object(map) => {
            if let Some(values) = shape.values().filter(|v| v.value_type() == ValueType::Object) {
                map.values_mut().for_each(|v| declared(values, v));
            }
        }
        Value::Array(list) => {
            if let Some(items) = shape.items().filter(|i| i.value_type() == ValueType::Object) {
                list.iter_mut().for_each(|v| declared(items, v));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns whether a default has an effect: one that equals Go's zero value only documents that the field is always written.
fn is_effective_default(default: &Value) -> bool {
    match default {
        Value::Null | Value::Object(_) | Value::Array(_) => false,
        Value::Bool(v) => *v,
        Value::Number(n) => n.as_i64() != Some(0),
        Value::String(s) => !s.is_empty(),
    }
}

fn namespace(object: &mut Value) {
    let name = text(&object["metadata"], "name").to_owned();
    if !name.is_empty() {
        object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
    }
    fill(&mut object["status"], "phase", "Active");
}

/// Moves `stringData` into `data`, as base64.
fn secret(object: &mut Value) {
    fill(object, "type", "Opaque");
    let Some(Value::Object(plain)) = super::take_field(object, "stringData") else { return };
    for (key, text) in plain {
        let bytes = STANDARD.encode(text.as_str().unwrap_or_default());
        object["data"][key] = bytes.into();
    }
}

fn node(object: &mut Value) {
    let status = &mut object["status"];
    if let Some(capacity) = given(status, "capacity").cloned() {
        fill(status, "allocatable", capacity);
    }
}

fn persistent_volume(object: &mut Value) {
    fill(&mut object["status"], "phase", "Pending");
    fill(&mut object["spec"], "persistentVolumeReclaimPolicy", "Retain");
    fill(&mut object["spec"], "volumeMode", "Filesystem");
    if let Some(path) = object["spec"].get_mut("hostPath")
        && path["type"].is_null()
    {
        path["type"] = "".into();
    }
}

fn persistent_volume_claim(object: &mut Value) {
    fill(&mut object["status"], "phase", "Pending");
    fill(&mut object["spec"], "volumeMode", "Filesystem");
}

fn limit_range(object: &mut Value) {
    for item in items_mut(&mut object["spec"], "limits") {
        if text(item, "type") != "Container" {
            continue;
        }
        for (from, to) in
            [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")]
        {
            let from = item.get(from).and_then(Value::as_object).cloned().unwrap_or_default();
            for (name, amount) in from {
                fill(item, to, json!({}));
                fill(&mut item[to], &name, amount);
            }
        }
    }
}

fn csi_driver(object: &mut Value) {
    let spec = &mut object["spec"];
    fill(spec, "attachRequired", true);
    for field in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        fill(spec, field, false);
    }
    fill(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    fill(spec, "volumeLifecycleModes", json!(["Persistent"]));
}

fn role_binding(object: &mut Value) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    fill(&mut object["roleRef"], "apiGroup", GROUP);
    for subject in items_mut(object, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") {
            fill(subject, "apiGroup", GROUP);
        }
    }
}

fn webhooks(object: &mut Value) {
    let mutates = text(object, "kind") == "MutatingWebhookConfiguration";
    for webhook in items_mut(object, "webhooks") {
        fill(webhook, "failurePolicy", "Fail");
        fill(webhook, "matchPolicy", "Equivalent");
        fill(webhook, "namespaceSelector", json!({}));
        fill(webhook, "objectSelector", json!({}));
        fill(webhook, "timeoutSeconds", 10);
        if mutates {
            fill(webhook, "reinvocationPolicy", "Never");
        }
        items_mut(webhook, "rules").iter_mut().for_each(|rule| fill(rule, "scope", "*"));
        if webhook["clientConfig"]["service"].is_object() {
            fill(&mut webhook["clientConfig"]["service"], "port", 443);
        }
    }
}
