//! A node of a group: the object that is created, and what a decision knows of it before.

use decide::nodes::Template;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use process::Random;

use super::config::{KwokConfig, TemplateGroup};

const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";
/// The characters of the random end of a name, as Kubernetes chooses them.
const CHARACTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns the providerID of a node; a node that was made by hand may have none.
pub(super) fn instance_id(node: &Node) -> String {
    let id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
    id.unwrap_or_else(|| format!("kwok:{}", node.name_any()))
}

/// Returns what a decision has to know of a new node.
pub(super) fn template(group: &TemplateGroup, config: &KwokConfig) -> Template {
    let mut node = group.node.clone();
    add_taint(&mut node, config);
    let node = api::nodes::node(&node, None);
    Template {
        labels: node.labels,
        taints: node.taints,
        capacity: node.capacity,
        allocatable: node.allocatable,
    }
}

/// Returns a new node of a group, with a random name. Unlike Cluster Autoscaler's, it has its own name as the hostname label.
pub(super) fn object(
    group: &str,
    of: &TemplateGroup,
    config: &KwokConfig,
    random: &Random,
) -> Node {
    let end = (0..5).map(|_| char::from(CHARACTERS[random.below(0..CHARACTERS.len())]));
    let name = format!("{group}-{}", end.collect::<String>());
    let mut node = of.node.clone();
    let (mut labels, mut annotations) = (node.labels().clone(), node.annotations().clone());
    labels.insert(HOSTNAME_LABEL.to_owned(), name.clone());
    let metrics = format!("/metrics/nodes/{name}/metrics/resource");
    annotations.extend(
        [
            ("kwok.x-k8s.io/node", "fake"),
            ("cluster-autoscaler.kwok.nodegroup/name", group),
            ("metrics.k8s.io/resource-metrics-path", metrics.as_str()),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned())),
    );
    let spec = node.spec.get_or_insert_default();
    (spec.provider_id, spec.unschedulable) = (Some(format!("kwok:{name}")), None);
    node.metadata = ObjectMeta {
        name: Some(name),
        labels: Some(labels),
        annotations: Some(annotations),
        ..ObjectMeta::default()
    };
    // KWOK reports the conditions.
    let status = node.status.get_or_insert_default();
    (status.conditions, status.images, status.addresses) = (None, None, None);
    if let Some(info) = &mut status.node_info {
        info.kubelet_version = "fake".to_owned();
    }
    add_taint(&mut node, config);
    node
}

fn add_taint(node: &mut Node, config: &KwokConfig) {
    const KEY: &str = "kwok-provider";
    let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
    if !config.nodes.skip_taint && taints.iter().all(|taint| taint.key != KEY) {
        let (key, effect) = (KEY.to_owned(), "NoSchedule".to_owned());
        taints.push(Taint { key, value: Some("true".to_owned()), effect, time_added: None });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn made(skip_taint: bool) -> Value {
        let template = json!({
            "metadata": {
                "name": "t", "uid": "u", "resourceVersion": "1", "labels": {"pool": "p", "kubernetes.io/hostname": "t"},
                "annotations": {"a": "b"},
            },
            "spec": {"providerID": "x", "taints": [{"key": "gpu", "effect": "NoSchedule"}]},
            "status": {
                "capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"},
                "conditions": [{"type": "Ready", "status": "False"}],
            },
        });
        let node: Node = serde_json::from_value(template).unwrap();
        let text = format!(
            "readNodesFrom: cluster\nnodegroups: {{fromNodeLabelKey: pool}}\nnodes: {{skipTaint: {skip_taint}}}\n"
        );
        let config = KwokConfig::parse(&text).unwrap();
        let group = TemplateGroup { min: 0, max: 1, node };
        json!(object("p", &group, &config, &Random::seeded(1)))
    }

    #[test]
    fn a_node_is_made_from_the_template_with_a_name_of_its_own() {
        let node = made(false);
        let name = node["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with("p-") && name.len() == 7, "{name}");
        assert_eq!(
            node["metadata"],
            json!({
                "name": name, "labels": {"pool": "p", "kubernetes.io/hostname": name},
                "annotations": {
                    "a": "b", "kwok.x-k8s.io/node": "fake", "cluster-autoscaler.kwok.nodegroup/name": "p",
                    "metrics.k8s.io/resource-metrics-path": format!("/metrics/nodes/{name}/metrics/resource"),
                },
            })
        );
        let gpu = json!({"key": "gpu", "effect": "NoSchedule"});
        let kwok = json!({"key": "kwok-provider", "value": "true", "effect": "NoSchedule"});
        let id = format!("kwok:{name}");
        assert_eq!(node["spec"], json!({"providerID": id, "taints": [gpu, kwok]}));
        assert_eq!(node["status"], json!({"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}}));
        let taints = made(true)["spec"]["taints"].clone();
        assert_eq!(taints, json!([gpu]));
    }
}
