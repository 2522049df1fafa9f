//! The inputs of a decision about nodes, as the journal keeps them: the objects reduced to what the decision reads, with the state of
//! the groups and of the autoscaler that was used, so that `plimsoll evaluate` decides the same.
//!
//! Recorded times are whole seconds. A wait is over strictly after its end, so every time span is rounded up: what was over is over in
//! the record, and what was not is not.

use std::collections::BTreeMap;

use api::plimsoll::node_autoscaler::{self, NodeAutoscalerStatus};
use api::plimsoll::node_group::Options;
use api::plimsoll::{NodeAutoscaler, Span};
use decide::nodes::{
    Answer, Cluster, Effect, GameServerUse, Group, GroupOptions, LastChanges, Resources, Status,
    Template,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};

use super::caches::Snapshot;
use super::fleets;
use super::observe::Observation;

/// The annotation of a recorded NodeAutoscaler: the nodes that rest after a failure, as `node=TIME,node=TIME`.
const RESTING_ANNOTATION: &str = "plimsoll.dev/resting-nodes";
/// The annotation of a recorded NodeAutoscaler: the groups that another process preferred, as `group,group;group`.
const ANSWERS_ANNOTATION: &str = "plimsoll.dev/expander-answers";
/// The annotations that decisions read begin with one of these.
const ANNOTATIONS: [&str; 5] = [
    "cluster-autoscaler.kubernetes.io/",
    "k8s.io/cluster-autoscaler/",
    "capacity.cluster-autoscaler.kubernetes.io/",
    "kubernetes.io/config.mirror",
    "plimsoll.dev/",
];

/// The inputs of a plan.
pub(super) struct Inputs {
    /// The objects.
    pub(super) snapshot: Snapshot,
    /// The game servers of pods, as namespace and name, and how they are used.
    pub(super) game_servers: Vec<(Box<str>, Box<str>, GameServerUse)>,
    /// The demand without pods. It is recorded instead of what it follows from.
    pub(super) virtual_pods: Vec<Pod>,
    /// The groups with the state of their machines.
    pub(super) groups: Vec<Group>,
    /// The state from earlier evaluations.
    pub(super) status: Status,
    /// What another process answered.
    pub(super) answers: Vec<Answer>,
    /// The time of the plan.
    pub(super) now: Timestamp,
}

impl Inputs {
    /// Keeps what a plan is made from.
    pub(super) fn new(snapshot: Snapshot, observed: &mut Observation, now: Timestamp) -> Self {
        Self {
            snapshot,
            game_servers: game_servers(&observed.cluster),
            virtual_pods: std::mem::take(&mut observed.virtual_pods),
            groups: observed.cluster.groups.clone(),
            status: observed.status.clone(),
            answers: observed.answers.clone(),
            now,
        }
    }

    /// Returns the time of the recorded decision, in whole seconds.
    pub(super) fn at(&self) -> Timestamp {
        let past = SignedDuration::from_nanos(i64::from(self.now.subsec_nanosecond()));
        let more = if past.is_zero() { past } else { SignedDuration::from_secs(1) - past };
        self.now.saturating_add(more).unwrap_or(self.now)
    }

    /// Returns the objects.
    pub(super) fn objects(&self, autoscaler: &NodeAutoscaler) -> Vec<Value> {
        let by_name: BTreeMap<&str, &Group> = self.groups.iter().map(|g| (&*g.name, g)).collect();
        let mut objects = self.snapshot.objects(|object| {
            reduce(object);
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            if object["kind"] == "NodeGroup"
                && let Some(group) = by_name.get(name)
            {
                self.overlay(object, group);
            }
        });
        objects.extend(
            self.game_servers.iter().map(|(namespace, name, game_server)| {
                fleets::recorded(namespace, name, *game_server)
            }),
        );
        objects.extend(self.virtual_pods.iter().map(|pod| {
            let mut pod = json!(pod);
            reduce(&mut pod);
            pod
        }));
        objects.push(self.autoscaler(autoscaler));
        objects
    }

    fn autoscaler(&self, autoscaler: &NodeAutoscaler) -> Value {
        let status = &self.status;
        let time = |at: Timestamp| Time(self.shifted(at));
        let recorded = NodeAutoscalerStatus {
            unneeded_since: status
                .unneeded_since
                .iter()
                .map(|(node, at)| (node.to_string(), time(*at)))
                .collect(),
            last_scale_up_at: status.last_scale_up_at.map(time),
            last_delete_at: status.last_delete_at.map(time),
            last_delete_failure_at: status.last_delete_failure_at.map(time),
            groups: last_changes(&status.groups, time),
            removing: status.removing.iter().map(ToString::to_string).collect(),
            conditions: Vec::new(),
        };
        let mut object = json!(autoscaler);
        reduce(&mut object);
        object["status"] = json!(recorded);
        let resting = status.resting.iter();
        let resting: Vec<String> =
            resting.map(|(node, at)| format!("{node}={}", self.shifted(*at))).collect();
        if !resting.is_empty() {
            object["metadata"]["annotations"][RESTING_ANNOTATION] = json!(resting.join(","));
        }
        if !self.answers.is_empty() {
            let answers: Vec<String> = self.answers.iter().map(|groups| groups.join(",")).collect();
            object["metadata"]["annotations"][ANSWERS_ANNOTATION] = json!(answers.join(";"));
        }
        object
    }

