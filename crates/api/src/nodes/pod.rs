//! A pod as decisions about nodes see it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use decide::nodes::{
    DEFAULT_SCHEDULER, Drain, Owner, Pod, PodSpec, Resources, SafeToEvict, Scheduling,
};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::cluster::namespace_of;
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
    Pods::new(storage).read(pod)
}

/// Reads pods one after another. Those of one controller with the same requests share what the scheduler reads.
pub struct Pods<'a> {
    storage: &'a Volumes<'a>,
    /// The latest pod of each controller, by its uid, with what was read.
    latest: HashMap<&'a str, Latest<'a>>,
}

struct Latest<'a> {
    pod: &'a core::Pod,
    spec_view: Arc<PodSpec>,
    owner: Option<Arc<Owner>>,
}

impl<'a> Pods<'a> {
    pub fn new(storage: &'a Volumes<'a>) -> Self {
        Self { storage, latest: HashMap::new() }
    }

    /// Reads a pod.
    pub fn read(&mut self, pod: &'a core::Pod) -> Pod {
        let metadata = &pod.metadata;
        let controller =
            metadata.owner_references.iter().flatten().find(|o| o.controller == Some(true));
        let uid = controller.map_or("", |owner| &owner.uid);
        let requests = pod.spec.as_ref().map(|spec| requests::of_pod(spec, pod.status.as_ref()));
        let requests = requests.unwrap_or_default();
        let like = self
            .latest
            .get(uid)
            .filter(|l| l.spec_view.requests == requests && is_alike(l.pod, pod));
        let (spec_view, owner) = match like {
            Some(latest) => (Arc::clone(&latest.spec_view), latest.owner.clone()),
            None => {
                (Arc::new(self.constraints(pod, requests)), controller.map(|o| Arc::new(owner(o))))
            }
        };
        if like.is_none() {
            let latest = Latest { pod, spec_view: Arc::clone(&spec_view), owner: owner.clone() };
            self.latest.insert(uid, latest);
        }
        let empty = core::PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&empty);
        let annotation = |key: &str| metadata.annotations.as_ref().and_then(|a| a.get(key));
        Pod {
            name: metadata.name.as_deref().unwrap_or_default().into(),
            spec: spec_view,
            scheduling: scheduling(pod, spec),
            priority: spec.priority,
            created_at: metadata.creation_timestamp.as_ref().map(|t| t.0),
            scale_up_delay: annotation(SCALE_UP_DELAY).and_then(|t| crate::duration::parse(t).ok()),
            owner,
            game_server: None,
            drain: drain(pod, spec),
        }
    }

    fn constraints(&self, pod: &core::Pod, requests: Resources) -> PodSpec {
        let empty = core::PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&empty);
        let mut spec_view = constraints::read(spec, pod.metadata.labels.as_ref());
        constraints::resolve_namespace(&mut spec_view, namespace_of(&pod.metadata));
        spec_view.requests = requests;
        let scheduler = spec.scheduler_name.as_deref().filter(|name| *name != DEFAULT_SCHEDULER);
        spec_view.scheduler = scheduler.unwrap_or_default().into();
        spec_view.volumes = volumes::of_pod(pod, spec, self.storage);
        spec_view.terminating = pod.metadata.deletion_timestamp.is_some();
        spec_view
    }
}

/// Returns whether two pods of one controller are the same to the scheduler, apart from their requests. It may say no to
/// pods that are.
fn is_alike(one: &core::Pod, other: &core::Pod) -> bool {
    let (Some(a), Some(b)) = (&one.spec, &other.spec) else { return false };
    let has_volumes = |spec: &core::PodSpec| {
        let mut volumes = spec.volumes.iter().flatten();
        volumes.any(|v| v.persistent_volume_claim.is_some() || v.ephemeral.is_some())
    };
    let takes_ports = |spec: &core::PodSpec| {
        let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
        spec.host_network == Some(true) || ports.any(|port| port.host_port.is_some())
    };
    let is_plain = |spec: &core::PodSpec| !has_volumes(spec) && !takes_ports(spec);
    let (m, n) = (&one.metadata, &other.metadata);
    m.namespace == n.namespace
        && m.labels == n.labels
        && m.owner_references == n.owner_references
        && m.deletion_timestamp.is_some() == n.deletion_timestamp.is_some()
        && a.scheduler_name == b.scheduler_name
        && a.node_selector == b.node_selector
        && a.affinity == b.affinity
        && a.tolerations == b.tolerations
        && a.topology_spread_constraints == b.topology_spread_constraints
        && is_plain(a)
        && is_plain(b)
}

fn owner(owner: &OwnerReference) -> Owner {
    Owner {
        api_version: owner.api_version.as_str().into(),
        kind: owner.kind.as_str().into(),
        name: owner.name.as_str().into(),
        uid: owner.uid.as_str().into(),
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
    let Some(scheduled) = conditions.find(|condition| condition.type_ == "PodScheduled") else {
        return Scheduling::Unprocessed;
    };
    match (&*scheduled.status, scheduled.reason.as_deref().unwrap_or_default()) {
        ("False", "Unschedulable") => Scheduling::Unschedulable,
        ("False", "") => Scheduling::Unprocessed,
        _ => Scheduling::Other,
    }
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
        is_marked_daemon: annotation(DAEMON_SET_POD) == Some("true"),
        safe_to_evict: match annotation(SAFE_TO_EVICT) {
            Some("true") => SafeToEvict::Yes,
            Some("false") => SafeToEvict::No,
            Some("on-completion") => SafeToEvict::OnCompletion,
            _ => SafeToEvict::Unset,
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
            (json!({}), Scheduling::Unprocessed),
            (
                json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}}),
                Scheduling::Unprocessed,
            ),
        ] {
            assert_eq!(read(value.clone()).scheduling, wanted, "{value}");
        }
    }

    #[test]
    fn pods_of_one_controller_share_what_is_the_same_and_nothing_else() {
        let make = |name: &str, app: &str, cpu: &str, more: Value| -> core::Pod {
            let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u",
                                "controller": true}]);
            let mut spec =
                json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]});
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value(json!({
                "metadata": {"name": name, "labels": {"app": app}, "ownerReferences": owner},
                "spec": spec
            }))
            .unwrap()
        };
        let pods = [
            make("a", "x", "1", json!({})),
            make("b", "x", "1", json!({})),
            make("c", "y", "1", json!({})),
            make("d", "y", "2", json!({})),
            make("e", "y", "2", json!({"nodeSelector": {"disk": "ssd"}})),
            make("f", "y", "2", json!({"nodeSelector": {"disk": "ssd"}, "nodeName": "n"})),
        ];
        let storage = Volumes::default();
        let mut reader = Pods::new(&storage);
        let together: Vec<Pod> = pods.iter().map(|pod| reader.read(pod)).collect();
        for (pod, read) in pods.iter().zip(&together) {
            assert_eq!(format!("{read:?}"), format!("{:?}", super::pod(pod, &storage)));
        }
        let shares: Vec<bool> =
            together.windows(2).map(|two| Arc::ptr_eq(&two[0].spec, &two[1].spec)).collect();
        assert_eq!(shares, [true, false, false, false, true]);
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
