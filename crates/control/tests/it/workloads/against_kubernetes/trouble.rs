//! The part of the script in which pods crash and fail: their statuses are written on both sides, where nothing runs.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::super::jobs::{holds, job};
use super::super::stage::{Stage, deployment, version};
use super::{is_ready, objects};

pub(super) async fn run_scenarios(stage: &Stage, snapshots: &mut BTreeMap<&'static str, Value>) {
    crash_loop(stage, snapshots).await;
    failed_pod(stage, snapshots).await;
    stage.delete::<Deployment>("shaky").await;
    stage.until("nothing is left", async || stage.pods("shaky").await.is_empty()).await;
    stage.until("no set is left", async || stage.sets("shaky").await.is_empty()).await;
    failing_job(stage, snapshots).await;
}

/// One pod crashes again and again, before and during a rollout.
async fn crash_loop(stage: &Stage, snapshots: &mut BTreeMap<&'static str, Value>) {
    let strategy = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    stage.create::<Deployment>(deployment("shaky", 3, json!({"strategy": strategy}))).await;
    stage.complete("shaky").await;
    let crashing = stage.pods("shaky").await.remove(0).name_any();
    set_status(stage, &crashing, crashing_status()).await;
    stage.until("two are available", async || has_available(stage, 2).await).await;
    snapshots.insert("14 a crash loop", objects(stage).await);

    stage.patch::<Deployment>("shaky", version("2")).await;
    stage.complete("shaky").await;
    snapshots.insert("15 a rollout during a crash loop", objects(stage).await);
}

/// A pod fails and is replaced; later all are, by a restart.
async fn failed_pod(stage: &Stage, snapshots: &mut BTreeMap<&'static str, Value>) {
    let failed = stage.pods("shaky").await.remove(0).name_any();
    set_status(stage, &failed, json!({"phase": "Failed", "reason": "Evicted"})).await;
    stage
        .until("it is replaced", async || {
            let pods = stage.pods("shaky").await;
            let others = pods.iter().filter(|pod| pod.name_any() != failed);
            others.filter(|pod| is_ready(pod)).count() == 3
                && pods.len() == 4
                && has_available(stage, 3).await
        })
        .await;
    snapshots.insert("16 a failed pod", objects(stage).await);

    stage.delete::<Pod>(&failed).await;
    let restarted_at = json!({"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"});
    let restart = json!({"spec": {"template": {"metadata": {"annotations": restarted_at}}}});
    stage.patch::<Deployment>("shaky", restart).await;
    stage.complete("shaky").await;
    snapshots.insert("17 a restart", objects(stage).await);
}

/// All pods of a Job fail, until it gives up.
async fn failing_job(stage: &Stage, snapshots: &mut BTreeMap<&'static str, Value>) {
    let mut bad = job("bad", json!({"backoffLimit": 1}));
    // Its pods stay where nothing lets them complete.
    bad["spec"]["template"]["spec"]["schedulerName"] = json!("none");
    stage.create::<Job>(bad).await;
    stage
        .until("it fails", async || {
            for pod in stage.pods("bad").await {
                let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                if phase == Some("Pending") {
                    set_status(stage, &pod.name_any(), json!({"phase": "Failed"})).await;
                }
            }
            holds(&stage.get("bad").await, "Failed")
        })
        .await;
    stage
        .until("its pods are released", async || {
            stage.pods("bad").await.iter().all(|pod| pod.finalizers().is_empty())
        })
        .await;
    snapshots.insert("18 a Job that fails", objects(stage).await);
}

/// Whether the Deployment and its sets count this many available pods.
async fn has_available(stage: &Stage, count: i32) -> bool {
    let status = stage.get::<Deployment>("shaky").await.status.unwrap_or_default();
    let available = |set: &ReplicaSet| set.status.as_ref()?.available_replicas;
    let of_sets: i32 = stage.sets("shaky").await.iter().filter_map(available).sum();
    (status.ready_replicas, status.available_replicas, of_sets) == (Some(count), Some(count), count)
}

async fn set_status(stage: &Stage, pod: &str, status: Value) {
    let patch = Patch::Strategic(json!({"status": status}));
    stage.api::<Pod>().patch_status(pod, &PatchParams::default(), &patch).await.unwrap();
}

/// The status of a pod whose container has crashed three times.
fn crashing_status() -> Value {
    let waiting = json!({"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"});
    let condition = |kind: &str| json!({"type": kind, "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    json!({
        "conditions": [condition("Ready"), condition("ContainersReady")],
        "containerStatuses": [{
            "name": "main", "image": "app:1", "imageID": "", "ready": false, "restartCount": 3, "state": {"waiting": waiting},
        }],
    })
}