    /// Writes the state of a group that the plan was made with.
    fn overlay(&self, object: &mut Value, group: &Group) {
        let status = &group.status;
        let time = |at: Timestamp| json!(Time(self.shifted(at)));
        let mut recorded = Map::new();
        recorded.extend(status.target.map(|target| ("target".to_owned(), json!(target))));
        recorded.extend(status.scale_up.map(|under_way| {
            let scale_up = json!({"at": time(under_way.at), "increase": under_way.increase});
            ("scaleUp".to_owned(), scale_up)
        }));
        recorded.extend(status.backoff_until.map(|at| ("backoffUntil".to_owned(), time(at))));
        recorded.extend(group.is_rolling_out.then(|| ("rollingOut".to_owned(), json!(true))));
        object["status"] = recorded.into();
        object["spec"]["min"] = json!(group.min);
        object["spec"]["allOrNothing"] = json!(group.all_or_nothing);
        object["spec"]["options"] = json!(options(&group.options));
        if let Some(price) = group.price {
            object["spec"]["price"] = json!(price);
        }
        if object["spec"]["template"].is_null()
            && let Some(found) = &group.template
        {
            object["spec"]["template"] = template(found);
        }
    }

    /// Returns a time with the same distance from the recorded time of the decision, in seconds that are rounded up.
    fn shifted(&self, time: Timestamp) -> Timestamp {
        let up = |span: SignedDuration| span.as_secs() + i64::from(span.subsec_nanos() > 0);
        let span = if time > self.now {
            SignedDuration::from_secs(up(time.duration_since(self.now)))
        } else {
            SignedDuration::from_secs(-up(self.now.duration_since(time)))
        };
        self.at().saturating_add(span).unwrap_or(time)
    }
}

/// Returns when the groups were last changed, as a status has it.
pub(super) fn last_changes(
    groups: &BTreeMap<Box<str>, LastChanges>,
    time: impl Fn(Timestamp) -> Time,
) -> BTreeMap<String, node_autoscaler::LastChanges> {
    let read = |last: &LastChanges| node_autoscaler::LastChanges {
        scale_up_at: last.scale_up_at.map(&time),
        delete_at: last.delete_at.map(&time),
        delete_failure_at: last.delete_failure_at.map(&time),
    };
    groups.iter().map(|(group, last)| (group.to_string(), read(last))).collect()
}

/// Returns the game servers of the pods of a cluster, as namespace and name, and how they are used.
fn game_servers(cluster: &Cluster) -> Vec<(Box<str>, Box<str>, GameServerUse)> {
    let used = cluster.pods.iter().filter_map(|pod| {
        let owner = pod.owner.as_ref()?;
        Some((pod.spec.namespace.clone(), owner.name.clone(), pod.game_server?))
    });
    used.collect()
}

/// Reads which nodes a recorded NodeAutoscaler lets rest.
pub(super) fn resting(autoscaler: &NodeAutoscaler) -> BTreeMap<Box<str>, Timestamp> {
    let annotations = autoscaler.metadata.annotations.as_ref();
    let text = annotations.and_then(|all| all.get(RESTING_ANNOTATION));
    let entries = text.into_iter().flat_map(|text| text.split(','));
    let read = |entry: &str| {
        let (node, at) = entry.split_once('=')?;
        Some((node.into(), at.parse::<Timestamp>().ok()?))
    };
    entries.filter_map(read).collect()
}

/// Reads the answers of a recorded NodeAutoscaler.
pub(super) fn answers(autoscaler: &NodeAutoscaler) -> Vec<Answer> {
    let annotations = autoscaler.metadata.annotations.as_ref();
    let text = annotations.and_then(|all| all.get(ANSWERS_ANNOTATION));
    let answers = text.into_iter().flat_map(|text| text.split(';'));
    let groups =
        |answer: &str| answer.split(',').filter(|name| !name.is_empty()).map(Into::into).collect();
    answers.map(groups).collect()
}

fn options(options: &GroupOptions) -> Options {
    Options {
        utilization_threshold: options.utilization_threshold,
        gpu_utilization_threshold: options.gpu_utilization_threshold,
        unneeded_for: options.unneeded_for.map(Span),
        unready_for: options.unready_for.map(Span),
        max_provision_time: options.max_provision_time.map(Span),
        ignore_daemon_sets_utilization: options.ignore_daemon_sets_utilization,
    }
}

