//! The target of a scaling policy: its size, and what it is called.

use std::borrow::Borrow;

use api::Problem;
use api::plimsoll::NodeGroup;
use api::plimsoll::node_group::LABEL;
use api::plimsoll::scaling_policy::TargetSpec;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::lister::{Lister, Unreadable};

/// Returns any object by kind, namespace and name, as JSON. The namespace is empty for what lives in none.
pub trait Getter {
    /// Returns the object, if there is one.
    fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value>;
}

/// Returns the requested size of a target; `None` where the target is not among the objects.
pub fn size<W>(target: &TargetSpec, namespace: &str, world: &W) -> Result<Option<i64>, Unreadable>
where
    W: Getter + Lister<NodeGroup> + Lister<Node>,
{
    match (&target.kind, &target.name, &target.node_group) {
        (Some(kind), Some(name), _) => object(kind, namespace, name, world),
        (_, _, Some(group)) => node_group(&group.name, world),
        _ => Ok(None),
    }
}

fn object(
    kind: &str,
    namespace: &str,
    name: &str,
    world: &impl Getter,
) -> Result<Option<i64>, Unreadable> {
    let found = [namespace, ""].into_iter().find_map(|n| Some((n, world.get(kind, n, name)?)));
    let Some((namespace, object)) = found else { return Ok(None) };
    replicas(&object).map(Some).map_err(|problem| Unreadable {
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        problems: vec![problem],
    })
}

/// Reads `spec.replicas`. Kubernetes' workloads have one replica unless they say otherwise.
fn replicas(object: &Value) -> Result<i64, Problem> {
    let replicas = &object["spec"]["replicas"];
    if replicas.is_null() {
        return Ok(1);
    }
    let wrong =
        || Problem::new("spec.replicas", format!("expected a whole number, found {replicas}"));
    replicas.as_i64().ok_or_else(wrong)
}

/// Returns the requested size of a group, or the number of its nodes before the first request.
fn node_group<W>(name: &str, world: &W) -> Result<Option<i64>, Unreadable>
where
    W: Lister<NodeGroup> + Lister<Node>,
{
    for group in Lister::<NodeGroup>::list(world, None) {
        let group = group?;
        let group: &NodeGroup = group.borrow();
        if group.name_any() != name {
            continue;
        }
        if let Some(target) = group.status.as_ref().and_then(|status| status.target) {
            return Ok(Some(i64::from(target)));
        }
        let mut members = 0;
        for node in Lister::<Node>::list(world, None) {
            let node = node?;
            let node: &Node = node.borrow();
            members += i64::from(node.labels().get(LABEL).is_some_and(|group| group == name));
        }
        return Ok(Some(members));
    }
    Ok(None)
}

/// Returns the name of a target as decisions have it.
pub fn reference(target: &TargetSpec, namespace: &str) -> Value {
    if let Some(kind) = &target.kind {
        return json!({"kind": kind, "namespace": namespace, "name": target.name});
    }
    let named = |kind: &str, name: &str| json!({"kind": kind, "name": name});
    if let Some(docker) = &target.docker {
        return named("docker", &docker.service);
    }
    if let Some(nomad) = &target.nomad {
        let namespace = nomad.namespace.as_deref().unwrap_or("default");
        return json!({"kind": "nomad", "namespace": namespace, "name": nomad.job, "group": nomad.group});
    }
    if let Some(rancher) = &target.rancher {
        return named("rancher", &rancher.service);
    }
    if let Some(aws) = &target.aws_autoscaling_group {
        return named("awsAutoscalingGroup", &aws.name);
    }
    if let Some(webhook) = &target.webhook {
        return named("webhook", &webhook.url);
    }
    if let Some(group) = &target.node_group {
        return named("NodeGroup", &group.name);
    }
    named("named", target.named.as_ref().map_or("", |other| &other.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects by kind, namespace and name.
    struct Objects(Vec<(&'static str, &'static str, Value)>);

    impl Getter for Objects {
        fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
            let is_it = |o: &&(&str, &str, Value)| {
                o.0 == kind && o.1 == namespace && o.2["metadata"]["name"] == name
            };
            self.0.iter().find(is_it).map(|o| o.2.clone())
        }
    }

    impl<K: serde::de::DeserializeOwned + kube::Resource<DynamicType = ()>> Lister<K> for Objects {
        type Item = K;

        fn list(&self, _: Option<&str>) -> impl Iterator<Item = Result<K, Unreadable>> {
            let of_kind = self.0.iter().filter(|o| o.0 == K::kind(&()));
            of_kind.map(|o| Ok(serde_json::from_value(o.2.clone()).unwrap()))
        }
    }

    fn object(spec: Value) -> Objects {
        Objects(vec![("Deployment", "ns", json!({"metadata": {"name": "d"}, "spec": spec}))])
    }

    fn target(target: Value) -> TargetSpec {
        serde_json::from_value(target).unwrap()
    }

    #[test]
    fn a_workload_has_its_replicas_and_one_by_default() {
        let web = target(json!({"kind": "Deployment", "name": "d"}));
        assert_eq!(size(&web, "ns", &object(json!({"replicas": 3}))), Ok(Some(3)));
        assert_eq!(size(&web, "ns", &object(json!({}))), Ok(Some(1)));
        assert_eq!(size(&web, "other", &object(json!({}))), Ok(None));
        let error = size(&web, "ns", &object(json!({"replicas": "3"}))).unwrap_err();
        let text =
            "Deployment ns/d cannot be read: spec.replicas: expected a whole number, found \"3\"";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn a_node_group_has_its_target_or_the_nodes_that_are_there() {
        let workers = target(json!({"nodeGroup": {"name": "workers"}}));
        let group = |status: Value| {
            let spec = json!({"min": 0, "max": 9});
            let meta = json!({"name": "workers"});
            let group = json!({
                "apiVersion": "plimsoll.dev/v1alpha1", "kind": "NodeGroup",
                "metadata": meta, "spec": spec, "status": status,
            });
            let node = |group: &str| {
                let meta = json!({"name": "n", "labels": {LABEL: group}});
                ("Node", "", json!({"apiVersion": "v1", "kind": "Node", "metadata": meta}))
            };
            Objects(vec![("NodeGroup", "", group), node("workers"), node("others")])
        };
        assert_eq!(size(&workers, "ns", &group(json!({"target": 4}))), Ok(Some(4)));
        assert_eq!(size(&workers, "ns", &group(json!({}))), Ok(Some(1)));
        assert_eq!(size(&workers, "ns", &Objects(Vec::new())), Ok(None));
    }
}
