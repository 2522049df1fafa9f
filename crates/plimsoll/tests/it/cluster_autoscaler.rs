//! Our program in the place of Cluster Autoscaler, on the real API server: with its name, its flags and the rights of its Helm chart.

mod aws;
mod cluster_api;
mod proxy;
mod rights;
mod stage;

use std::process::Command;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use serde_json::{Value, json};

use crate::external_grpc::serve;
use crate::laptop::until;
use crate::plimsoll;
use stage::{Program, Stage};

#[test]
fn flags_are_those_of_cluster_autoscaler_and_an_unknown_one_ends_it() {
    let run = |args: &[&str]| {
        let done = plimsoll().arg("cluster-autoscaler").args(args).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (done.status.code(), text(done.stdout), text(done.stderr))
    };
    let (code, out, _) = run(&["--help"]);
    assert_eq!(code, Some(0));
    assert!(out.contains("--scale-down-unneeded-time DURATION"), "{out}");
    let (code, out, error) = run(&["--cloud-provider=kwok", "--no-such-flag=1"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(error.starts_with("unknown flag: --no-such-flag\n"), "{error}");
    assert!(error.contains("--scale-down-unneeded-time DURATION"), "{error}");
    let (code, _, error) = run(&["--cloud-provider=gce"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("--cloud-provider: `gce` is not"), "{error}");
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("cluster-autoscaler");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_plimsoll"), &link).unwrap();
    let done = Command::new(&link).arg("--no-such-flag").output().unwrap();
    assert_eq!(done.status.code(), Some(2), "its name is enough");
}

/// Nodes of 4 cores, 0 to 3 of them.
async fn kwok(name: &str) -> Option<Stage> {
    let maps = ["kwok-provider-config", "kwok-provider-templates"];
    let provider =
        [rights::nodes(&["create", "delete"]), rights::named("", &["configmaps"], &maps, &["get"])];
    let stage = Stage::new(name, &provider).await?;
    let amounts = json!({"cpu": "4", "memory": "8Gi", "pods": "50"});
    let template = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": "template", "labels": {"stage": stage.name, "pool": format!("{}-pool", stage.name)},
            "annotations": {"cluster-autoscaler.kwok.nodegroup/max-count": "3"},
        },
        "spec": {"taints": [{"key": "stage", "value": stage.name, "effect": "NoSchedule"}]},
        "status": {"capacity": amounts, "allocatable": amounts},
    });
    let config = json!({
        "apiVersion": "v1alpha1", "readNodesFrom": "configmap", "nodegroups": {"fromNodeLabelKey": "pool"},
        "configmap": {"name": "kwok-provider-templates"},
    });
    for (name, key, content) in [
        ("kwok-provider-config", "config", config),
        ("kwok-provider-templates", "templates", template),
    ] {
        let data: Value = json!({key: content.to_string()});
        let metadata = json!({"name": name, "namespace": stage.name});
        stage
            .create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}))
            .await;
    }
    Some(stage)
}

async fn holder(stage: &Stage) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(stage.client.clone(), &stage.name);
    let lease = leases.get_opt("cluster-autoscaler").await.unwrap()?;
    lease.spec?.holder_identity.filter(|holder| !holder.is_empty())
}

async fn status(stage: &Stage) -> Option<String> {
    let maps: Api<ConfigMap> = Api::namespaced(stage.client.clone(), &stage.name);
    maps.get_opt("cluster-autoscaler-status").await.unwrap()?.data?.remove("status")
}

