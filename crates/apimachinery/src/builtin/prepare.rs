//! Resets the fields that a client may not set, and maintains the generation.
//!
//! A write to the main resource leaves the status unchanged, and a write to the status leaves everything else unchanged.
//! The generation grows when the desired state changes.

use serde_json::{Value, json};

use super::defaults;
use super::{BuiltIn, fill, given, items, take_field, text};

/// The part of an object that a write addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenPart {
    /// The main resource.
    Main,
    /// Its `status`.
    Status,
    /// A namespace's `finalize`, a certificate request's `approval`, a pod's `resize` or `ephemeralcontainers`.
    Other,
}

/// The annotation in which a daemon set counts its templates, for clients of its first version.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// The changes that increase the generation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GenerationRule {
    Nothing,
    Spec,
    SpecAndAnnotations,
    /// Everything but metadata.
    Content,
}

fn generation_rule(kind: BuiltIn<'_>) -> GenerationRule {
    match (kind.group, kind.kind) {
        ("apps", "Deployment") => GenerationRule::SpecAndAnnotations,
        ("", "Pod" | "ReplicationController")
        | ("apps", "ReplicaSet" | "DaemonSet" | "StatefulSet")
        | ("batch", "Job" | "CronJob")
        | ("policy", "PodDisruptionBudget")
        | ("networking.k8s.io", "Ingress" | "IngressClass" | "NetworkPolicy")
        | ("apiextensions.k8s.io", "CustomResourceDefinition")
        | ("storage.k8s.io", "CSIDriver") => GenerationRule::Spec,
        ("", "PodTemplate")
        | ("discovery.k8s.io", "EndpointSlice")
        | ("scheduling.k8s.io", "PriorityClass")
        | ("admissionregistration.k8s.io", _) => GenerationRule::Content,
        _ => GenerationRule::Nothing,
    }
}

fn has_status(kind: BuiltIn<'_>) -> bool {
    matches!(
        (kind.group, kind.kind),
        (
            "",
            "Pod"
                | "ReplicationController"
                | "Service"
                | "Namespace"
                | "ResourceQuota"
                | "PersistentVolume"
                | "PersistentVolumeClaim"
                | "Node"
        ) | ("apps", "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet")
            | ("batch", "Job" | "CronJob")
            | ("policy", "PodDisruptionBudget")
            | ("autoscaling", "HorizontalPodAutoscaler")
            | ("networking.k8s.io", "Ingress")
            | ("certificates.k8s.io", "CertificateSigningRequest")
            | ("apiextensions.k8s.io", "CustomResourceDefinition")
            | ("apiregistration.k8s.io", "APIService")
            | ("storage.k8s.io", "VolumeAttachment")
    )
}

/// Resets the fields that a client may not set on a new object. `now` is formatted as objects store times.
pub fn prepare_create(kind: BuiltIn<'_>, object: &mut Value, now: &str) {
    if generation_rule(kind) != GenerationRule::Nothing && kind.kind != "CSIDriver" {
        object["metadata"]["generation"] = 1.into();
    }
    if has_status(kind) && kind.kind != "Node" {
        object["status"] = empty_status(kind, text(object, "apiVersion"));
    }
    match (kind.group, kind.kind) {
        ("", "Pod") => new_pod(object, now),
        ("", "Namespace") => new_namespace(object),
        ("", "PersistentVolume") => {
            object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
        }
        ("", "PersistentVolumeClaim") => mirror_data_source(object),
        ("", "Node") => {
            take_field(&mut object["spec"], "configSource");
        }
        ("batch", "Job") => select_own_pods(object),
        ("apps", "DaemonSet") => {
            object["metadata"]["annotations"][TEMPLATE_GENERATION] = "1".into();
        }
        ("", "Service") => fill_headless_addresses(&mut object["spec"]),
        _ => {}
    }
}

fn empty_status(kind: BuiltIn<'_>, api_version: &str) -> Value {
    match (kind.group, kind.kind) {
        ("autoscaling", _) if api_version == "autoscaling/v1" => {
            json!({"currentReplicas": 0, "desiredReplicas": 0})
        }
        ("", "Service") | ("networking.k8s.io", "Ingress") => json!({"loadBalancer": {}}),
        ("", "PersistentVolumeClaim") => json!({"phase": "Pending"}),
        ("", "ReplicationController") | ("apps", "ReplicaSet") => json!({"replicas": 0}),
        ("apps", "StatefulSet") => json!({"replicas": 0, "availableReplicas": 0}),
        ("apps", "DaemonSet") => json!({"currentNumberScheduled": 0, "numberMisscheduled": 0,
            "desiredNumberScheduled": 0, "numberReady": 0}),
        ("policy", "PodDisruptionBudget") => json!({"disruptionsAllowed": 0, "currentHealthy": 0,
            "desiredHealthy": 0, "expectedPods": 0}),
        ("autoscaling", "HorizontalPodAutoscaler") => {
            json!({"desiredReplicas": 0, "currentMetrics": null})
        }
        _ => json!({}),
    }
}

