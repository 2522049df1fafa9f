//! The Node object of a simulated machine.

use api::plimsoll::NodeGroup;
use api::plimsoll::node_group::LABEL;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::flavor::Flavor;

const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";
/// How many pods a node takes where the template does not say.
const DEFAULT_PODS: &str = "110";

/// Makes a Ready node from the template of its group. `address` is any number.
pub(super) fn object(
    group: &NodeGroup,
    flavor: &Flavor,
    name: &str,
    address: u64,
    now: Timestamp,
) -> Result<Node, serde_json::Error> {
    let template = group.spec.template.clone().unwrap_or_default();
    let mut labels = json!(template.labels);
    labels[HOSTNAME_LABEL] = name.into();
    labels[LABEL] = group.name_any().into();
    let mut annotations = json!(template.annotations);
    flavor.mark(&mut labels, &mut annotations);
    let mut capacity = json!(template.capacity);
    if capacity["pods"].is_null() {
        capacity["pods"] = DEFAULT_PODS.into();
    }
    let allocatable = if template.allocatable.is_empty() {
        capacity.clone()
    } else {
        json!(template.allocatable)
    };
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"providerID": flavor.instance_id(name), "taints": template.taints},
        "status": {
            "capacity": capacity, "allocatable": allocatable, "conditions": [ready(now)],
            "addresses": [
                {"type": "InternalIP", "address": ip(address)}, {"type": "Hostname", "address": name},
            ],
        },
    }))
}

fn ready(now: Timestamp) -> Value {
    json!({
        "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "the machine is simulated",
        "lastHeartbeatTime": Time(now), "lastTransitionTime": Time(now),
    })
}

/// Returns an address of a range that neither pods nor other simulated nodes use.
fn ip(number: u64) -> String {
    let [a, b, c, ..] = number.to_le_bytes();
    format!("10.{}.{b}.{c}", 192 + a % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_the_shape_of_the_template_and_the_labels_of_its_group() {
        let group: NodeGroup = serde_json::from_value(json!({
            "metadata": {"name": "pool-a"},
            "spec": {"max": 3, "template": {
                "labels": {"disk": "ssd"}, "annotations": {"a": "b"},
                "taints": [{"key": "gpu", "effect": "NoSchedule"}],
                "capacity": {"cpu": "4", "memory": "16Gi"},
            }},
        }))
        .unwrap();
        let node = json!(
            object(
                &group,
                &super::super::flavor::SIMULATED,
                "pool-a-1",
                0x0003_0241,
                Timestamp::UNIX_EPOCH
            )
            .unwrap()
        );
        assert_eq!(
            node["metadata"]["labels"],
            json!({
                "disk": "ssd", "kubernetes.io/hostname": "pool-a-1", "plimsoll.dev/node-group": "pool-a",
                "plimsoll.dev/simulated": "true",
            })
        );
        assert_eq!(node["spec"]["providerID"], "simulated://pool-a-1");
        assert_eq!(node["spec"]["taints"][0]["key"], "gpu");
        let capacity = json!({"cpu": "4", "memory": "16Gi", "pods": "110"});
        assert_eq!(node["status"]["capacity"], capacity);
        assert_eq!(node["status"]["allocatable"], capacity);
        assert_eq!(node["status"]["addresses"][0]["address"], "10.193.2.3");
    }
}
