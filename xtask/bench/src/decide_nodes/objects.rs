//! The objects of a cluster as an API server gives them, for turns to start from.

use api::nodes::Objects;
use decide::nodes::{
    Cluster, Group, LabelSelector, Labels, Node, Owner, Pod, PodTerm, Resources, Scheduling,
};
use serde_json::{Value, json};

/// Gives a cluster's objects.
pub(super) fn of(cluster: &Cluster) -> Objects {
    let mut all = Objects::default();
    let mut add = |value: Value| all.add(&value).expect("it is an object as Kubernetes has them");
    cluster.groups.iter().for_each(|g| add(group(g)));
    cluster.nodes.iter().for_each(|n| add(node(n)));
    for workload in &cluster.workloads {
        add(json!({
            "apiVersion": "apps/v1", "kind": &*workload.kind,
            "metadata": {"name": &*workload.name, "namespace": &*workload.namespace},
            "spec": {"replicas": workload.replicas, "selector": {}},
        }));
    }
    cluster.pods.iter().for_each(|p| add(pod(p)));
    all
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
