//! How large is the target of a policy now, and what is it called?

use api::plimsoll::node_group::LABEL;
use api::plimsoll::scaling_policy::TargetSpec;
use serde_json::{Value, json};

use super::super::world::World;

/// Gives the size that the target was asked to have, from the target itself or from the command line.
pub(super) fn size(target: &TargetSpec, namespace: &str, world: &World) -> Option<i64> {
    let found = match (&target.kind, &target.name, &target.node_group) {
        (Some(kind), Some(name), _) => object(kind, namespace, name, world),
        (_, _, Some(group)) => node_group(&group.name, world),
        _ => None,
    };
    found.or(world.count.map(i64::from))
}

fn object(kind: &str, namespace: &str, name: &str, world: &World) -> Option<i64> {
    let found = world.get(kind, namespace, name).or_else(|| world.get(kind, "", name))?;
    // Kubernetes' workloads have one replica unless they say otherwise.
    Some(found.value()["spec"]["replicas"].as_i64().unwrap_or(1))
}

fn node_group(name: &str, world: &World) -> Option<i64> {
    let group = world.get("NodeGroup", "", name)?;
    let is_member = |node: &Value| node["metadata"]["labels"][LABEL].as_str() == Some(name);
    let members = || world.of("Node").filter(|node| is_member(&node.value())).count();
    group.value()["status"]["target"].as_i64().or_else(|| i64::try_from(members()).ok())
}

/// Names the target as decisions do.
pub(super) fn reference(target: &TargetSpec, namespace: &str) -> Value {
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
