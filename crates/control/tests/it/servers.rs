//! The life of one game server.

use api::agones::GameServer;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::Api;
use serde_json::json;

use crate::cluster::{Cluster, server, state_of};
use crate::standin;

async fn ready(cluster: &Cluster, names: &[&str]) {
    for name in names {
        cluster.create::<GameServer>(server(name)).await;
    }
    cluster
        .until("all are Ready", async || cluster.in_state("Ready").await.len() == names.len())
        .await;
}

pub(crate) async fn a_server_gets_a_pod_a_port_and_an_address_and_becomes_ready(
    cluster: &mut Cluster,
) {
    ready(cluster, &["a"]).await;
    let made = cluster.api::<GameServer>().get("a").await.unwrap();
    let status = made.status.unwrap();
    assert!(cluster.nodes.contains(&status.node_name), "{}", status.node_name);
    assert!(!status.address.is_empty());
    let port = status.ports.unwrap()[0].clone();
    assert_eq!(port.name, "game");
    assert!((7000..=8000).contains(&port.port));
    assert_eq!(made.spec.ports[0].host_port, port.port);
    let pod = cluster.pods().await.remove(0);
    let container = &pod.spec.unwrap().containers[0];
    assert_eq!(container.ports.as_ref().unwrap()[0].host_port, Some(port.port));
}

pub(crate) async fn a_deleted_server_is_removed_after_its_pod(cluster: &mut Cluster) {
    ready(cluster, &["a"]).await;
    cluster.delete::<GameServer>("a").await;
    cluster.until("a is gone", async || cluster.servers().await.is_empty()).await;
    assert!(cluster.pods().await.is_empty(), "the pod went first");
}

pub(crate) async fn a_server_whose_pod_fails_or_is_deleted_is_unhealthy(cluster: &mut Cluster) {
    ready(cluster, &["failed", "evicted", "deleted"]).await;
    let pods: Api<Pod> = cluster.api();
    standin::status(&pods, "failed", json!({"phase": "Failed"})).await;
    standin::status(&pods, "evicted", json!({"phase": "Failed", "reason": "Evicted"})).await;
    cluster.delete::<Pod>("deleted").await;
    cluster
        .until("all are Unhealthy", async || cluster.in_state("Unhealthy").await.len() == 3)
        .await;
}

pub(crate) async fn a_server_whose_pod_succeeds_is_deleted(cluster: &mut Cluster) {
    ready(cluster, &["a"]).await;
    let pods: Api<Pod> = cluster.api();
    standin::status(&pods, "a", json!({"phase": "Succeeded"})).await;
    cluster.until("a is gone", async || cluster.servers().await.is_empty()).await;
}

pub(crate) async fn an_unhealthy_server_stays_so_when_its_pod_then_ends_well(
    cluster: &mut Cluster,
) {
    ready(cluster, &["given-up", "well"]).await;
    let unhealthy = json!({"status": {"state": "Unhealthy"}});
    cluster.patch::<GameServer>("given-up", unhealthy).await;
    let pods: Api<Pod> = cluster.api();
    standin::status(&pods, "given-up", json!({"phase": "Succeeded"})).await;
    standin::status(&pods, "well", json!({"phase": "Succeeded"})).await;
    cluster.until("the other is gone", async || cluster.servers().await.len() == 1).await;
    let left = cluster.servers().await.remove(0);
    assert_eq!((left.name_any().as_str(), state_of(&left)), ("given-up", "Unhealthy"));
    assert!(left.metadata.deletion_timestamp.is_none());
}

pub(crate) async fn a_server_whose_pod_is_being_deleted_is_not_allocated(cluster: &mut Cluster) {
    ready(cluster, &["free", "used"]).await;
    standin::allocate(&cluster.client, &cluster.namespace, "used").await;
    let held = json!({"metadata": {"finalizers": ["plimsoll.dev/test"]}});
    for name in ["free", "used"] {
        cluster.patch::<Pod>(name, held.clone()).await;
        cluster.delete::<Pod>(name).await;
    }
    cluster
        .until("one is Unhealthy and the other leaves", async || {
            let used = cluster.api::<GameServer>().get("used").await.unwrap();
            let is_leaving = used.annotations().contains_key("plimsoll.dev/leaving");
            let state = state_of(&used);
            assert_eq!(state, "Allocated", "it keeps its players while its pod is there");
            cluster.in_state("Unhealthy").await.len() == 1 && is_leaving
        })
        .await;
    for name in ["free", "used"] {
        cluster.patch::<Pod>(name, json!({"metadata": {"finalizers": null}})).await;
    }
    cluster
        .until("both are Unhealthy", async || cluster.in_state("Unhealthy").await.len() == 2)
        .await;
}

pub(crate) async fn a_server_whose_port_a_stranger_has_gets_another(cluster: &mut Cluster) {
    for (index, node) in cluster.nodes.clone().iter().enumerate() {
        let port = json!({"containerPort": 1, "hostPort": 7000, "protocol": "UDP"});
        let container = json!({"name": "c", "image": "stranger:1", "ports": [port]});
        cluster
            .create::<Pod>(json!({
                "metadata": {"name": format!("stranger-{index}")},
                "spec": {"nodeName": node, "containers": [container]},
            }))
            .await;
    }
    cluster.create::<GameServer>(server("a")).await;
    cluster.until("it is Ready", async || cluster.in_state("Ready").await.len() == 1).await;
    let status = cluster.servers().await.remove(0).status.unwrap();
    assert_ne!(status.ports.unwrap()[0].port, 7000);
}

pub(crate) async fn a_server_in_development_is_ready_at_its_address_without_a_pod(
    cluster: &mut Cluster,
) {
    let mut dev = server("dev");
    dev["metadata"]["annotations"] = json!({"agones.dev/dev-address": "192.168.1.5"});
    dev["spec"]["ports"][0] =
        json!({"name": "game", "portPolicy": "Static", "hostPort": 7777, "containerPort": 7654});
    cluster.create::<GameServer>(dev).await;
    cluster.until("it is Ready", async || cluster.in_state("Ready").await.len() == 1).await;
    let status = cluster.servers().await.remove(0).status.unwrap();
    assert_eq!((status.address.as_str(), status.ports.unwrap()[0].port), ("192.168.1.5", 7777));
    assert!(cluster.pods().await.is_empty());
    cluster.delete::<GameServer>("dev").await;
    cluster.until("it is gone", async || cluster.servers().await.is_empty()).await;
}

pub(crate) async fn a_server_whose_pod_is_refused_reports_the_reason(cluster: &mut Cluster) {
    let mut bad = server("bad");
    bad["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = json!("Sometimes");
    cluster.create::<GameServer>(bad).await;
    cluster.until("it is in Error", async || cluster.in_state("Error").await.len() == 1).await;
    let server = cluster.servers().await.remove(0);
    assert_eq!(state_of(&server), "Error");
    assert!(server.metadata.annotations.unwrap().contains_key("agones.dev/errored-at"));
}
