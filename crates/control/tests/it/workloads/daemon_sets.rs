//! DaemonSets on the embedded engine.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::stage::{Stage, template, version};

pub(super) fn daemon_set(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template(name)},
    })
}

/// Whether a DaemonSet has a ready, up-to-date pod on this many nodes and no other pods.
pub(super) async fn is_complete(stage: &Stage, name: &str, nodes: i32) -> bool {
    let set: DaemonSet = stage.get(name).await;
    let status = set.status.unwrap_or_default();
    let updated = status.updated_number_scheduled.unwrap_or_default();
    let available = status.number_available.unwrap_or_default();
    let counts = [status.desired_number_scheduled, status.number_ready, updated, available];
    counts == [nodes; 4]
        && status.observed_generation == set.metadata.generation
        && stage.pods(name).await.len() == usize::try_from(nodes).unwrap()
}

fn on_nodes(pods: &[Pod]) -> BTreeSet<String> {
    pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_node_has_one_pod_through_updates_and_changes_of_the_nodes() {
    let stage = Stage::embedded().await;
    stage.create::<DaemonSet>(daemon_set("agent")).await;
    stage.until("three pods", async || is_complete(&stage, "agent", 3).await).await;
    let first = stage.pods("agent").await;
    assert_eq!(on_nodes(&first), stage.nodes.iter().cloned().collect());

    stage.patch::<DaemonSet>("agent", version("2")).await;
    stage.until("three new pods", async || is_complete(&stage, "agent", 3).await).await;
    let names = |pods: &[Pod]| pods.iter().map(|pod| pod.name_any()).collect::<BTreeSet<_>>();
    assert!(names(&first).is_disjoint(&names(&stage.pods("agent").await)));
    let mut revisions: Vec<i64> =
        stage.list::<ControllerRevision>().await.iter().map(|revision| revision.revision).collect();
    revisions.sort_unstable();
    assert_eq!(revisions, [1, 2]);

    let nodes: Api<Node> = Api::all(stage.client.clone());
    let taint = Patch::Merge(json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}));
    nodes.patch(&stage.nodes[0], &PatchParams::default(), &taint).await.unwrap();
    nodes.delete(&stage.nodes[1], &DeleteParams::default()).await.unwrap();
    stage.until("one pod", async || is_complete(&stage, "agent", 1).await).await;
    assert_eq!(on_nodes(&stage.pods("agent").await), BTreeSet::from([stage.nodes[2].clone()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_on_delete_a_pod_is_replaced_when_it_is_deleted() {
    let stage = Stage::embedded().await;
    let mut set = daemon_set("agent");
    set["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    stage.create::<DaemonSet>(set).await;
    stage.until("three pods", async || is_complete(&stage, "agent", 3).await).await;
    stage.patch::<DaemonSet>("agent", version("2")).await;
    let pod = stage.pods("agent").await.remove(0).name_any();
    stage.delete::<Pod>(&pod).await;
    stage
        .until("one is new", async || {
            let status = stage.get::<DaemonSet>("agent").await.status.unwrap_or_default();
            (status.updated_number_scheduled, status.number_ready) == (Some(1), 3)
        })
        .await;
}