fn new_pod(object: &mut Value, now: &str) {
    let qos_class = defaults::qos_class(&object["spec"]);
    object["status"] = json!({"phase": "Pending", "qosClass": qos_class});
    if !items(&object["spec"], "schedulingGates").is_empty() {
        object["status"]["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "lastProbeTime": null, "lastTransitionTime": now,
            "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates"}]);
    }
}

fn new_namespace(object: &mut Value) {
    object["status"] = json!({"phase": "Active"});
    let name = text(&object["metadata"], "name").to_owned();
    object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
    let spec = &mut object["spec"];
    if !items(spec, "finalizers").iter().any(|f| f == "kubernetes") {
        fill(spec, "finalizers", json!([]));
        if let Some(list) = spec["finalizers"].as_array_mut() {
            list.push("kubernetes".into());
        }
    }
}

/// Fills in the address fields of a headless service.
fn fill_headless_addresses(spec: &mut Value) {
    if text(spec, "clusterIP") != "None" {
        return;
    }
    fill(spec, "clusterIPs", json!(["None"]));
    let selects = spec["selector"].as_object().is_some_and(|s| !s.is_empty());
    let asked = text(spec, "ipFamilyPolicy");
    if selects || !asked.is_empty() || given(spec, "ipFamilies").is_some() {
        fill(spec, "ipFamilyPolicy", "SingleStack");
        fill(spec, "ipFamilies", json!(["IPv4"]));
    } else {
        fill(spec, "ipFamilyPolicy", "RequireDualStack");
        fill(spec, "ipFamilies", json!(["IPv4", "IPv6"]));
    }
}

/// Mirrors a claim's `dataSource` and `dataSourceRef` where only one of them is set.
fn mirror_data_source(object: &mut Value) {
    let spec = &mut object["spec"];
    if let Some(source) = given(spec, "dataSource").cloned() {
        fill(spec, "dataSourceRef", source);
    } else if let Some(reference) = given(spec, "dataSourceRef").cloned()
        && given(&reference, "namespace").is_none()
    {
        fill(spec, "dataSource", reference);
    }
}

/// Lets a job without a manual selector select its pods by its uid.
fn select_own_pods(job: &mut Value) {
    if job["spec"]["manualSelector"] == Value::Bool(true) {
        return;
    }
    let uid = text(&job["metadata"], "uid").to_owned();
    let name = text(&job["metadata"], "name").to_owned();
    let labels = &mut job["spec"]["template"]["metadata"]["labels"];
    if labels.is_null() {
        *labels = json!({});
    }
    for (key, value) in [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("job-name", &name),
    ] {
        fill(labels, key, value.as_str());
    }
    let selector = &mut job["spec"]["selector"];
    if selector.is_null() {
        *selector = json!({});
    }
    if selector["matchLabels"].is_null() {
        selector["matchLabels"] = json!({});
    }
    fill(&mut selector["matchLabels"], "batch.kubernetes.io/controller-uid", uid);
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    fill(&mut job["metadata"], "labels", labels);
}

/// Resets the fields that a write to this part may not change, and increases the generation if the desired state changed.
pub fn prepare_update(
    kind: BuiltIn<'_>,
    part: WrittenPart,
    object: &mut Value,
    old: &Value,
    now: &str,
) {
    match part {
        WrittenPart::Main => prepare_main(kind, object, old),
        WrittenPart::Status => prepare_status(kind, object, old, now),
        WrittenPart::Other => {}
    }
    copy(&mut object["metadata"], &old["metadata"], "generation");
    if part != WrittenPart::Status && is_changed(kind, object, old) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
        object["metadata"]["generation"] = (generation + 1).into();
    }
}

fn prepare_main(kind: BuiltIn<'_>, object: &mut Value, old: &Value) {
    if has_status(kind) {
        copy(object, old, "status");
    }
    match (kind.group, kind.kind) {
        ("", "Namespace") => {
            copy(&mut object["spec"], &old["spec"], "finalizers");
            let name = text(&object["metadata"], "name").to_owned();
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
        }
        ("certificates.k8s.io", "CertificateSigningRequest") => copy(object, old, "spec"),
        ("", "PersistentVolumeClaim") => mirror_data_source(object),
        ("", "Service") => keep_addresses(object, old),
        ("apps", "DaemonSet") => count_templates(object, old),
        _ => {}
    }
}

fn count_templates(object: &mut Value, old: &Value) {
    let before =
        text(&old["metadata"]["annotations"], TEMPLATE_GENERATION).parse::<i64>().unwrap_or(1);
    let changed = object["spec"]["template"] != old["spec"]["template"];
    let count = before + i64::from(changed);
    object["metadata"]["annotations"][TEMPLATE_GENERATION] = count.to_string().into();
}

