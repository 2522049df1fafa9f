//! The same script, on Kubernetes' own controller manager and on ours: the resulting objects are the same.

mod trouble;

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::daemon_sets::{daemon_set, is_complete};
use super::jobs::{holds, job};
use super::replica_sets::{lone_pod, replica_set};
use super::stage::{Stage, deployment, revision, version};

#[tokio::test(flavor = "multi_thread")]
async fn workloads_end_up_as_with_the_real_controller_manager() {
    let Some(real) = Stage::real().await else { return };
    let embedded = Stage::embedded().await;
    let (expected, actual) = tokio::join!(run_scenarios(&real), run_scenarios(&embedded));
    real.end().await;
    let mut differences = Vec::new();
    for (step, expected) in &expected {
        let actual = serde_json::to_string_pretty(&actual[step]).unwrap();
        let expected = serde_json::to_string_pretty(expected).unwrap();
        if actual != expected {
            differences
                .push(format!("after {step}\n--- Kubernetes\n{expected}\n--- ours\n{actual}\n"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Runs the script, and returns the objects after each step.
async fn run_scenarios(stage: &Stage) -> BTreeMap<&'static str, Value> {
    let mut snapshots = BTreeMap::new();
    rollouts(stage, &mut snapshots).await;
    recreate(stage, &mut snapshots).await;
    others(stage, &mut snapshots).await;
    trouble::run_scenarios(stage, &mut snapshots).await;
    snapshots
}

async fn rollouts(stage: &Stage, snapshots: &mut BTreeMap<&'static str, Value>) {
    let strategy = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}});
    let spec =
        json!({"progressDeadlineSeconds": 5, "revisionHistoryLimit": 2, "strategy": strategy});
    stage.create::<Deployment>(deployment("web", 4, spec)).await;
    stage.complete("web").await;
    snapshots.insert("01 creation", objects(stage).await);

    stage.patch::<Deployment>("web", version("2")).await;
    stage.complete("web").await;
    snapshots.insert("02 a rollout", objects(stage).await);

    let nowhere = json!({"spec": {"template": {"spec": {"nodeSelector": {"test": "nowhere"}}}}});
    stage.patch::<Deployment>("web", nowhere).await;
    stage
        .until("the rollout times out", async || {
            has_reason(stage, "ProgressDeadlineExceeded").await
        })
        .await;
    snapshots.insert("03 a rollout that gets stuck", objects(stage).await);

    stage.patch::<Deployment>("web", json!({"spec": {"replicas": 9}})).await;
    stage
        .until("both sets are scaled", async || {
            let web: Deployment = stage.get("web").await;
            let status = web.status.unwrap_or_default();
            status.observed_generation == web.metadata.generation
                && (status.replicas, status.available_replicas) == (Some(10), Some(6))
                && has_reason(stage, "ProgressDeadlineExceeded").await
        })
        .await;
    snapshots.insert("04 scaling in the middle of it", objects(stage).await);

    let back = json!({"spec": {"template": {"spec": {"nodeSelector": {"test": stage.namespace}}}}});
    stage.patch::<Deployment>("web", back).await;
    stage.complete("web").await;
    snapshots.insert("05 an undo", objects(stage).await);

    let lost = stage.pods("web").await.remove(0).name_any();
    stage.delete::<Pod>(&lost).await;
    stage
        .until("the pod is gone", async || {
            stage.api::<Pod>().get_opt(&lost).await.unwrap().is_none()
        })
        .await;
    stage.complete("web").await;
    snapshots.insert("06 the loss of a pod", objects(stage).await);

    stage.patch::<Deployment>("web", json!({"spec": {"paused": true}})).await;
    stage.until("it is paused", async || has_reason(stage, "DeploymentPaused").await).await;
    stage.patch::<Deployment>("web", version("3")).await;
    stage.patch::<Deployment>("web", json!({"spec": {"replicas": 3}})).await;
    stage
        .until("it is scaled", async || {
            let web: Deployment = stage.get("web").await;
            let status = web.status.unwrap_or_default();
            status.observed_generation == web.metadata.generation
                && (status.replicas, status.available_replicas) == (Some(3), Some(3))
                && stage.pods("web").await.len() == 3
                && status.terminating_replicas.unwrap_or_default() == 0
        })
        .await;
    snapshots.insert("07 a pause", objects(stage).await);

    stage.patch::<Deployment>("web", json!({"spec": {"paused": false}})).await;
    stage.complete("web").await;
    stage.until("old sets are gone", async || stage.sets("web").await.len() == 3).await;
    snapshots.insert("08 the end of the pause", objects(stage).await);
    stage.delete::<Deployment>("web").await;
    stage.until("nothing is left", async || stage.list::<Pod>().await.is_empty()).await;
    stage.until("no set is left", async || stage.list::<ReplicaSet>().await.is_empty()).await;
}

async fn recreate(stage: &Stage, snapshots: &mut BTreeMap<&'static str, Value>) {
    let spec = json!({"strategy": {"type": "Recreate"}, "minReadySeconds": 1});
    stage.create::<Deployment>(deployment("all", 2, spec)).await;
    stage.complete("all").await;
    stage.patch::<Deployment>("all", version("2")).await;
    stage.complete("all").await;
    snapshots.insert("09 a Recreate", objects(stage).await);
    stage.delete::<Deployment>("all").await;
    stage.until("nothing is left", async || stage.list::<Pod>().await.is_empty()).await;
    stage.until("no set is left", async || stage.list::<ReplicaSet>().await.is_empty()).await;
}

async fn others(stage: &Stage, snapshots: &mut BTreeMap<&'static str, Value>) {
    stage.create::<Pod>(lone_pod("lone", "solo")).await;
    stage.create::<ReplicaSet>(replica_set("solo", 2)).await;
    stage
        .until("it has two pods", async || {
            let status = stage.get::<ReplicaSet>("solo").await.status.unwrap_or_default();
            (status.replicas, status.available_replicas) == (2, Some(2))
                && stage.pods("solo").await.len() == 2
        })
        .await;
    snapshots.insert("10 an adoption", objects(stage).await);
    stage.patch::<Pod>("lone", json!({"metadata": {"labels": {"app": "other"}}})).await;
    stage
        .until("it is released and replaced", async || {
            let pods = stage.pods("solo").await;
            let is_replaced = pods.len() == 2 && pods.iter().all(is_ready);
            let status = stage.get::<ReplicaSet>("solo").await.status.unwrap_or_default();
            stage.get::<Pod>("lone").await.owner_references().is_empty()
                && is_replaced
                && status.available_replicas == Some(2)
        })
        .await;
    snapshots.insert("11 a release", objects(stage).await);

    stage.create::<Job>(job("sum", json!({"completions": 3, "parallelism": 2}))).await;
    stage.until("it completes", async || holds(&stage.get("sum").await, "Complete")).await;
    snapshots.insert("12 a Job", objects(stage).await);
    indexed_jobs(stage).await;
    snapshots.insert("13 Indexed Jobs", objects(stage).await);
    stage.create::<DaemonSet>(daemon_set("agent")).await;
    stage.until("three pods", async || is_complete(stage, "agent", 3).await).await;
    stage.patch::<DaemonSet>("agent", version("2")).await;
    stage.until("three new pods", async || is_complete(stage, "agent", 3).await).await;
    snapshots.insert("14 a DaemonSet", objects(stage).await);
}

async fn indexed_jobs(stage: &Stage) {
    let parts = json!({"completions": 3, "parallelism": 2, "completionMode": "Indexed"});
    stage.create::<Job>(job("parts", parts)).await;
    let policy = json!({"rules": [{"succeededIndexes": "0-1"}]});
    let early = json!({
        "completions": 4, "parallelism": 1, "completionMode": "Indexed", "successPolicy": policy,
    });
    stage.create::<Job>(job("early", early)).await;
    for name in ["parts", "early"] {
        stage.until("it completes", async || holds(&stage.get(name).await, "Complete")).await;
    }
}

async fn has_reason(stage: &Stage, reason: &str) -> bool {
    let web: Deployment = stage.get("web").await;
    let status = web.status.unwrap_or_default();
    let mut conditions = status.conditions.iter().flatten();
    status.observed_generation == web.metadata.generation
        && conditions.any(|condition| condition.reason.as_deref() == Some(reason))
}

/// Returns all objects without what differs from run to run: times, uids, versions, and the random parts of names.
async fn objects(stage: &Stage) -> Value {
    let mut hashes = BTreeMap::from([(stage.namespace.clone(), "NAMESPACE".to_owned())]);
    let sets = stage.list::<ReplicaSet>().await;
    for set in &sets {
        if let Some(hash) = set.labels().get("pod-template-hash") {
            hashes.insert(hash.clone(), format!("HASH{}", revision(set)));
        }
    }
    let revisions = stage.list::<ControllerRevision>().await;
    for kept in &revisions {
        let hash = kept.labels()["controller-revision-hash"].clone();
        hashes.insert(hash, format!("HASH{}", kept.revision));
    }
    let jobs = stage.list::<Job>().await;
    hashes
        .extend(jobs.iter().map(|job| (job.uid().unwrap(), format!("UID of {}", job.name_any()))));
    let all = |items: Vec<Value>| {
        let mut items: Vec<Value> = items
            .into_iter()
            .map(|mut item| {
                neutral(&mut item, &hashes);
                item
            })
            .collect();
        items.sort_by_key(Value::to_string);
        items
    };
    let pods = stage.list::<Pod>().await;
    let pods = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).map(|pod| {
        json!({
            "labels": pod.labels(),
            "annotations": pod.annotations().get("version"),
            "index": pod.annotations().get("batch.kubernetes.io/job-completion-index"),
            "hostname": pod.spec.as_ref().and_then(|spec| spec.hostname.clone()),
            "variables": pod.spec.as_ref().and_then(|spec| spec.containers[0].env.clone()),
            "generateName": pod.metadata.generate_name,
            "owners": pod.owner_references(),
            "finalizers": pod.finalizers(),
            "phase": pod.status.as_ref().and_then(|status| status.phase.clone()),
            "tolerations": pod.spec.as_ref().and_then(|spec| spec.tolerations.clone()),
        })
    });
    json!({
        "deployments": all(stage.list::<Deployment>().await.into_iter().map(|d| json!(d)).collect()),
        "sets": all(sets.into_iter().map(|set| json!(set)).collect()),
        "jobs": all(jobs.into_iter().map(without_labels).collect()),
        "daemonSets": all(stage.list::<DaemonSet>().await.into_iter().map(|set| json!(set)).collect()),
        "revisions": all(revisions.into_iter().map(|kept| json!(kept)).collect()),
        "pods": all(pods.collect()),
    })
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Returns a Job without its own labels: the API server writes them, and no controller.
fn without_labels(mut job: Job) -> Value {
    job.metadata.labels = None;
    json!(job)
}

/// Removes what differs from run to run.
fn neutral(value: &mut Value, hashes: &BTreeMap<String, String>) {
    match value {
        Value::Object(members) => {
            // How often a set is written depends on the timing; so does the order in which conditions appear.
            let is_set = members.get("kind").is_some_and(|kind| kind == "ReplicaSet");
            for volatile in ["uid", "resourceVersion", "managedFields", "creationTimestamp"] {
                members.remove(volatile);
            }
            members.retain(|name, _| !name.ends_with("Time"));
            for (part, field) in [("metadata", "generation"), ("status", "observedGeneration")] {
                let part = members.get_mut(part).filter(|_| is_set);
                if let Some(part) = part.and_then(Value::as_object_mut) {
                    part.remove(field);
                }
            }
            if let Some(Value::Array(conditions)) = members.get_mut("conditions") {
                conditions.sort_by_key(|condition| condition["type"].to_string());
            }
            members.values_mut().for_each(|member| neutral(member, hashes));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| neutral(item, hashes)),
        Value::String(text) => {
            for (hash, name) in hashes {
                *text = text.replace(hash.as_str(), name);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