fn template(template: &Template) -> Value {
    let labels: BTreeMap<&str, &str> = template.labels.iter().collect();
    let taints: Vec<Value> = template
        .taints
        .iter()
        .map(|taint| {
            let effect = match taint.effect {
                Effect::NoSchedule => "NoSchedule",
                Effect::PreferNoSchedule => "PreferNoSchedule",
                Effect::NoExecute => "NoExecute",
            };
            json!({"key": taint.key, "value": taint.value, "effect": effect})
        })
        .collect();
    let amounts = |all: &Resources| -> BTreeMap<String, String> {
        let text = |name: &str, amount: i64| match name {
            "cpu" => format!("{amount}m"),
            _ => amount.to_string(),
        };
        all.iter().map(|(name, amount)| (name.to_owned(), text(name, amount))).collect()
    };
    json!({
        "labels": labels, "taints": taints,
        "capacity": amounts(&template.capacity), "allocatable": amounts(&template.allocatable),
    })
}

/// Reduces an object to what decisions read.
fn reduce(object: &mut Value) {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    match kind.as_str() {
        "StorageClass" => keep(object, &STORAGE_CLASS),
        _ => keep(object, &["apiVersion", "kind", "metadata", "spec", "status"]),
    }
    metadata(&mut object["metadata"]);
    let (spec, status): (&[&str], &[&str]) = match kind.as_str() {
        "Pod" => (&POD_SPEC, &POD_STATUS),
        "Node" => {
            (&["taints", "unschedulable", "providerID"], &["conditions", "capacity", "allocatable"])
        }
        "PodDisruptionBudget" => (
            &["minAvailable", "maxUnavailable", "selector", "unhealthyPodEvictionPolicy"],
            &["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"],
        ),
        "ReplicaSet" | "StatefulSet" | "ReplicationController" | "DaemonSet" | "Job" => {
            (&["replicas", "selector", "template", "serviceName"], &[])
        }
        "Namespace" => (&[], &[]),
        _ => return special(object, &kind),
    };
    fields(object, "spec", spec);
    fields(object, "status", status);
    if kind == "Pod" {
        pod_spec(&mut object["spec"]);
        container_statuses(&mut object["status"]);
    }
    if let Some(template) = object.pointer_mut("/spec/template").filter(|t| t.is_object()) {
        keep(template, &["metadata", "spec"]);
        fields(template, "metadata", &["labels"]);
        fields(template, "spec", &POD_SPEC);
        pod_spec(&mut template["spec"]);
    }
    let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        keep(condition, &["type", "status", "reason", "lastTransitionTime"]);
    }
}

/// The fields of a StorageClass that decisions read: it has no spec.
const STORAGE_CLASS: [&str; 6] =
    ["apiVersion", "kind", "metadata", "provisioner", "volumeBindingMode", "allowedTopologies"];

/// The fields of a pod's spec that decisions read.
const POD_SPEC: [&str; 17] = [
    "affinity",
    "containers",
    "hostNetwork",
    "initContainers",
    "nodeName",
    "nodeSelector",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "resources",
    "restartPolicy",
    "schedulerName",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
];

/// The fields of a pod's status that decisions read.
const POD_STATUS: [&str; 5] =
    ["phase", "conditions", "nominatedNodeName", "containerStatuses", "initContainerStatuses"];

fn pod_spec(spec: &mut Value) {
    for list in ["containers", "initContainers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            keep(container, &["name", "resources", "ports", "restartPolicy"]);
            container["image"] = json!("redacted");
        }
    }
    spec.as_object_mut().into_iter().for_each(|spec| spec.retain(|_, value| !value.is_null()));
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        let read = ["persistentVolumeClaim", "ephemeral", "hostPath", "emptyDir"];
        keep(volume, &["name", read[0], read[1], read[2], read[3]]);
        if !read.iter().any(|source| volume.get(source).is_some()) {
            volume["configMap"] = json!({"name": "redacted"});
        }
    }
}

/// Reduces the statuses of a pod's containers to their resources, which may differ from those of the spec during a resize.
fn container_statuses(status: &mut Value) {
    for list in ["containerStatuses", "initContainerStatuses"] {
        for container in status[list].as_array_mut().into_iter().flatten() {
            let required = ["name", "ready", "restartCount", "image", "imageID"];
            let names = [required.as_slice(), &["resources", "allocatedResources"]].concat();
            keep(container, &names);
            (container["image"], container["imageID"]) = (json!("redacted"), json!("redacted"));
        }
    }
    status.as_object_mut().into_iter().for_each(|all| all.retain(|_, value| !value.is_null()));
}

