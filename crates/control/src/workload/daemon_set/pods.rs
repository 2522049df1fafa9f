//! The pods of a DaemonSet: each is bound to one node and stays there.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration,
};

use super::super::template;
use super::REVISION_LABEL;

/// The template's generation, for clients of the first version.
const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";
const GENERATION_LABEL: &str = "pod-template-generation";

/// The taints of a node in trouble that pods of a DaemonSet tolerate, with their effects.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// Adds the tolerations that every pod of a DaemonSet has.
pub(super) fn with_tolerations(mut spec: PodSpec) -> PodSpec {
    let network = ("node.kubernetes.io/network-unavailable", "NoSchedule");
    let network = (spec.host_network == Some(true)).then_some(network);
    let tolerations = spec.tolerations.get_or_insert_default();
    for (key, effect) in TOLERATED.into_iter().chain(network) {
        let added = Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        if !tolerations.contains(&added) {
            tolerations.push(added);
        }
    }
    spec
}

/// Returns the pod of a node.
pub(super) fn for_node(set: &DaemonSet, node: &str, hash: &str) -> Pod {
    let desired = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let mut pod = template::new_pod(set, &desired);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(REVISION_LABEL.to_owned(), hash.to_owned());
    let generation =
        set.metadata.annotations.as_ref().and_then(|all| all.get(GENERATION_ANNOTATION));
    labels.extend(generation.map(|generation| (GENERATION_LABEL.to_owned(), generation.clone())));
    let mut spec = with_tolerations(pod.spec.unwrap_or_default());
    let affinity = spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
    affinity.required_during_scheduling_ignored_during_execution = Some(NodeSelector {
        node_selector_terms: vec![NodeSelectorTerm {
            match_expressions: None,
            match_fields: Some(vec![NodeSelectorRequirement {
                key: "metadata.name".to_owned(),
                operator: "In".to_owned(),
                values: Some(vec![node.to_owned()]),
            }]),
        }],
    });
    pod.spec = Some(spec);
    pod
}
