//! Nodes and pods in Kubernetes' own protobuf encoding, without its prefix.

use std::collections::BTreeMap;

use decide::nodes::{Effect, Resources, Template};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as CoreQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta as CoreMeta;

use super::core_v1::{
    Container, Node, NodeCondition, NodeSpec, NodeStatus, ObjectMeta, Pod, PodSpec, Quantity,
    ResourceRequirements, Taint, Toleration,
};

impl Node {
    /// Reads the template of a new node from an example of one.
    pub fn template(self) -> Template {
        let spec = self.spec.unwrap_or_default();
        let status = self.status.unwrap_or_default();
        let taint = |taint: Taint| core::Taint {
            key: taint.key,
            value: Some(taint.value),
            effect: taint.effect,
            time_added: None,
        };
        let example = core::Node {
            metadata: CoreMeta {
                labels: self.metadata.map(|metadata| metadata.labels),
                ..CoreMeta::default()
            },
            spec: Some(core::NodeSpec {
                taints: Some(spec.taints.into_iter().map(taint).collect()),
                ..core::NodeSpec::default()
            }),
            status: Some(core::NodeStatus {
                capacity: Some(core_quantities(status.capacity)),
                allocatable: Some(core_quantities(status.allocatable)),
                ..core::NodeStatus::default()
            }),
        };
        let node = api::nodes::node(&example, None);
        Template {
            labels: node.labels,
            taints: node.taints,
            capacity: node.capacity,
            allocatable: node.allocatable,
        }
    }

    /// Returns an example of a new node: ready, and with the shape of a template.
    pub fn example(name: &str, template: &Template) -> Self {
        let taint = |taint: &decide::nodes::Taint| Taint {
            key: taint.key.to_string(),
            value: taint.value.to_string(),
            effect: effect(taint.effect).to_owned(),
        };
        let labels = template.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        let ready = NodeCondition { r#type: "Ready".to_owned(), status: "True".to_owned() };
        Self {
            metadata: Some(ObjectMeta {
                name: name.to_owned(),
                labels: labels.collect(),
                ..ObjectMeta::default()
            }),
            spec: Some(NodeSpec {
                taints: template.taints.iter().map(taint).collect(),
                ..NodeSpec::default()
            }),
            status: Some(NodeStatus {
                capacity: amounts(&template.capacity),
                allocatable: amounts(&template.allocatable),
                conditions: vec![ready],
            }),
        }
    }
}

fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::NoSchedule => "NoSchedule",
        Effect::PreferNoSchedule => "PreferNoSchedule",
        Effect::NoExecute => "NoExecute",
    }
}

fn core_quantities(quantities: BTreeMap<String, Quantity>) -> BTreeMap<String, CoreQuantity> {
    quantities.into_iter().map(|(name, quantity)| (name, CoreQuantity(quantity.string))).collect()
}

fn amounts(resources: &Resources) -> BTreeMap<String, Quantity> {
    let quantity = |name: &str, amount: i64| match name {
        "cpu" if amount % 1000 != 0 => format!("{amount}m"),
        "cpu" => (amount / 1000).to_string(),
        _ => amount.to_string(),
    };
    let named = |(name, amount): (&str, i64)| {
        (name.to_owned(), Quantity { string: quantity(name, amount) })
    };
    resources.iter().map(named).collect()
}

/// Keeps what expanders judge a pod by: its name and labels, requests, node selector, tolerations and priority.
impl From<&core::Pod> for Pod {
    fn from(pod: &core::Pod) -> Self {
        let metadata = &pod.metadata;
        Self {
            metadata: Some(ObjectMeta {
                name: metadata.name.clone().unwrap_or_default(),
                namespace: metadata.namespace.clone().unwrap_or_default(),
                uid: metadata.uid.clone().unwrap_or_default(),
                labels: metadata.labels.clone().unwrap_or_default(),
                annotations: metadata.annotations.clone().unwrap_or_default(),
                creation_timestamp: None,
            }),
            spec: pod.spec.as_ref().map(PodSpec::from),
        }
    }
}

impl From<&core::PodSpec> for PodSpec {
    fn from(spec: &core::PodSpec) -> Self {
        let toleration = |toleration: &core::Toleration| Toleration {
            key: toleration.key.clone().unwrap_or_default(),
            operator: toleration.operator.clone().unwrap_or_default(),
            value: toleration.value.clone().unwrap_or_default(),
            effect: toleration.effect.clone().unwrap_or_default(),
        };
        Self {
            containers: spec.containers.iter().map(Container::from).collect(),
            init_containers: spec.init_containers.iter().flatten().map(Container::from).collect(),
            node_selector: spec.node_selector.clone().unwrap_or_default(),
            tolerations: spec.tolerations.iter().flatten().map(toleration).collect(),
            priority_class_name: spec.priority_class_name.clone().unwrap_or_default(),
            priority: spec.priority,
        }
    }
}

impl From<&core::Container> for Container {
    fn from(container: &core::Container) -> Self {
        let quantities = |all: &Option<BTreeMap<String, CoreQuantity>>| {
            let all = all.iter().flatten();
            all.map(|(name, CoreQuantity(text))| (name.clone(), Quantity { string: text.clone() }))
                .collect()
        };
        Self {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            resources: container.resources.as_ref().map(|resources| ResourceRequirements {
                limits: quantities(&resources.limits),
                requests: quantities(&resources.requests),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message as _;

    #[test]
    fn a_template_is_the_same_after_a_round_trip() {
        let template = Template {
            labels: [("disk", "ssd")].into_iter().collect(),
            taints: [decide::nodes::Taint {
                key: "gpu".into(),
                value: "true".into(),
                effect: Effect::NoSchedule,
            }]
            .into(),
            capacity: [("cpu", 4000), ("memory", 1 << 34), ("nvidia.com/gpu", 1)]
                .into_iter()
                .collect(),
            allocatable: [("cpu", 3920), ("memory", 1 << 33), ("pods", 110)].into_iter().collect(),
        };
        let bytes = Node::example("pool-a", &template).encode_to_vec();
        let read = Node::decode(bytes.as_slice()).unwrap().template();
        assert_eq!(format!("{read:?}"), format!("{template:?}"));
    }

    #[test]
    fn kubernetes_own_encoding_of_a_node_is_read() {
        // {metadata: {name: n, labels: {a: b}}, spec: {podCIDR: x, taints: [{key: k, effect: NoExecute}]},
        // status: {capacity: {cpu: 2}, phase: p}}, as Go writes it.
        let node = b"\x0a\x0b\x0a\x01n\x5a\x06\x0a\x01a\x12\x01b\
            \x12\x15\x0a\x01x\x2a\x10\x0a\x01k\x12\x00\x1a\x09NoExecute\
            \x1a\x0f\x0a\x0a\x0a\x03cpu\x12\x03\x0a\x012\x1a\x01p";
        let template = Node::decode(node.as_slice()).unwrap().template();
        assert_eq!(template.labels.get("a"), Some("b"));
        assert_eq!((&*template.taints[0].key, template.taints[0].effect), ("k", Effect::NoExecute));
        assert_eq!((template.capacity.cpu, template.allocatable.cpu), (2000, 2000));
    }
}
