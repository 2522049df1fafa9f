//! A stand-in for scheduler, kubelet and game: it puts pods on nodes, says that they run, calls `Ready()` by writing the state that the SDK server
//! would write, and lets pods go that are deleted.

use std::collections::HashSet;

use api::agones::GameServer;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::{Value, json};

/// Pods with this annotation never say that they are ready.
pub(crate) const SILENT: &str = "test/silent";

/// Makes a node.
pub(crate) async fn node(client: &Client, name: &str, index: usize) {
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "addresses": [{"type": "InternalIP", "address": format!("10.1.0.{}", index + 1)}],
            "capacity": {"cpu": "64", "memory": "256Gi", "pods": "2000"},
            "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "2000"},
        },
    }))
    .unwrap();
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let status = Patch::Merge(json!({"status": node.status}));
    nodes.patch_status(name, &PatchParams::default(), &status).await.unwrap();
}

/// Runs pods for as long as it is polled.
pub(crate) async fn run(client: Client, namespace: String) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let config = watcher::Config::default().labels("agones.dev/role=gameserver");
    let mut events = watcher(pods.clone(), config).applied_objects().boxed();
    let mut next = 0;
    let mut begun: HashSet<String> = HashSet::new();
    while let Some(event) = events.next().await {
        let Ok(pod) = event else { continue };
        let name = pod.metadata.name.clone().unwrap_or_default();
        let spec = pod.spec.clone().unwrap_or_default();
        if pod.metadata.deletion_timestamp.is_some() {
            let now = DeleteParams::default().grace_period(0);
            drop(pods.delete(&name, &now).await);
            continue;
        }
        if spec.node_name.is_none() {
            next += 1;
            bind(&client, &pods, &name, next).await;
            continue;
        }
        if begun.insert(pod.metadata.uid.clone().unwrap_or_default()) {
            let running = json!({"status": {"phase": "Running", "podIPs": [{"ip": "10.2.0.1"}]}});
            status(&pods, &name, running).await;
            let annotations = pod.metadata.annotations.unwrap_or_default();
            if !annotations.contains_key(SILENT) {
                play(&client, &namespace, &name).await;
            }
        }
    }
}

/// Puts a pod on one of the nodes, in turn.
async fn bind(client: &Client, pods: &Api<Pod>, name: &str, turn: usize) {
    let nodes: Api<Node> = Api::all(client.clone());
    let Ok(nodes) = nodes.list(&ListParams::default()).await else { return };
    let Some(node) = nodes.items.get(turn % nodes.items.len().max(1)) else { return };
    let binding = Binding {
        target: ObjectReference {
            kind: Some("Node".to_owned()),
            name: node.metadata.name.clone(),
            ..ObjectReference::default()
        },
        ..Binding::default()
    };
    // Someone else may have put it somewhere, or it is gone.
    drop(
        pods.create_subresource::<_, Value>("binding", name, &PostParams::default(), &binding)
            .await,
    );
}

/// Says what a pod is.
pub(crate) async fn status(pods: &Api<Pod>, name: &str, status: Value) {
    drop(pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await);
}

/// Says `Ready()` for a game server.
async fn play(client: &Client, namespace: &str, name: &str) {
    let servers: Api<GameServer> = Api::namespaced(client.clone(), namespace);
    let ready = Patch::Merge(json!({"status": {"state": "RequestReady"}}));
    drop(servers.patch(name, &PatchParams::default(), &ready).await);
}
