//! Deployments on the embedded engine.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::ResourceExt as _;
use serde_json::json;

use super::stage::{Stage, deployment, revision, version};

fn reasons(deployment: &Deployment) -> Vec<String> {
    let conditions = deployment.status.iter().flat_map(|s| s.conditions.iter().flatten());
    let mut reasons: Vec<_> = conditions.filter_map(|c| c.reason.clone()).collect();
    reasons.sort();
    reasons
}

async fn sizes(stage: &Stage, name: &str) -> Vec<(u64, i32)> {
    let sets = stage.sets(name).await;
    sets.iter().map(|set| (revision(set), set.spec.as_ref().unwrap().replicas.unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_update_replaces_every_pod_and_an_undo_brings_the_old_template_back() {
    let stage = Stage::embedded().await;
    stage.create::<Deployment>(deployment("web", 3, json!({"revisionHistoryLimit": 1}))).await;
    stage.complete("web").await;
    let first = stage.sets("web").await.remove(0);
    assert_eq!(first.annotations()["deployment.kubernetes.io/desired-replicas"], "3");
    assert_eq!(first.annotations()["deployment.kubernetes.io/max-replicas"], "4");
    let hash = &first.labels()["pod-template-hash"];
    assert_eq!(first.name_any(), format!("web-{hash}"));
    assert!(stage.pods("web").await.iter().all(|pod| pod.labels()["pod-template-hash"] == *hash));

    stage.patch::<Deployment>("web", version("2")).await;
    stage.complete("web").await;
    assert_eq!(sizes(&stage, "web").await, [(1, 0), (2, 3)]);
    stage.patch::<Deployment>("web", version("3")).await;
    stage.complete("web").await;
    stage
        .until("one old set is kept", async || sizes(&stage, "web").await == [(2, 0), (3, 3)])
        .await;

    stage.patch::<Deployment>("web", version("2")).await;
    stage.complete("web").await;
    assert_eq!(sizes(&stage, "web").await, [(3, 0), (4, 3)]);
    let back = stage.sets("web").await.remove(1);
    assert_eq!(back.annotations()["deployment.kubernetes.io/revision-history"], "2");
    let web: Deployment = stage.get("web").await;
    assert_eq!(web.annotations()["deployment.kubernetes.io/revision"], "4");
    assert_eq!(web.metadata.generation, web.status.as_ref().unwrap().observed_generation);
    assert_eq!(reasons(&web), ["MinimumReplicasAvailable", "NewReplicaSetAvailable"]);
    stage
        .until("events say so", async || {
            let events = stage.list::<Event>().await;
            events.iter().any(|e| e.reason.as_deref() == Some("ScalingReplicaSet"))
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_that_gets_stuck_times_out_keeps_the_old_pods_and_is_scaled_in_proportion() {
    let stage = Stage::embedded().await;
    let strategy = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}});
    let spec = json!({"progressDeadlineSeconds": 1, "strategy": strategy});
    stage.create::<Deployment>(deployment("web", 4, spec)).await;
    stage.complete("web").await;
    let nowhere = json!({"spec": {"template": {"spec": {"nodeSelector": {"test": "nowhere"}}}}});
    stage.patch::<Deployment>("web", nowhere).await;
    stage
        .until("the deadline passes", async || {
            reasons(&stage.get("web").await).contains(&"ProgressDeadlineExceeded".to_owned())
        })
        .await;
    assert_eq!(sizes(&stage, "web").await, [(1, 3), (2, 2)]);
    stage.patch::<Deployment>("web", json!({"spec": {"replicas": 8}})).await;
    stage.until("both sets grow", async || sizes(&stage, "web").await == [(1, 5), (2, 4)]).await;
    let back = json!({"spec": {"template": {"spec": {"nodeSelector": {"test": stage.namespace}}}}});
    stage.patch::<Deployment>("web", back).await;
    stage.complete("web").await;
    assert_eq!(sizes(&stage, "web").await, [(2, 0), (3, 8)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_deployment_is_scaled_but_not_rolled_out() {
    let stage = Stage::embedded().await;
    stage.create::<Deployment>(deployment("web", 2, json!({}))).await;
    stage.complete("web").await;
    stage.patch::<Deployment>("web", json!({"spec": {"paused": true}})).await;
    stage.patch::<Deployment>("web", version("2")).await;
    stage.patch::<Deployment>("web", json!({"spec": {"replicas": 3}})).await;
    stage.until("it is scaled", async || sizes(&stage, "web").await == [(1, 3)]).await;
    stage
        .until("the pause is reported", async || {
            reasons(&stage.get("web").await).contains(&"DeploymentPaused".to_owned())
        })
        .await;
    stage.patch::<Deployment>("web", json!({"spec": {"paused": false}})).await;
    stage.complete("web").await;
    assert_eq!(sizes(&stage, "web").await, [(1, 0), (2, 3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn recreate_starts_new_pods_only_after_the_old_ones_have_ended() {
    let stage = Stage::embedded().await;
    let spec = json!({"strategy": {"type": "Recreate"}});
    stage.create::<Deployment>(deployment("web", 2, spec)).await;
    stage.complete("web").await;
    // A finalizer keeps an old pod for a while.
    let pod = stage.pods("web").await.remove(0).name_any();
    stage.patch::<Pod>(&pod, json!({"metadata": {"finalizers": ["test/hold"]}})).await;
    stage.patch::<Deployment>("web", version("2")).await;
    stage.until("the other pod ends", async || stage.pods("web").await.len() == 1).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(sizes(&stage, "web").await, [(1, 0)]);
    stage.patch::<Pod>(&pod, json!({"metadata": {"finalizers": null}})).await;
    stage.complete("web").await;
    assert_eq!(sizes(&stage, "web").await, [(1, 0), (2, 2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_pods_are_replaced_and_everything_is_deleted_with_the_deployment() {
    let stage = Stage::embedded().await;
    stage.create::<Deployment>(deployment("web", 3, json!({"minReadySeconds": 1}))).await;
    stage.complete("web").await;
    let lost = stage.pods("web").await.remove(0).name_any();
    stage.delete::<Pod>(&lost).await;
    stage
        .until("it is replaced", async || {
            let pods = stage.pods("web").await;
            pods.len() == 3 && pods.iter().all(|pod| pod.name_any() != lost)
        })
        .await;
    stage.complete("web").await;
    stage.delete::<Deployment>("web").await;
    stage
        .until("nothing is left", async || {
            stage.list::<ReplicaSet>().await.is_empty() && stage.list::<Pod>().await.is_empty()
        })
        .await;
}
