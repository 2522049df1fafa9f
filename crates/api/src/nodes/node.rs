//! A node as decisions about nodes see it.

use decide::nodes::Node;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1::CSINode;

use super::{requests, selectors};
use crate::plimsoll::node_group::LABEL;

const SCALE_DOWN_DISABLED: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";

/// Reads a node, with the attach limits of its CSINode.
pub fn node(node: &core::Node, csi: Option<&CSINode>) -> Node {
    let metadata = &node.metadata;
    let spec = node.spec.as_ref();
    let status = node.status.as_ref();
    let conditions = || status.into_iter().flat_map(|s| s.conditions.iter().flatten());
    let is = |kind: &str| conditions().any(|c| c.type_ == kind && c.status == "True");
    let ready = conditions().find(|c| c.type_ == "Ready");
    let capacity = requests::all(status.and_then(|s| s.capacity.as_ref()));
    let allocatable = status.and_then(|s| s.allocatable.as_ref()).filter(|a| !a.is_empty());
    let annotations = metadata.annotations.as_ref();
    Node {
        name: metadata.name.as_deref().unwrap_or_default().into(),
        group: metadata.labels.as_ref().and_then(|l| l.get(LABEL)).map(|g| g.as_str().into()),
        labels: selectors::copy(metadata.labels.as_ref()),
        taints: spec
            .into_iter()
            .flat_map(|s| s.taints.iter().flatten())
            .filter_map(selectors::taint)
            .collect(),
        unschedulable: spec.is_some_and(|s| s.unschedulable == Some(true)),
        is_ready: is("Ready") && !is("DiskPressure") && !is("NetworkUnavailable"),
        ready_changed_at: ready.and_then(|c| c.last_transition_time.as_ref()).map(|t| t.0),
        created_at: metadata.creation_timestamp.as_ref().map(|t| t.0),
        // What is not reserved is allocatable: the API server fills it in.
        allocatable: allocatable.map_or_else(|| capacity.clone(), |a| requests::all(Some(a))),
        capacity,
        volume_limits: volume_limits(csi),
        scale_down_disabled: annotations
            .and_then(|a| a.get(SCALE_DOWN_DISABLED))
            .is_some_and(|v| v == "true"),
    }
}

fn volume_limits(csi: Option<&CSINode>) -> Box<[(Box<str>, u32)]> {
    let drivers = csi.into_iter().flat_map(|c| &c.spec.drivers);
    let limit = drivers.filter_map(|d| {
        let count = d.allocatable.as_ref()?.count?;
        Some((d.name.as_str().into(), u32::try_from(count).ok()?))
    });
    limit.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_is_ready_when_nothing_says_otherwise() {
        for (conditions, is_ready) in [
            (json!([{"type": "Ready", "status": "True"}]), true),
            (json!([{"type": "Ready", "status": "Unknown"}]), false),
            (json!([]), false),
            (
                json!([{"type": "Ready", "status": "True"},
                       {"type": "DiskPressure", "status": "True"}]),
                false,
            ),
            (
                json!([{"type": "Ready", "status": "True"},
                       {"type": "MemoryPressure", "status": "True"}]),
                true,
            ),
        ] {
            let value = json!({"status": {"conditions": conditions, "capacity": {"cpu": "4"}}});
            let read: core::Node = serde_json::from_value(value).unwrap();
            let read_node = node(&read, None);
            assert_eq!(read_node.is_ready, is_ready, "{conditions}");
            assert_eq!(read_node.allocatable.cpu, 4000);
        }
    }

    #[test]
    fn only_the_exact_annotation_keeps_a_node() {
        for (value, is_kept) in [("true", true), ("True", false), ("1", false)] {
            let annotations = json!({SCALE_DOWN_DISABLED: value});
            let read = json!({"metadata": {"annotations": annotations}});
            let read: core::Node = serde_json::from_value(read).unwrap();
            assert_eq!(node(&read, None).scale_down_disabled, is_kept, "{value}");
        }
    }
}
