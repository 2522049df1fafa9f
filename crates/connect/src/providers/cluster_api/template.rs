//! The node that a group would add, before it has one: from annotations, the infrastructure template, and labels of another node.

use std::collections::BTreeMap;

use api::plimsoll::node_group;
use api::quantity::Quantity as Amount;
use decide::nodes::{GroupOptions, Template};
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::objects::{Infrastructure, Scalable};
use super::settings::Settings;
use crate::providers::described;

/// The prefix of the annotations that describe a node.
const CAPACITY: &str = "capacity.cluster-autoscaler.kubernetes.io/";
/// The prefix with which a NodeGroup has settings of its own as annotations.
const OPTIONS: &str = "k8s.io/cluster-autoscaler/node-template/autoscaling-options/";
/// How many pods a node takes where nothing says so.
const DEFAULT_PODS: &str = "110";
const ARCHITECTURE: &str = "kubernetes.io/arch";
const SYSTEM: &str = "kubernetes.io/os";
/// The labels that a new node shares with the other nodes of its group.
const SHARED_LABELS: [&str; 5] = [
    ARCHITECTURE,
    SYSTEM,
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// What an object says about the nodes of its group.
pub(super) struct Described {
    /// The new node; `None` unless its cpu and memory are known.
    pub(super) template: Option<Template>,
    pub(super) options: GroupOptions,
    /// What cannot be read.
    pub(super) problems: Vec<String>,
}

/// Describes the nodes of a group.
pub(super) fn describe(
    object: &Scalable,
    infrastructure: Option<&Infrastructure>,
    node_labels: Option<&BTreeMap<String, String>>,
    settings: &Settings,
) -> Described {
    let mut problems = Vec::new();
    let capacity = capacity(object, infrastructure, &mut problems);
    let template = node_group::Template {
        labels: labels(object, infrastructure, node_labels, settings),
        taints: taints(object, &mut problems),
        capacity,
        ..node_group::Template::default()
    };
    let prefix = settings.key("autoscaling-options-");
    let options = object.metadata.annotations.iter().filter_map(|(key, value)| {
        Some((format!("{OPTIONS}{}", key.strip_prefix(&prefix)?), value.clone()))
    });
    let group = described::node_group(template, options.collect());
    problems.extend(api::nodes::annotation_problems(&group).into_iter().map(|problem| {
        let key = problem.path.trim_start_matches("metadata.annotations[").trim_end_matches(']');
        format!("annotation {}: {}", key.replacen(OPTIONS, &prefix, 1), problem.message)
    }));
    let (template, options) = described::read(&group);
    Described { template, options, problems }
}

/// Returns the capacity: that of the infrastructure template, and the annotations in its place.
fn capacity(
    object: &Scalable,
    infrastructure: Option<&Infrastructure>,
    problems: &mut Vec<String>,
) -> BTreeMap<String, Quantity> {
    let mut capacity = BTreeMap::from([("pods".to_owned(), Quantity(DEFAULT_PODS.to_owned()))]);
    capacity.extend(infrastructure.into_iter().flat_map(|it| it.status.capacity.clone()));
    let gpu = object.metadata.annotation(&format!("{CAPACITY}gpu-type")).unwrap_or_default();
    for (name, resource) in [
        ("cpu", "cpu"),
        ("memory", "memory"),
        ("ephemeral-disk", "ephemeral-storage"),
        ("maxPods", "pods"),
        ("gpu-count", gpu),
    ] {
        let key = format!("{CAPACITY}{name}");
        let value = object.metadata.annotation(&key).filter(|value| !value.is_empty());
        let Some(value) = value.filter(|_| !resource.is_empty()) else { continue };
        match Amount::parse_with_hint(value) {
            Ok(amount) if amount.is_negative() => {
                problems.push(format!("annotation {key}: must not be negative"));
            }
            Ok(amount) if amount.is_zero() => {}
            Ok(_) => drop(capacity.insert(resource.to_owned(), Quantity(value.to_owned()))),
            Err(problem) => problems.push(format!("annotation {key}: {problem}")),
        }
    }
    capacity
}

/// Returns the labels; what comes later takes precedence.
fn labels(
    object: &Scalable,
    infrastructure: Option<&Infrastructure>,
    node_labels: Option<&BTreeMap<String, String>>,
    settings: &Settings,
) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let mut set = |key: &str, value: &str| drop(labels.insert(key.to_owned(), value.to_owned()));
    set(ARCHITECTURE, &settings.architecture);
    set(SYSTEM, "linux");
    if let Some(info) = infrastructure.map(|it| &it.status.node_info) {
        for (key, value) in [(ARCHITECTURE, &info.architecture), (SYSTEM, &info.operating_system)] {
            if !value.is_empty() {
                set(key, value);
            }
        }
    }
    // Cluster API sets these labels of its Machines on their Nodes as well.
    let managed = object.spec.template.metadata.labels.iter().filter(|(key, _)| is_managed(key));
    managed.for_each(|(key, value)| set(key, value));
    let annotated = object.metadata.annotation(&format!("{CAPACITY}labels")).unwrap_or_default();
    for (key, value) in annotated.split(',').filter_map(|pair| pair.split_once('=')) {
        set(key.trim(), value.trim());
    }
    for (key, value) in node_labels.into_iter().flatten() {
        if SHARED_LABELS.contains(&key.as_str()) {
            set(key, value);
        }
    }
    labels
}

