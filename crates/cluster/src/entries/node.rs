//! The cached part of a node: its addresses for game servers, and whether it is ready for allocations.

use decide::nodes::{DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer, Serialize};

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
    #[serde(deserialize_with = "null_is_default")]
    pub unschedulable: bool,
    /// The taints.
    #[serde(deserialize_with = "null_is_default")]
    pub taints: Vec<Taint>,
}

/// The status of a node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CachedNodeStatus {
    /// The addresses.
    #[serde(deserialize_with = "null_is_default")]
    pub addresses: Vec<NodeAddress>,
    /// The condition `Ready`, if it is there.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<NodeCondition>,
}

/// Decodes a field that may be `null`, as API clients write empty lists.
fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
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

    /// Returns since when a node autoscaler has marked the node as unneeded.
    pub fn unneeded_since(&self) -> Option<Timestamp> {
        unneeded_since(&self.spec.taints)
    }
}

/// Returns since when a node autoscaler has marked a node with these taints as unneeded, or as being removed. A time that cannot be read
/// counts as long ago.
pub fn unneeded_since(taints: &[Taint]) -> Option<Timestamp> {
    let marks = [DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT];
    let marked = taints.iter().filter(|taint| marks.contains(&taint.key.as_str()));
    let at = |taint: &Taint| {
        let seconds = taint.value.as_deref().and_then(|value| value.parse().ok());
        seconds.and_then(|seconds| Timestamp::from_second(seconds).ok())
    };
    marked.map(|taint| at(taint).unwrap_or(Timestamp::UNIX_EPOCH)).min()
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
    fn a_node_is_ready_unless_a_condition_or_taint_prevents_it() {
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

    #[test]
    fn a_marked_node_has_been_unneeded_since_its_first_mark() {
        let taint =
            |key: &str, value: &str| json!({"key": key, "value": value, "effect": "NoSchedule"});
        let (candidate, removed) = (DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT);
        for (taints, wanted) in [
            (json!([]), None),
            (json!([taint("gpu", "17")]), None),
            (json!([taint(candidate, "17")]), Some(17)),
            (json!([taint(removed, "20"), taint(candidate, "17")]), Some(17)),
            (json!([taint(removed, "soon")]), Some(0)),
        ] {
            let node = json!({"metadata": {"name": "n"}, "spec": {"taints": taints}});
            let cached = CachedNode::decode(&node.to_string()).unwrap();
            assert_eq!(cached.unneeded_since().map(Timestamp::as_second), wanted, "{node}");
        }
    }

    #[test]
    fn a_node_whose_lists_are_null_is_decoded() {
        let node = json!({
            "metadata": {"name": "n"},
            "spec": {"taints": null, "unschedulable": null},
            "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}], "conditions": null},
        });
        let cached = CachedNode::decode(&node.to_string()).unwrap();
        assert!(cached.is_ready() && !cached.spec.unschedulable);
        assert_eq!(cached.status.addresses[0].address, "10.0.0.1");
    }
}
