//! The requirements of a DaemonSet, and the nodes as it reads them.

use std::collections::BTreeMap;

use decide::workload::daemon::{DaemonNode, Placement};
use k8s_openapi::api::core::v1 as core;

use super::selectors;

/// Reads the requirements of a pod spec.
pub fn daemon_placement(spec: &core::PodSpec) -> Placement {
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    Placement {
        node_name: spec.node_name.as_deref().filter(|name| !name.is_empty()).map(Into::into),
        node_selector: selectors::copy(spec.node_selector.as_ref()),
        node_affinity: required.map(selectors::node_terms),
        tolerations: spec.tolerations.iter().flatten().filter_map(selectors::toleration).collect(),
    }
}

/// Reads a node.
pub fn daemon_node(
    name: &str,
    labels: Option<&BTreeMap<String, String>>,
    taints: &[core::Taint],
) -> DaemonNode {
    DaemonNode {
        name: name.into(),
        labels: selectors::copy(labels),
        taints: taints.iter().filter_map(selectors::taint).collect(),
    }
}