/// Whether Cluster API copies a label from a Machine to its Node.
fn is_managed(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let is_of = |parent: &str| {
        domain == parent || domain.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'))
    };
    domain == "node-role.kubernetes.io"
        || is_of("node-restriction.kubernetes.io")
        || is_of("node.cluster.x-k8s.io")
}

/// Returns the taints of the object; those of the annotation take precedence over others of the same key and effect.
fn taints(object: &Scalable, problems: &mut Vec<String>) -> Vec<Taint> {
    let mut taints = object.spec.template.spec.taints.clone();
    let key = format!("{CAPACITY}taints");
    let annotated = object.metadata.annotation(&key).unwrap_or_default();
    for text in annotated.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        let Some(taint) = taint(text) else {
            problems.push(format!(
                "annotation {key}: `{text}` is not a taint; write it like `key=value:NoSchedule`"
            ));
            continue;
        };
        taints.retain(|other| (&other.key, &other.effect) != (&taint.key, &taint.effect));
        taints.push(taint);
    }
    taints
}

/// Reads `key=value:effect` or `key:effect`.
fn taint(text: &str) -> Option<Taint> {
    let (name, effect) = text.rsplit_once(':')?;
    let (key, value) = name.split_once('=').unwrap_or((name, ""));
    let is_known = ["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect);
    let taint = || Taint {
        key: key.to_owned(),
        value: Some(value.to_owned()),
        effect: effect.to_owned(),
        time_added: None,
    };
    (is_known && !key.is_empty()).then(taint)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(annotations: Value, template: Value) -> Scalable {
        let metadata = json!({"name": "m", "namespace": "n", "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"template": template}}))
            .unwrap()
    }

    fn infrastructure(status: Value) -> Infrastructure {
        serde_json::from_value(json!({"metadata": {"name": "i"}, "status": status})).unwrap()
    }

    #[test]
    fn annotations_take_precedence_over_the_infrastructure_template() {
        let infrastructure = infrastructure(json!({
            "capacity": {"cpu": "2", "memory": "4Gi", "pods": "29"},
            "nodeInfo": {"architecture": "arm64"},
        }));
        let plain = object(json!({}), json!({}));
        let found = describe(&plain, Some(&infrastructure), None, &Settings::default());
        let template = found.template.unwrap();
        let sizes = |template: &Template| {
            let capacity = &template.capacity;
            (capacity.cpu, capacity.memory >> 30, capacity.pods)
        };
        assert_eq!(sizes(&template), (2000, 4, 29));
        assert_eq!(template.labels.get("kubernetes.io/arch"), Some("arm64"));
        let annotated = object(
            json!({
                "capacity.cluster-autoscaler.kubernetes.io/cpu": "8",
                "capacity.cluster-autoscaler.kubernetes.io/maxPods": "50",
                "capacity.cluster-autoscaler.kubernetes.io/gpu-count": "2",
                "capacity.cluster-autoscaler.kubernetes.io/gpu-type": "nvidia.com/gpu",
                "capacity.cluster-autoscaler.kubernetes.io/labels": "disk=ssd,zone=a",
            }),
            json!({}),
        );
        let found = describe(&annotated, Some(&infrastructure), None, &Settings::default());
        let template = found.template.unwrap();
        assert_eq!(sizes(&template), (8000, 4, 50));
        assert_eq!(template.allocatable.get("nvidia.com/gpu"), 2);
        assert_eq!(template.labels.get("disk"), Some("ssd"));
        // Memory is not known.
        assert!(describe(&annotated, None, None, &Settings::default()).template.is_none());
    }

    #[test]
    fn only_labels_that_cluster_api_sets_on_nodes_are_those_of_the_template() {
        let template = json!({"metadata": {"labels": {
            "node-role.kubernetes.io/worker": "", "gpu.node.cluster.x-k8s.io/kind": "a100",
            "node.cluster.x-k8s.io/pool": "x", "evilnode.cluster.x-k8s.io/pool": "y", "team": "z",
        }}});
        let labels = |node: &Value| -> BTreeMap<String, String> {
            serde_json::from_value(node.clone()).unwrap()
        };
        let node = labels(&json!({"topology.kubernetes.io/zone": "eu-1", "team": "other"}));
        let annotations = json!({
            "capacity.cluster-autoscaler.kubernetes.io/cpu": "1",
            "capacity.cluster-autoscaler.kubernetes.io/memory": "1Gi",
        });
        let object = object(annotations, template);
        let found = describe(&object, None, Some(&node), &Settings::default()).template.unwrap();
        let found: BTreeMap<_, _> = found.labels.iter().collect();
        let wanted = [
            ("gpu.node.cluster.x-k8s.io/kind", "a100"),
            ("kubernetes.io/arch", "amd64"),
            ("kubernetes.io/os", "linux"),
            ("node-role.kubernetes.io/worker", ""),
            ("node.cluster.x-k8s.io/pool", "x"),
            ("topology.kubernetes.io/zone", "eu-1"),
        ];
        assert_eq!(found, BTreeMap::from(wanted));
    }

    #[test]
    fn annotated_taints_replace_those_of_the_same_key_and_effect() {
        let template = json!({"spec": {"taints": [
            {"key": "gpu", "value": "no", "effect": "NoSchedule", "propagation": "Always"},
            {"key": "gpu", "value": "no", "effect": "NoExecute", "propagation": "Always"},
        ]}});
        let key = "capacity.cluster-autoscaler.kubernetes.io/taints";
        let object = object(json!({key: "gpu=yes:NoSchedule,spot:NoExecute,bad"}), template);
        let mut problems = Vec::new();
        let found = taints(&object, &mut problems);
        let found: Vec<_> =
            found.iter().map(|t| format!("{}={:?}:{}", t.key, t.value, t.effect)).collect();
        let wanted = [
            "gpu=Some(\"no\"):NoExecute",
            "gpu=Some(\"yes\"):NoSchedule",
            "spot=Some(\"\"):NoExecute",
        ];
        assert_eq!(found, wanted);
        assert_eq!(
            problems,
            [format!(
                "annotation {key}: `bad` is not a taint; write it like `key=value:NoSchedule`"
            )]
        );
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let object = object(
            json!({
                "capacity.cluster-autoscaler.kubernetes.io/cpu": "four",
                "cluster.x-k8s.io/autoscaling-options-scaledownunneededtime": "2m",
                "cluster.x-k8s.io/autoscaling-options-scaledownutilizationthreshold": "half",
            }),
            json!({}),
        );
        let found = describe(&object, None, None, &Settings::default());
        assert_eq!(found.options.unneeded_for, Some(jiff::SignedDuration::from_mins(2)));
        let wanted = [
            "annotation capacity.cluster-autoscaler.kubernetes.io/cpu: `four` is not a quantity; write it like `500m`, `2`, `1.5`, `16Gi` or `1e3`",
            "annotation cluster.x-k8s.io/autoscaling-options-scaledownutilizationthreshold: `half` is not a number",
        ];
        assert_eq!(found.problems, wanted);
    }
}