/// Reduces objects of kinds with a shape of their own.
fn special(object: &mut Value, kind: &str) {
    match kind {
        "PersistentVolume" => {
            if let Some(csi) = object.pointer_mut("/spec/csi") {
                keep(csi, &["driver", "volumeHandle"]);
            }
            object.as_object_mut().into_iter().for_each(|all| drop(all.remove("status")));
        }
        "NodeGroup" => {
            let provider = object.pointer_mut("/spec/provider").and_then(Value::as_object_mut);
            provider.into_iter().flat_map(Map::values_mut).for_each(|value| *value = json!({}));
            if let Some(annotations) = object.pointer_mut("/spec/template/annotations") {
                retain_annotations(annotations);
            }
        }
        _ => {}
    }
}

/// Keeps some fields of an object.
fn keep(object: &mut Value, names: &[&str]) {
    let fields = object.as_object_mut();
    fields.into_iter().for_each(|fields| fields.retain(|name, _| names.contains(&name.as_str())));
}

/// Keeps some fields of an object within another; without any of them it goes.
fn fields(object: &mut Value, field: &str, names: &[&str]) {
    if let Some(inner) = object.get_mut(field) {
        keep(inner, names);
        if inner.as_object().is_none_or(Map::is_empty) {
            object.as_object_mut().into_iter().for_each(|object| drop(object.remove(field)));
        }
    }
}

fn metadata(meta: &mut Value) {
    let names = [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "labels",
        "annotations",
        "ownerReferences",
    ];
    keep(meta, &names);
    if let Some(annotations) = meta.get_mut("annotations") {
        retain_annotations(annotations);
    }
}

fn retain_annotations(annotations: &mut Value) {
    let is_read = |name: &String| ANNOTATIONS.iter().any(|prefix| name.starts_with(prefix));
    let all = annotations.as_object_mut();
    all.into_iter().for_each(|all| all.retain(|name, _| is_read(name)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_pod_has_what_decisions_read_and_nothing_else() {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "p", "namespace": "n", "resourceVersion": "7", "labels": {"app": "x"},
                "annotations": {
                    "kubectl.kubernetes.io/last-applied-configuration": "secret",
                    "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
                },
            },
            "spec": {
                "nodeName": "a", "serviceAccountName": "secret",
                "containers": [{
                    "name": "c", "image": "secret", "command": ["secret"], "args": ["secret"],
                    "env": [{"name": "A", "value": "secret"}],
                    "resources": {"requests": {"cpu": "1"}},
                }],
                "volumes": [
                    {"name": "s", "secret": {"secretName": "secret"}},
                    {"name": "e", "emptyDir": {}},
                ],
            },
            "status": {
                "phase": "Running", "podIP": "secret",
                "conditions": [{
                    "type": "PodScheduled", "status": "True", "message": "secret",
                }],
                "containerStatuses": [{
                    "name": "c", "ready": true, "restartCount": 0, "image": "secret",
                    "imageID": "secret", "state": {"running": {}},
                    "allocatedResources": {"cpu": "2"},
                }],
            },
        });
        let read = |pod: &Value| {
            let pod = serde_json::from_value(pod.clone()).unwrap();
            format!("{:?}", api::nodes::pod(&pod, &api::nodes::Volumes::default()))
        };
        let whole = read(&pod);
        reduce(&mut pod);
        assert!(!pod.to_string().contains("secret"), "{pod:#}");
        assert_eq!(read(&pod), whole, "it is read as before");
    }

    #[test]
    fn waits_are_as_over_in_the_record_as_they_were() {
        let now: Timestamp = "2026-01-01T00:00:10.3Z".parse().unwrap();
        let inputs = Inputs {
            snapshot: Snapshot::default(),
            game_servers: Vec::new(),
            virtual_pods: Vec::new(),
            groups: Vec::new(),
            status: Status::default(),
            answers: Vec::new(),
            now,
        };
        let limit = SignedDuration::from_secs(5);
        for (since, is_over) in [
            ("2026-01-01T00:00:05Z", true),
            ("2026-01-01T00:00:05.299Z", true),
            ("2026-01-01T00:00:05.3Z", false),
            ("2026-01-01T00:00:06Z", false),
            ("2026-01-01T00:00:10.3Z", false),
        ] {
            let recorded = inputs.shifted(since.parse().unwrap());
            assert_eq!(recorded.subsec_nanosecond(), 0, "{since}");
            assert_eq!(inputs.at().duration_since(recorded) > limit, is_over, "{since}");
        }
        for (until, is_over) in
            [("2026-01-01T00:00:10.3Z", true), ("2026-01-01T00:00:10.301Z", false)]
        {
            let recorded = inputs.shifted(until.parse().unwrap());
            assert_eq!(recorded <= inputs.at(), is_over, "{until}");
        }
    }
}
