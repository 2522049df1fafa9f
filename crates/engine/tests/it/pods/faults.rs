//! An API server that fails: what the kubelet has to write is written as soon as it can be.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kubelet::{Context, Kubelet, Settings, Simulated};
use plimsoll_engine::Engine;
use process::{Clock, Random, Supervisor};
use serde_json::{Value, json};
use tower::{BoxError, ServiceExt as _};

use super::{local, phase, shell};
use crate::ephemeral;

/// The number of status writes and deletions of each pod that fail.
const FAULTS: u32 = 4;

/// How a write fails.
type Fault = fn() -> Value;

/// The disk is full.
fn refused() -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "the disk is full", "reason": "ServiceUnavailable", "code": 503,
    })
}

/// The task that writes panics.
fn panicked() -> Value {
    panic!("no writes today")
}

/// Returns a client whose first writes about each pod fail.
fn faulty(engine: &Engine, fault: Fault) -> Client {
    let (service, failed) = (engine.service(), Arc::<Mutex<BTreeMap<String, u32>>>::default());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (service, failed) = (service.clone(), Arc::clone(&failed));
        async move {
            let path = request.uri().path();
            let is_write = request.method() == Method::DELETE && path.contains("/pods/")
                || request.method() == Method::PATCH
                    && path.ends_with("/status")
                    && path.contains("/pods/");
            if is_write {
                let count = {
                    let mut failed = failed.lock().unwrap();
                    let count = failed.entry(format!("{} {path}", request.method())).or_default();
                    *count += 1;
                    *count
                };
                if count <= FAULTS {
                    let response = Response::builder().status(503);
                    let body = Full::new(fault().to_string().into()).boxed_unsync();
                    return Ok::<_, BoxError>(response.body(body)?);
                }
            }
            Ok(service.oneshot(request).await?)
        }
    });
    Client::new(service, "default")
}

async fn start(engine: &Engine, settings: Settings, fault: Fault) -> Kubelet {
    let context = Context {
        client: faulty(engine, fault),
        clock: Clock::virtual_at(jiff::Timestamp::now()),
        random: Random::seeded(1),
        supervisor: Supervisor::new(),
        identity: "test".to_owned(),
    };
    kubelet::start(context, settings).await.unwrap()
}

async fn create(pods: &Api<Pod>, name: &str, spec: Value) {
    let pod = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
}

async fn until(pods: &Api<Pod>, name: &str, what: &str, holds: impl Fn(Option<&Pod>) -> bool) {
    for _ in 0..1200 {
        if holds(pods.get_opt(name).await.unwrap().as_ref()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{name} never {what}");
}

#[tokio::test]
async fn the_status_and_the_deletion_of_a_pod_are_written_after_failures() {
    let engine = ephemeral().await;
    let _kubelet =
        start(&engine, Settings { local: Some(local()), simulated: None }, refused).await;
    let pods: Api<Pod> = Api::default_namespaced(engine.client());
    let once =
        json!({"nodeName": "local", "restartPolicy": "Never", "containers": [shell("c", "true")]});
    create(&pods, "once", once).await;
    until(&pods, "once", "succeeded", |pod| pod.is_some_and(|p| phase(p) == "Succeeded")).await;
    let on = json!({"nodeName": "local", "containers": [shell("c", "exec sleep 1000")]});
    create(&pods, "on", on).await;
    until(&pods, "on", "ran", |pod| pod.is_some_and(|p| phase(p) == "Running")).await;
    pods.delete("on", &DeleteParams::default()).await.unwrap();
    until(&pods, "on", "went", |pod| pod.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn simulated_pods_run_and_are_removed_after_failures() {
    let engine = ephemeral().await;
    let simulated = Some(Simulated { count: 1, ..Simulated::default() });
    let _kubelet = start(&engine, Settings { simulated, local: None }, refused).await;
    let pods: Api<Pod> = Api::default_namespaced(engine.client());
    let spec = json!({"nodeName": "sim-0001", "containers": [{"name": "c", "image": "i"}]});
    create(&pods, "a", spec).await;
    until(&pods, "a", "ran", |pod| pod.is_some_and(|p| phase(p) == "Running")).await;
    pods.delete("a", &DeleteParams::default()).await.unwrap();
    until(&pods, "a", "went", |pod| pod.is_none()).await;
}

/// The statuses of the pods of an earlier run are reported even if the task that reports them panics: no other task would.
#[tokio::test]
async fn pods_of_an_earlier_run_end_after_panics() {
    let engine = ephemeral().await;
    let pods: Api<Pod> = Api::default_namespaced(engine.client());
    for name in ["running", "deleted"] {
        let spec = json!({"nodeName": "local", "containers": [{"name": "c", "image": "i"}]});
        create(&pods, name, spec).await;
        let running = Patch::Merge(json!({"status": {"phase": "Running"}}));
        pods.patch_status(name, &PatchParams::default(), &running).await.unwrap();
    }
    pods.delete("deleted", &DeleteParams::default()).await.unwrap();
    assert!(pods.get_opt("deleted").await.unwrap().is_some(), "its node has to end it first");
    let _kubelet =
        start(&engine, Settings { local: Some(local()), simulated: None }, panicked).await;
    until(&pods, "running", "failed", |pod| pod.is_some_and(|p| phase(p) == "Failed")).await;
    until(&pods, "deleted", "went", |pod| pod.is_none()).await;
}
