//! ReplicaSets on the embedded engine.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::stage::{Stage, template};

pub(super) fn replica_set(name: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name)},
    })
}

/// A pod without a controller.
pub(super) fn lone_pod(name: &str, app: &str) -> Value {
    let mut pod = template(app);
    pod["metadata"]["name"] = json!(name);
    pod
}

async fn is_ready(stage: &Stage, name: &str, ready: i32) -> bool {
    let status = stage.get::<ReplicaSet>(name).await.status.unwrap_or_default();
    (status.replicas, status.available_replicas.unwrap_or_default()) == (ready, ready)
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_adopted_by_their_labels_and_released_when_these_change() {
    let stage = Stage::embedded().await;
    stage.create::<Pod>(lone_pod("lone", "solo")).await;
    stage.create::<ReplicaSet>(replica_set("solo", 2)).await;
    stage.until("it has two pods", async || is_ready(&stage, "solo", 2).await).await;
    assert_eq!(stage.get::<Pod>("lone").await.owner_references()[0].name, "solo");
    assert_eq!(stage.pods("solo").await.len(), 2);

    stage.patch::<Pod>("lone", json!({"metadata": {"labels": {"app": "other"}}})).await;
    stage
        .until("it is released", async || {
            stage.get::<Pod>("lone").await.owner_references().is_empty()
        })
        .await;
    stage.until("it is replaced", async || stage.pods("solo").await.len() == 2).await;

    stage.patch::<Pod>("lone", json!({"metadata": {"labels": {"app": "solo"}}})).await;
    stage
        .until("one too many goes", async || {
            let pods = stage.pods("solo").await;
            pods.len() == 2 && pods.iter().all(|pod| pod.owner_references().len() == 1)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cheapest_pods_are_deleted_first() {
    let stage = Stage::embedded().await;
    stage.create::<ReplicaSet>(replica_set("costs", 4)).await;
    stage.until("it has four pods", async || is_ready(&stage, "costs", 4).await).await;
    let mut names: Vec<String> =
        stage.pods("costs").await.iter().map(|pod| pod.name_any()).collect();
    names.sort();
    for (name, cost) in names.iter().zip(["20", "-5", "10", "-10"]) {
        let cost = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}}});
        stage.patch::<Pod>(name, cost).await;
    }
    stage.patch::<ReplicaSet>("costs", json!({"spec": {"replicas": 2}})).await;
    stage.until("two are left", async || stage.pods("costs").await.len() == 2).await;
    let mut left: Vec<String> =
        stage.pods("costs").await.iter().map(|pod| pod.name_any()).collect();
    left.sort();
    assert_eq!(left, [names[0].as_str(), names[2].as_str()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_are_refused_are_a_condition_of_the_set() {
    let stage = Stage::embedded().await;
    let mut set = replica_set("refused", 1);
    set["spec"]["template"]["spec"]["priorityClassName"] = json!("missing");
    stage.create::<ReplicaSet>(set).await;
    stage
        .until("the failure is reported", async || {
            let status = stage.get::<ReplicaSet>("refused").await.status.unwrap_or_default();
            let reasons = status.conditions.iter().flatten().filter_map(|c| c.reason.as_deref());
            reasons.into_iter().any(|reason| reason == "FailedCreate")
        })
        .await;
}
