//! Builds the objects of a cluster as an API server returns them, as input of evaluations.

use api::nodes::{ClusterObjects, Pods};
use api::plimsoll::NodeGroup;
use decide::nodes::{
    Cluster, Group, LabelSelector, Labels, Node, Owner, Pod, PodTerm, Resources, Scheduling,
    Workload,
};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1 as core;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The objects of a cluster.
pub(super) struct Objects {
    groups: Vec<NodeGroup>,
    nodes: Vec<core::Node>,
    replica_sets: Vec<ReplicaSet>,
    pods: Vec<core::Pod>,
}

impl Objects {
    /// Builds the objects that a cluster is read from.
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self {
            groups: cluster.groups.iter().map(|g| decoded(group(g))).collect(),
            nodes: cluster.nodes.iter().map(|n| decoded(node(n))).collect(),
            replica_sets: cluster.workloads.iter().map(|w| decoded(replica_set(w))).collect(),
            pods: cluster.pods.iter().map(|p| decoded(pod(p))).collect(),
        }
    }

    /// Returns what decisions read.
    pub(super) fn cluster(&self) -> Cluster {
        let objects = ClusterObjects {
            groups: self.groups.iter().collect(),
            nodes: self.nodes.iter().collect(),
            replica_sets: self.replica_sets.iter().collect(),
            ..ClusterObjects::default()
        };
        let storage = objects.storage();
        let mut pods = Pods::new(&storage);
        let pods = self.pods.iter().map(|pod| pods.read(pod)).collect();
        Cluster { pods, ..objects.cluster() }
    }
}

fn decoded<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("it is an object as Kubernetes has them")
}

fn replica_set(workload: &Workload) -> Value {
    assert_eq!(&*workload.kind, "ReplicaSet", "no other kind is measured");
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": &*workload.name, "namespace": &*workload.namespace},
        "spec": {"replicas": workload.replicas, "selector": {}},
    })
}

fn amounts(of: &Resources) -> Value {
    let amount = |(name, amount): (&str, i64)| match name {
        "cpu" => (name.to_owned(), format!("{amount}m").into()),
        _ => (name.to_owned(), amount.to_string().into()),
    };
    Value::Object(of.iter().map(amount).collect())
}

fn labels(of: &Labels) -> Value {
    Value::Object(of.iter().map(|(k, v)| (k.to_owned(), v.into())).collect())
}

fn group(group: &Group) -> Value {
    let template = group.template.clone().unwrap_or_default();
    json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "NodeGroup", "metadata": {"name": &*group.name},
        "spec": {"max": group.max, "template": {
            "labels": labels(&template.labels), "capacity": amounts(&template.capacity),
        }},
    })
}

fn node(node: &Node) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": &*node.name, "labels": labels(&node.labels),
                     "creationTimestamp": "2025-12-01T00:00:00Z"},
        "spec": {"providerID": format!("cloud://{}", node.name)},
        "status": {
            "capacity": amounts(&node.capacity), "allocatable": amounts(&node.allocatable),
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady",
                            "lastTransitionTime": "2025-12-01T00:01:00Z"}],
        },
    })
}

fn pod(pod: &Pod) -> Value {
    let spec = &pod.spec;
    let mut value = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": &*pod.name, "namespace": &*spec.namespace, "labels": labels(&spec.labels),
            "uid": format!("00000000-0000-0000-0000-{}", pod.name),
            "resourceVersion": "1", "creationTimestamp": "2025-12-31T00:00:00Z",
        },
        "spec": {
            "containers": [{"name": "main", "image": "example.com/app:1.0",
                            "resources": {"requests": amounts(&spec.requests)}}],
            "restartPolicy": "Always", "schedulerName": "default-scheduler",
        },
    });
    if let Some(owner) = &pod.owner {
        value["metadata"]["ownerReferences"] = owner_reference(owner);
    }
    let near = json!({"requiredDuringSchedulingIgnoredDuringExecution": terms(&spec.affinity)});
    let apart =
        json!({"requiredDuringSchedulingIgnoredDuringExecution": terms(&spec.anti_affinity)});
    if !spec.affinity.is_empty() {
        value["spec"]["affinity"] = json!({"podAffinity": near});
    } else if !spec.anti_affinity.is_empty() {
        value["spec"]["affinity"] = json!({"podAntiAffinity": apart});
    }
    if !spec.spread.is_empty() {
        let rules = spec.spread.iter().map(|rule| {
            json!({"topologyKey": &*rule.topology_key, "maxSkew": rule.max_skew,
                   "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector(&rule.selector)})
        });
        value["spec"]["topologySpreadConstraints"] = rules.collect();
    }
    let refused = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
    if let Scheduling::On(node) = &pod.scheduling {
        value["spec"]["nodeName"] = (&**node).into();
        value["status"] = json!({"phase": "Running", "podIP": "10.0.0.1"});
    } else {
        value["status"] = json!({"phase": "Pending", "conditions": refused});
    }
    value
}

fn owner_reference(owner: &Owner) -> Value {
    json!([{"apiVersion": &*owner.api_version, "kind": &*owner.kind, "name": &*owner.name,
            "uid": &*owner.uid, "controller": true}])
}

fn terms(all: &[PodTerm]) -> Value {
    let term = |t: &PodTerm| json!({"topologyKey": &*t.topology_key, "labelSelector": selector(&t.selector)});
    all.iter().map(term).collect()
}

fn selector(of: &LabelSelector) -> Value {
    let label = |r: &decide::nodes::Requirement| (r.key.to_string(), (&*r.values[0]).into());
    json!({"matchLabels": Value::Object(of.requirements.iter().map(label).collect())})
}