/// Keeps the addresses assigned to a service when a client that does not know them omits them.
fn keep_addresses(object: &mut Value, old: &Value) {
    let (new_spec, old_spec) = (&mut object["spec"], &old["spec"]);
    if text(new_spec, "type") == "ExternalName" || text(old_spec, "type") == "ExternalName" {
        return;
    }
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if let Some(value) = given(old_spec, field) {
            fill(new_spec, field, value.clone());
        }
    }
    if text(new_spec, "type") == "ClusterIP" {
        return;
    }
    let known: Vec<Value> = items(old_spec, "ports").to_vec();
    for port in super::items_mut(new_spec, "ports") {
        let same =
            known.iter().find(|k| k["port"] == port["port"] && k["protocol"] == port["protocol"]);
        if let Some(node_port) = same.and_then(|k| given(k, "nodePort")) {
            fill(port, "nodePort", node_port.clone());
        }
    }
}

fn prepare_status(kind: BuiltIn<'_>, object: &mut Value, old: &Value, now: &str) {
    let fields: Vec<String> = object
        .as_object()
        .into_iter()
        .chain(old.as_object())
        .flat_map(|o| o.keys().cloned())
        .filter(|k| !matches!(k.as_str(), "status" | "metadata" | "kind" | "apiVersion"))
        .collect();
    for field in fields {
        copy(object, old, &field);
    }
    let meta = &mut object["metadata"];
    match (kind.group, kind.kind) {
        ("", "Pod") => {
            copy(meta, &old["metadata"], "ownerReferences");
            copy(&mut object["status"], &old["status"], "qosClass");
        }
        ("apps", "Deployment") => copy(meta, &old["metadata"], "labels"),
        ("", "PersistentVolume") => {
            let moved = object["status"]["phase"] != old["status"]["phase"];
            let status = &mut object["status"];
            let given = given(status, "lastPhaseTransitionTime").cloned();
            let before = &old["status"]["lastPhaseTransitionTime"];
            if !moved && given.is_none() {
                copy(status, &old["status"], "lastPhaseTransitionTime");
            } else if moved && given.is_none_or(|g| g == *before) {
                status["lastPhaseTransitionTime"] = now.into();
            }
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
                copy(meta, &old["metadata"], field);
            }
        }
        _ => {}
    }
}

fn is_changed(kind: BuiltIn<'_>, object: &Value, old: &Value) -> bool {
    let differs = |field: &str| object.get(field) != old.get(field);
    match generation_rule(kind) {
        GenerationRule::Nothing => false,
        GenerationRule::Spec => differs("spec") || deletion_starts(kind, object, old),
        GenerationRule::SpecAndAnnotations => {
            differs("spec") || object["metadata"]["annotations"] != old["metadata"]["annotations"]
        }
        GenerationRule::Content => {
            let keys = object.as_object().into_iter().chain(old.as_object()).flat_map(|o| o.keys());
            keys.filter(|k| !matches!(k.as_str(), "metadata" | "status" | "kind" | "apiVersion"))
                .any(|k| differs(k))
        }
    }
}

fn deletion_starts(kind: BuiltIn<'_>, object: &Value, old: &Value) -> bool {
    // Deleting a daemon set through a write counts as a change.
    kind.kind == "DaemonSet"
        && given(&old["metadata"], "deletionTimestamp").is_none()
        && given(&object["metadata"], "deletionTimestamp").is_some()
}

fn copy(to: &mut Value, from: &Value, field: &str) {
    match from.get(field) {
        Some(value) => to[field] = value.clone(),
        None => {
            take_field(to, field);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPLOYMENT: BuiltIn<'_> = BuiltIn { group: "apps", kind: "Deployment" };

    #[test]
    fn a_new_object_starts_at_generation_one_without_status() {
        let mut object =
            json!({"metadata": {"generation": 9}, "spec": {}, "status": {"replicas": 4}});
        prepare_create(DEPLOYMENT, &mut object, "");
        assert_eq!(object, json!({"metadata": {"generation": 1}, "spec": {}, "status": {}}));
    }

    #[test]
    fn a_write_to_one_part_leaves_the_other_unchanged() {
        let old = json!({"metadata": {"generation": 3}, "spec": {"replicas": 1}, "status": {"replicas": 1}});
        let new = json!({"metadata": {}, "spec": {"replicas": 2}, "status": {"replicas": 2}});
        let mut main = new.clone();
        prepare_update(DEPLOYMENT, WrittenPart::Main, &mut main, &old, "");
        let expected = json!({"metadata": {"generation": 4}, "spec": {"replicas": 2}, "status": {"replicas": 1}});
        assert_eq!(main, expected);
        let mut status = new;
        prepare_update(DEPLOYMENT, WrittenPart::Status, &mut status, &old, "");
        let expected = json!({"metadata": {"generation": 3}, "spec": {"replicas": 1}, "status": {"replicas": 2}});
        assert_eq!(status, expected);
    }

    #[test]
    fn a_job_selects_its_pods_by_its_uid() {
        let mut job =
            json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"metadata": {}}}});
        prepare_create(BuiltIn { group: "batch", kind: "Job" }, &mut job, "");
        let key = "batch.kubernetes.io/controller-uid";
        assert_eq!(job["spec"]["selector"]["matchLabels"], json!({key: "u"}));
        assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "j");
    }
}
