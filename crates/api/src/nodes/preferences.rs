//! Preferred node and pod affinity: scheduling preferences that may be violated.

use decide::nodes::{NodeTerm, PodSpec, PodTerm};
use k8s_openapi::api::core::v1 as core;

use super::cluster::namespace_of;
use super::{constraints, selectors};

/// Wishes with their weights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preferences {
    /// To be near such pods.
    pub near: Vec<(i64, PodTerm)>,
    /// To be away from such pods.
    pub apart: Vec<(i64, PodTerm)>,
    /// To be on such a node.
    pub nodes: Vec<(i64, NodeTerm)>,
}

/// Reads what a pod prefers.
pub fn preferences(pod: &core::Pod) -> Preferences {
    let affinity = pod.spec.as_ref().and_then(|s| s.affinity.as_ref());
    let near = affinity.and_then(|a| a.pod_affinity.as_ref());
    let near = near.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
    let apart = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
    let apart = apart.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
    let nodes = affinity.and_then(|a| a.node_affinity.as_ref());
    let nodes = nodes.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
    let node = |t: &core::PreferredSchedulingTerm| {
        (i64::from(t.weight), selectors::node_term(&t.preference))
    };
    Preferences {
        near: terms(near, pod),
        apart: terms(apart, pod),
        nodes: nodes.into_iter().flatten().map(node).collect(),
    }
}

fn terms(
    given: Option<&Vec<core::WeightedPodAffinityTerm>>,
    pod: &core::Pod,
) -> Vec<(i64, PodTerm)> {
    let given = given.map(Vec::as_slice).unwrap_or_default();
    let labels = pod.metadata.labels.as_ref();
    let read = given.iter().map(|t| constraints::term(&t.pod_affinity_term, labels)).collect();
    let mut spec = PodSpec { affinity: read, ..PodSpec::default() };
    constraints::resolve_namespace(&mut spec, namespace_of(&pod.metadata));
    given.iter().map(|t| i64::from(t.weight)).zip(spec.affinity).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn wishes_are_read_with_their_weights_and_the_pods_own_namespace() {
        let term = json!({"topologyKey": "k", "labelSelector": {"matchLabels": {"a": "1"}}});
        let near = json!([{"weight": 100, "podAffinityTerm": term}]);
        let node = json!([{"weight": 7, "preference": {"matchExpressions": [{"key": "z", "operator": "Exists"}]}}]);
        let field = "preferredDuringSchedulingIgnoredDuringExecution";
        let affinity = json!({"podAffinity": {field: near}, "nodeAffinity": {field: node}});
        let pod = json!({"metadata": {"namespace": "n"}, "spec": {"containers": [], "affinity": affinity}});
        let read = preferences(&serde_json::from_value(pod).unwrap());
        assert_eq!((read.near[0].0, &*read.near[0].1.namespaces), (100, &["n".into()][..]));
        assert_eq!((read.nodes[0].0, read.apart.len()), (7, 0));
    }
}
