//! The guide's quickstart for services: pods are replaced while requests arrive, and none fails.

use std::collections::BTreeSet;
use std::process::Command;

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use crate::laptop::{Laptop, interrupt, until};
use crate::sample_service::get;
use crate::{from_env, plimsoll};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_update_behind_a_service_fails_no_request() {
    let Some(kubectl) = from_env("PLIMSOLL_TEST_KUBECTL") else { return };
    let laptop = Laptop::start("service-quickstart.yaml");
    let kubectl = |args: &[&str]| {
        let mut command = laptop.connect(Command::new(&kubectl));
        let done = command.args(args).output().unwrap();
        let text = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        assert!(done.status.success(), "kubectl {args:?}: {text}");
        text
    };
    let client = laptop.client().await;
    until("the Deployment exists", async || !pods(&client).await.is_empty()).await;
    let complete = ["rollout", "status", "deployment/web", "--timeout=120s"];
    kubectl(&complete);
    until("the Service answers", async || get(laptop.address(), "/").is_some()).await;
    let first = pods(&client).await;
    assert_eq!(first.len(), 3, "{first:?}");

    let load = laptop.load(&["--rate", "40", "--for", "1h", "--concurrency", "8"]);
    let changed = std::fs::read_to_string(laptop.objects()).unwrap();
    let changed = changed.replace("--cpu-per-request=10ms", "--cpu-per-request=2ms");
    std::fs::write(laptop.objects(), changed).unwrap();
    let mut apply = laptop.connect(plimsoll());
    assert!(apply.arg("apply").arg(laptop.objects()).output().unwrap().status.success());
    kubectl(&complete);
    until("all pods are replaced", async || is_replaced(&first, &pods(&client).await)).await;
    let second = pods(&client).await;

    let restarted = kubectl(&["rollout", "restart", "deployment/web"]);
    assert!(restarted.contains("deployment.apps/web restarted"), "{restarted}");
    kubectl(&complete);
    until("all pods are replaced again", async || is_replaced(&second, &pods(&client).await)).await;
    let third = pods(&client).await;
    let (status, hello) = get(laptop.address(), "/").expect("the Service answers");
    let is_new = third.iter().any(|pod| hello == format!("hello from {pod}\n"));
    assert!(status == 200 && is_new, "{hello} {third:?}");

    interrupt(&load);
    let load = load.wait_with_output().unwrap();
    let summary: Value = serde_json::from_slice(&load.stdout).unwrap();
    assert!(load.status.success() && summary["errors"] == 0, "{summary}");
    assert!(summary["requests"].as_u64() > Some(0), "{summary}");
}

/// Returns the names of the pods of the service.
async fn pods(client: &Client) -> BTreeSet<String> {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pods = pods.list(&ListParams::default().labels("app=web")).await.unwrap();
    pods.iter().map(ResourceExt::name_any).collect()
}

fn is_replaced(before: &BTreeSet<String>, after: &BTreeSet<String>) -> bool {
    before.is_disjoint(after) && after.len() == before.len()
}
