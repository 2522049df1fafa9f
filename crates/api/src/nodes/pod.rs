//! A pod as decisions about nodes see it.

use std::collections::BTreeMap;
use std::sync::Arc;

use decide::nodes::{Drain, Owner, Pod, SafeToEvict, Scheduling};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1::StorageClass;

use super::objects::namespace_of;
use super::{constraints, requests, volumes};

const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
const SAFE_VOLUMES: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";
const DAEMON_SET_POD: &str = "cluster-autoscaler.kubernetes.io/daemonset-pod";
const SCALE_UP_DELAY: &str = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay";
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The storage that pods refer to by name.
#[derive(Default)]
pub struct Volumes<'a> {
    /// By namespace and name.
    pub claims: BTreeMap<(&'a str, &'a str), &'a core::PersistentVolumeClaim>,
    /// By name.
    pub volumes: BTreeMap<&'a str, &'a core::PersistentVolume>,
    /// By name.
    pub classes: BTreeMap<&'a str, &'a StorageClass>,
}

/// Reads a pod.
pub fn pod(pod: &core::Pod, storage: &Volumes<'_>) -> Pod {
    let metadata = &pod.metadata;
    let empty = core::PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&empty);
    let mut seen = constraints::of(spec, metadata.labels.as_ref());
    if pod.status.is_some() {
        seen.requests = requests::of(spec, pod.status.as_ref());
    }
    constraints::settle_namespace(&mut seen, namespace_of(metadata));
    seen.volumes = volumes::of(pod, spec, storage);
    seen.terminating = metadata.deletion_timestamp.is_some();
    let annotation = |key: &str| metadata.annotations.as_ref().and_then(|a| a.get(key));
    let controller =
        metadata.owner_references.iter().flatten().find(|o| o.controller == Some(true));
    Pod {
        name: metadata.name.as_deref().unwrap_or_default().into(),
        spec: Arc::new(seen),
        scheduling: scheduling(pod, spec),
        priority: spec.priority,
        created_at: metadata.creation_timestamp.as_ref().map(|t| t.0),
        scale_up_delay: annotation(SCALE_UP_DELAY).and_then(|t| crate::duration::parse(t).ok()),
        owner: controller.map(|o| {
            Arc::new(Owner {
                api_version: o.api_version.as_str().into(),
                kind: o.kind.as_str().into(),
                name: o.name.as_str().into(),
                uid: o.uid.as_str().into(),
            })
        }),
        drain: drain(pod, spec),
    }
}

fn scheduling(pod: &core::Pod, spec: &core::PodSpec) -> Scheduling {
    if is_finished(pod) {
        return Scheduling::Other;
    }
    let set = |text: Option<&String>| text.filter(|t| !t.is_empty()).map(|t| t.as_str().into());
    if let Some(node) = set(spec.node_name.as_ref()) {
        return Scheduling::On(node);
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return Scheduling::Other;
    }
    let status = pod.status.as_ref();
    if let Some(node) = set(status.and_then(|s| s.nominated_node_name.as_ref())) {
        return Scheduling::Nominated(node);
    }
    let mut conditions = status.into_iter().flat_map(|s| s.conditions.iter().flatten());
    let is_refused = conditions.any(|c| {
        c.type_ == "PodScheduled"
            && c.status == "False"
            && c.reason.as_deref() == Some("Unschedulable")
    });
    if is_refused { Scheduling::Unschedulable } else { Scheduling::Other }
}