/// Has pods get nodes, and nodes go that are no longer needed: one of them with a pod that has to move.
async fn nodes_come_and_go(stage: &Stage, program: &Program) {
    until("it is alive", async || program.get("/health-check").await == (200, "OK".to_owned()))
        .await;
    stage.pod("first", "3").await;
    stage.pod("second", "3").await;
    let runs = async |pod: &str| stage.node_of(pod).await.is_some();
    until("both run", async || runs("first").await && runs("second").await).await;
    assert_eq!(stage.nodes().await.len(), 2);
    let triggered = async || {
        let events = stage.events("TriggeredScaleUp").await;
        events.iter().any(|event| event.involved_object.namespace.as_ref() == Some(&stage.name))
    };
    until("the pods know why", triggered).await;
    stage.pod("small", "500m").await;
    until("the third runs", async || runs("small").await).await;
    assert_eq!(stage.nodes().await.len(), 2);
    let status = status(stage).await.unwrap();
    assert!(status.contains("autoscalerStatus: \"Running\""), "{status}");

    let shared = stage.node_of("small").await;
    let beside = if stage.node_of("first").await == shared { "first" } else { "second" };
    stage.delete_pod(beside).await;
    until("the small one has moved away", async || stage.node_of("small").await.is_none()).await;
    until("its node is gone", async || stage.nodes().await.len() == 1).await;
    let (code, metrics) = program.get("/metrics").await;
    assert_eq!(code, 200);
    for wanted in ["cluster_autoscaler_scaled_up_nodes_total", "cluster_autoscaler_last_activity"] {
        assert!(metrics.contains(wanted), "{wanted}: {metrics}");
    }
    let removed = stage.events("ScaleDown").await;
    assert!(removed.iter().any(|event| event.involved_object.name.as_deref() == Some("small")));
    stage.delete_pod(if beside == "first" { "second" } else { "first" }).await;
    until("the last node is gone", async || stage.nodes().await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_rights_of_the_helm_chart_pods_get_nodes_of_kwok_and_unneeded_ones_go() {
    let Some(stage) = kwok("ca-kwok").await else { return };
    let program = stage.start("one", &["--cloud-provider=kwok"]);
    nodes_come_and_go(&stage, &program).await;
    assert!(holder(&stage).await.is_some());
    assert!(program.log().contains("--v has no effect"), "{}", program.log());
    let ended = program.terminate();
    assert_eq!(ended.code(), Some(0));
    assert_eq!(holder(&stage).await, None, "the Lease is released");
    assert_eq!(status(&stage).await, None, "the ConfigMap is deleted");
    stage.assert_requests_are_those_of_a_cluster_autoscaler();
    let files = std::fs::read_dir(stage.dir.path()).unwrap();
    let mut files: Vec<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    assert_eq!(files, ["cluster-autoscaler", "kubeconfig", "one.log"], "nothing is written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_rights_of_the_helm_chart_pods_get_nodes_from_an_external_grpc_server() {
    let Some(stage) = Stage::new("ca-grpc", &[]).await else { return };
    let cloud = serve(stage.client.clone(), ("pool", 3), stage.shape(), None).await;
    let config = format!("address: {}\ngrpc_timeout: 10s\n", cloud.address);
    std::fs::write(stage.dir.path().join("cloud-config"), config).unwrap();
    let flags = ["--cloud-provider=externalgrpc", "--cloud-config=cloud-config"];
    let program = stage.start("one", &flags);
    nodes_come_and_go(&stage, &program).await;
    assert_eq!(program.terminate().code(), Some(0));
    stage.assert_requests_are_those_of_a_cluster_autoscaler();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_is_alive_and_takes_over_from_a_leader_that_was_killed() {
    let Some(stage) = kwok("ca-standby").await else { return };
    let first = stage.start("one", &["--cloud-provider=kwok"]);
    until("the first leads", async || holder(&stage).await.is_some()).await;
    let before = holder(&stage).await;
    let mut second = stage.start("two", &["--cloud-provider=kwok"]);
    until("the second waits", async || second.log().contains("another process is the leader"))
        .await;
    assert_eq!(second.get("/health-check").await, (200, "OK".to_owned()));
    first.kill();
    until("the second leads", async || holder(&stage).await != before).await;
    stage.pod("first", "3").await;
    until("its pod gets a node", async || stage.node_of("first").await.is_some()).await;
    assert!(second.ended().is_none(), "{}", second.log());
    stage.assert_requests_are_those_of_a_cluster_autoscaler();
}
