//! Virtual pods: demand for nodes that does not have pods yet. Decisions read them like pods that the scheduler found no node for, and
//! the journal records them as such.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// The annotation of a virtual pod, with what it stands for.
const VIRTUAL_POD_ANNOTATION: &str = "plimsoll.dev/virtual-pod";
/// Virtual pods keep no node from being removed, as long as they fit on another one.
const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";

/// Returns `count` pods of a template (`metadata` and `spec`) that are named `NAME-demand-0` and so on. A template that is no pod's has none.
pub(super) fn virtual_pods(
    (namespace, name): (&str, &str),
    stand_for: &str,
    template: Value,
    count: usize,
) -> Vec<Pod> {
    let mut pod = template;
    let meta = &mut pod["metadata"];
    let mut kept = json!({"namespace": namespace, "labels": meta["labels"]});
    kept["annotations"] = match meta["annotations"].take() {
        annotations if annotations.is_object() => annotations,
        _ => json!({}),
    };
    kept["annotations"][VIRTUAL_POD_ANNOTATION] = json!(stand_for);
    kept["annotations"][SAFE_TO_EVICT] = json!("true");
    pod["metadata"] = kept;
    pod["status"] = json!({
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    });
    let Ok(pod) = serde_json::from_value::<Pod>(pod) else { return Vec::new() };
    let named = |number| {
        let mut pod = pod.clone();
        pod.metadata.name = Some(format!("{name}-demand-{number}"));
        pod
    };
    (0..count).map(named).collect()
}

#[cfg(test)]
mod tests {
    use decide::nodes::{SafeToEvict, Scheduling};

    use super::*;

    #[test]
    fn a_virtual_pod_waits_for_a_node_like_a_pod_of_its_template() {
        let template = json!({
            "metadata": {"labels": {"app": "game"}},
            "spec": {
                "nodeSelector": {"pool": "a"},
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}],
            },
        });
        let pods = virtual_pods(("games", "set"), "GameServerSet games/set", template, 2);
        let names: Vec<_> = pods.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect();
        assert_eq!(names, ["set-demand-0", "set-demand-1"]);
        let read = api::nodes::pod(&pods[1], &api::nodes::Volumes::default());
        assert_eq!(read.full_name(), "games/set-demand-1");
        assert_eq!(read.scheduling, Scheduling::Unschedulable);
        assert_eq!((read.spec.requests.cpu, read.spec.labels.get("app")), (500, Some("game")));
        assert_eq!(read.drain.safe_to_evict, SafeToEvict::Yes);
        assert!(virtual_pods(("n", "s"), "", json!({"spec": "none"}), 1).is_empty());
    }
}