fn is_finished(pod: &core::Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn drain(pod: &core::Pod, spec: &core::PodSpec) -> Drain {
    let annotation =
        |key: &str| pod.metadata.annotations.as_ref().and_then(|a| a.get(key)).map(String::as_str);
    // The names are compared as written: a space after a comma is part of a name.
    let is_safe = |volume: &core::Volume| {
        annotation(SAFE_VOLUMES).is_some_and(|list| list.split(',').any(|name| name == volume.name))
    };
    let is_local = |volume: &&core::Volume| {
        let empty_dir = volume.empty_dir.as_ref();
        volume.host_path.is_some()
            || empty_dir.is_some_and(|e| e.medium.as_deref() != Some("Memory"))
    };
    Drain {
        is_mirror: annotation(MIRROR).is_some(),
        is_finished: is_finished(pod),
        says_daemon: annotation(DAEMON_SET_POD) == Some("true"),
        safe_to_evict: match annotation(SAFE_TO_EVICT) {
            Some("true") => SafeToEvict::Yes,
            Some("false") => SafeToEvict::No,
            Some("on-completion") => SafeToEvict::OnCompletion,
            _ => SafeToEvict::Unsaid,
        },
        has_local_storage: spec.volumes.iter().flatten().filter(is_local).any(|v| !is_safe(v)),
        deletes_at: pod.metadata.deletion_timestamp.as_ref().map(|t| t.0),
        grace: spec.termination_grace_period_seconds.map(SignedDuration::from_secs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(value: Value) -> Pod {
        let read: core::Pod = serde_json::from_value(value).unwrap();
        pod(&read, &Volumes::default())
    }

    #[test]
    fn a_pod_is_where_the_first_rule_that_holds_says() {
        let refused =
            json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
        let gated =
            json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);
        let gone = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        for (value, wanted) in [
            (json!({"spec": {"containers": [], "nodeName": "n"}}), Scheduling::On("n".into())),
            (
                json!({"spec": {"containers": [], "nodeName": "n"}, "status": {"phase": "Failed"}}),
                Scheduling::Other,
            ),
            (
                json!({"metadata": gone, "spec": {"containers": [], "nodeName": "n"}}),
                Scheduling::On("n".into()),
            ),
            (json!({"metadata": gone, "status": {"nominatedNodeName": "n"}}), Scheduling::Other),
            (
                json!({"status": {"nominatedNodeName": "n", "conditions": refused}}),
                Scheduling::Nominated("n".into()),
            ),
            (json!({"status": {"conditions": refused}}), Scheduling::Unschedulable),
            (json!({"status": {"conditions": gated}}), Scheduling::Other),
            (json!({}), Scheduling::Other),
        ] {
            assert_eq!(read(value.clone()).scheduling, wanted, "{value}");
        }
    }

    #[test]
    fn local_storage_is_what_would_be_lost() {
        for (volume, safe, is_local) in [
            (json!({"name": "v", "hostPath": {"path": "/"}}), "", true),
            (json!({"name": "v", "emptyDir": {}}), "", true),
            (json!({"name": "v", "emptyDir": {"medium": "Memory"}}), "", false),
            (json!({"name": "v", "configMap": {"name": "c"}}), "", false),
            (json!({"name": "v", "emptyDir": {}}), "w,v", false),
            (json!({"name": "v", "emptyDir": {}}), "w, v", true),
            (json!({"name": "v", "emptyDir": {}}), "w", true),
        ] {
            let value = json!({
                "metadata": {"annotations": {SAFE_VOLUMES: safe}},
                "spec": {"containers": [], "volumes": [volume]}
            });
            assert_eq!(read(value.clone()).drain.has_local_storage, is_local, "{value}");
        }
    }

    #[test]
    fn terms_without_namespaces_are_about_the_pods_own() {
        let term = |more: Value| {
            let mut term = json!({"topologyKey": "k", "labelSelector": {}});
            term.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
            let spec = json!({"containers": [], "affinity": {"podAffinity": affinity}});
            let pod = read(json!({
                "metadata": {"namespace": "mine", "labels": {"a": "1", "b": "2"}}, "spec": spec
            }));
            pod.spec.affinity[0].clone()
        };
        assert_eq!(*term(json!({})).namespaces, ["mine".into()]);
        assert_eq!(*term(json!({"namespaces": ["b", "a"]})).namespaces, ["a".into(), "b".into()]);
        let all = term(json!({"namespaceSelector": {}}));
        assert!(all.namespaces.is_empty() && all.namespace_selector.unwrap().is_empty());
        let keys = term(json!({"matchLabelKeys": ["a", "absent"], "mismatchLabelKeys": ["b"]}));
        assert_eq!(keys.selector.requirements.len(), 2);
    }
}
