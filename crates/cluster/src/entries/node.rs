//! The cached part of a node: its addresses for game servers, and whether it is ready for allocations.

use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::CacheEntry;

/// A node.
#[derive(Clone, Debug, Default, Serialize, Deserialize, kube::Resource)]
#[resource(inherit = Node)]
pub struct CachedNode {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// The spec.
    #[serde(default)]
    pub spec: CachedNodeSpec,
    /// The status.
    #[serde(default)]
    pub status: CachedNodeStatus,
}

/// The spec of a node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CachedNodeSpec {
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// The taints.
    pub taints: Vec<Taint>,
}

/// The status of a node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CachedNodeStatus {
    /// The addresses.
    pub addresses: Vec<NodeAddress>,
    /// The condition `Ready`, if it is there.
    pub conditions: Vec<NodeCondition>,
}

impl CachedNode {
    /// Whether nothing marks it as unreachable or not ready. A node without conditions is ready.
    pub fn is_ready(&self) -> bool {
        let is_cut_off = |taint: &Taint| {
            matches!(
                taint.key.as_str(),
                "node.kubernetes.io/unreachable" | "node.kubernetes.io/not-ready"
            )
        };
        let is_unready = |c: &NodeCondition| c.type_ == "Ready" && c.status != "True";
        !self.spec.taints.iter().any(is_cut_off) && !self.status.conditions.iter().any(is_unready)
    }
}

impl CacheEntry for CachedNode {
    type Object = Self;

    fn from_object(mut object: Self) -> Self {
        object.metadata.managed_fields = None;
        object.status.conditions.retain(|condition| condition.type_ == "Ready");
        object
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_node_is_ready_unless_something_says_otherwise() {
        let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
        let taint = |key: &str| json!([{"key": key, "effect": "NoExecute"}]);
        for (taints, conditions, is_ready) in [
            (json!([]), json!([]), true),
            (json!([]), ready("True"), true),
            (json!([]), ready("False"), false),
            (json!([]), ready("Unknown"), false),
            (taint("node.kubernetes.io/unreachable"), ready("True"), false),
            (taint("node.kubernetes.io/not-ready"), json!([]), false),
            (taint("node.kubernetes.io/unschedulable"), ready("True"), true),
        ] {
            let node: Value = json!({
                "metadata": {"name": "n"},
                "spec": {"taints": taints},
                "status": {"conditions": conditions},
            });
            let cached = CachedNode::decode(&node.to_string()).unwrap();
            assert_eq!(cached.is_ready(), is_ready, "{node}");
        }
        let bare = CachedNode::decode(r#"{"metadata": {"name": "n"}}"#).unwrap();
        assert!(bare.is_ready());
    }
}
