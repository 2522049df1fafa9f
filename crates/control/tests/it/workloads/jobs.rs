//! Jobs on the embedded engine.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::stage::{Stage, template};

pub(super) fn job(name: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template(name)},
    });
    object["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    object
}

pub(super) fn holds(job: &Job, kind: &str) -> bool {
    let conditions = job.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions.into_iter().any(|c| c.type_ == kind && c.status == "True")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_completes_when_enough_pods_have_succeeded() {
    let stage = Stage::embedded().await;
    stage.create::<Job>(job("sum", json!({"completions": 5, "parallelism": 2}))).await;
    stage.until("it completes", async || holds(&stage.get("sum").await, "Complete")).await;
    let done: Job = stage.get("sum").await;
    let status = done.status.unwrap();
    assert_eq!((status.succeeded, status.active, status.failed), (Some(5), None, None));
    assert!(status.completion_time.is_some() && status.start_time.is_some());
    let pods = stage.pods("sum").await;
    assert_eq!(pods.len(), 5);
    assert!(pods.iter().all(|pod| pod.finalizers().is_empty()), "counted pods are let go");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_indexed_job_runs_one_pod_for_each_index() {
    let stage = Stage::embedded().await;
    let spec = json!({"completions": 3, "parallelism": 2, "completionMode": "Indexed"});
    stage.create::<Job>(job("parts", spec)).await;
    stage.until("it completes", async || holds(&stage.get("parts").await, "Complete")).await;
    let status = stage.get::<Job>("parts").await.status.unwrap();
    assert_eq!((status.succeeded, status.completed_indexes.as_deref()), (Some(3), Some("0-2")));
    let mut pods = stage.pods("parts").await;
    pods.sort_by_key(|pod| pod.name_any());
    assert_eq!(pods.len(), 3);
    for (index, pod) in pods.iter().enumerate() {
        let (index, name) = (index.to_string(), "batch.kubernetes.io/job-completion-index");
        assert!(pod.name_any().starts_with(&format!("parts-{index}-")), "{}", pod.name_any());
        assert_eq!(
            (pod.labels().get(name), pod.annotations().get(name)),
            (Some(&index), Some(&index))
        );
        let spec = pod.spec.as_ref().unwrap();
        assert_eq!(spec.hostname, Some(format!("parts-{index}")));
        let variable = &spec.containers[0].env.as_ref().unwrap()[0];
        assert_eq!(variable.name, "JOB_COMPLETION_INDEX");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_policy_ends_a_job_early() {
    let stage = Stage::embedded().await;
    let rules = json!([{"succeededIndexes": "0", "succeededCount": 1}]);
    let spec = json!({
        "completions": 3, "parallelism": 1, "completionMode": "Indexed", "successPolicy": {"rules": rules},
    });
    stage.create::<Job>(job("first", spec)).await;
    stage.until("it completes", async || holds(&stage.get("first").await, "Complete")).await;
    let status = stage.get::<Job>("first").await.status.unwrap();
    assert_eq!((status.succeeded, status.completed_indexes.as_deref()), (Some(1), Some("0")));
    let complete = status.conditions.unwrap().into_iter().find(|c| c.type_ == "Complete").unwrap();
    assert_eq!(complete.reason.as_deref(), Some("SuccessPolicy"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_fails_when_its_pods_fail_too_often() {
    let stage = Stage::embedded().await;
    let mut failing = job("bad", json!({"backoffLimit": 0}));
    failing["spec"]["template"]["metadata"]["annotations"] = json!({"test/exit-code": "3"});
    stage.create::<Job>(failing).await;
    stage.until("it fails", async || holds(&stage.get("bad").await, "Failed")).await;
    let status = stage.get::<Job>("bad").await.status.unwrap();
    assert_eq!((status.failed, status.succeeded), (Some(1), None));
    let failed = status.conditions.unwrap().into_iter().find(|c| c.type_ == "Failed").unwrap();
    assert_eq!(failed.reason.as_deref(), Some("BackoffLimitExceeded"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_suspended_resumed_limited_in_time_and_removed_after_it_has_finished() {
    let stage = Stage::embedded().await;
    let mut slow = job(
        "slow",
        json!({"suspend": true, "activeDeadlineSeconds": 1, "ttlSecondsAfterFinished": 1}),
    );
    // An exit code that cannot be read: its pods never end.
    slow["spec"]["template"]["metadata"]["annotations"] = json!({"test/exit-code": "never"});
    stage.create::<Job>(slow).await;
    stage.until("it is suspended", async || holds(&stage.get("slow").await, "Suspended")).await;
    assert!(stage.pods("slow").await.is_empty());
    stage.patch::<Job>("slow", json!({"spec": {"suspend": false}})).await;
    stage.until("it has a pod", async || stage.pods("slow").await.len() == 1).await;
    stage
        .until("it is gone", async || stage.api::<Job>().get_opt("slow").await.unwrap().is_none())
        .await;
    stage.until("so are its pods", async || stage.list::<Pod>().await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_a_deleted_job_go_with_it_although_it_tracks_them() {
    let stage = Stage::embedded().await;
    let mut endless = job("endless", json!({"parallelism": 2, "completions": 2}));
    endless["spec"]["template"]["metadata"]["annotations"] = json!({"test/exit-code": "never"});
    stage.create::<Job>(endless).await;
    stage.until("it has pods", async || stage.pods("endless").await.len() == 2).await;
    let tracked = stage.pods("endless").await;
    assert!(tracked.iter().all(|pod| pod.finalizers() == ["batch.kubernetes.io/job-tracking"]));
    // A pod that only looks like one of a Job.
    stage
        .create::<Pod>(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "stray", "finalizers": ["batch.kubernetes.io/job-tracking"]},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }))
        .await;
    stage.delete::<Job>("endless").await;
    stage.delete::<Pod>("stray").await;
    stage.until("no pod is left", async || stage.list::<Pod>().await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_with_a_running_job_can_be_deleted() {
    let stage = Stage::embedded().await;
    let mut endless = job("endless", json!({}));
    endless["spec"]["template"]["metadata"]["annotations"] = json!({"test/exit-code": "never"});
    stage.create::<Job>(endless).await;
    stage.until("it has a pod", async || stage.pods("endless").await.len() == 1).await;
    stage.delete_namespace().await;
    stage.until("no pod is left", async || stage.list::<Pod>().await.is_empty()).await;
}
