//! What decisions about nodes read of a pod. There are tens of thousands of pods, and most of each is how its containers run.

use k8s_openapi::api::core::v1::{
    Container, ContainerStatus, Pod, PodCondition, PodSpec, PodStatus, Volume,
};

/// The annotation with the whole pod as kubectl applied it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Removes what decisions about nodes do not read.
pub(super) fn prune(pod: &mut Pod) {
    if let Some(annotations) = &mut pod.metadata.annotations {
        annotations.remove(LAST_APPLIED);
    }
    if let Some(spec) = &mut pod.spec {
        prune_spec(spec);
    }
    if let Some(status) = &mut pod.status {
        prune_status(status);
    }
}

fn prune_spec(spec: &mut PodSpec) {
    for containers in [Some(&mut spec.containers), spec.init_containers.as_mut()] {
        let Some(containers) = containers else { continue };
        containers.iter_mut().for_each(prune_container);
        containers.shrink_to_fit();
    }
    if let Some(volumes) = &mut spec.volumes {
        volumes.retain(ties_to_node);
        volumes.shrink_to_fit();
    }
    spec.dns_config = None;
    spec.ephemeral_containers = None;
    spec.host_aliases = None;
    spec.image_pull_secrets = None;
    spec.readiness_gates = None;
    spec.security_context = None;
}

fn prune_container(container: &mut Container) {
    *container = Container {
        name: std::mem::take(&mut container.name),
        image: container.image.take(),
        ports: container.ports.take(),
        resources: container.resources.take(),
        resize_policy: container.resize_policy.take(),
        restart_policy: container.restart_policy.take(),
        ..Container::default()
    };
}

/// Whether a volume keeps a pod on its node, or decides which nodes it fits.
fn ties_to_node(volume: &Volume) -> bool {
    volume.empty_dir.is_some()
        || volume.ephemeral.is_some()
        || volume.host_path.is_some()
        || volume.persistent_volume_claim.is_some()
}

fn prune_status(status: &mut PodStatus) {
    let lists = [&mut status.container_statuses, &mut status.init_container_statuses];
    for list in lists {
        // Without resources of their own, containers have those of the spec.
        if let Some(statuses) = list {
            statuses.retain(|one| one.resources.is_some() || one.allocated_resources.is_some());
            statuses.iter_mut().for_each(prune_container_status);
        }
        list.take_if(|statuses| statuses.is_empty());
    }
    for condition in status.conditions.iter_mut().flatten() {
        prune_condition(condition);
    }
    status.ephemeral_container_statuses = None;
    status.host_ips = None;
    status.pod_ips = None;
}

fn prune_container_status(status: &mut ContainerStatus) {
    *status = ContainerStatus {
        name: std::mem::take(&mut status.name),
        resources: status.resources.take(),
        allocated_resources: status.allocated_resources.take(),
        ..ContainerStatus::default()
    };
}

fn prune_condition(condition: &mut PodCondition) {
    (condition.message, condition.last_probe_time) = (None, None);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_decides_where_a_pod_fits_stays() {
        let mut pod: Pod = serde_json::from_value(json!({
            "metadata": {"annotations": {LAST_APPLIED: "{}", "plimsoll.dev/kept": "x"}},
            "spec": {
                "nodeName": "n", "nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "k"}],
                "terminationGracePeriodSeconds": 5,
                "containers": [{
                    "name": "c", "image": "i", "command": ["run"], "env": [{"name": "SECRET", "value": "s"}],
                    "ports": [{"containerPort": 1, "hostPort": 2}],
                    "resources": {"requests": {"cpu": "1"}},
                }],
                "volumes": [{"name": "token", "projected": {}}, {"name": "scratch", "emptyDir": {}}],
            },
            "status": {
                "phase": "Running",
                "conditions": [{"type": "PodScheduled", "status": "True", "message": "long"}],
                "containerStatuses": [
                    {"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 3,
                     "resources": {"requests": {"cpu": "2"}}},
                    {"name": "d", "image": "i", "imageID": "", "ready": true, "restartCount": 3},
                ],
            },
        }))
        .unwrap();
        prune(&mut pod);
        let pruned = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"annotations": {"plimsoll.dev/kept": "x"}},
            "spec": {
                "nodeName": "n", "nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "k"}],
                "terminationGracePeriodSeconds": 5,
                "containers": [{
                    "name": "c", "image": "i", "ports": [{"containerPort": 1, "hostPort": 2}],
                    "resources": {"requests": {"cpu": "1"}},
                }],
                "volumes": [{"name": "scratch", "emptyDir": {}}],
            },
            "status": {
                "phase": "Running",
                "conditions": [{"type": "PodScheduled", "status": "True"}],
                "containerStatuses": [
                    {"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                     "resources": {"requests": {"cpu": "2"}}},
                ],
            },
        });
        assert_eq!(serde_json::to_value(&pod).unwrap(), pruned);
    }
}
