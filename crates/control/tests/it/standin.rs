//! Stand-ins: for the scheduler and kubelets of the embedded engine, and for the games in pods.

use std::collections::HashSet;

use api::agones::GameServer;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::{Value, json};

/// Makes a node. On a real cluster KWOK plays it.
pub(crate) async fn node(client: &Client, name: &str, test: &str, index: usize) {
    let amounts = json!({"cpu": "64", "memory": "256Gi", "pods": "500"});
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "test": test}},
        "status": {
            "addresses": [{"type": "InternalIP", "address": format!("10.1.0.{}", index + 1)}],
            "capacity": amounts,
            "allocatable": amounts,
        },
    }))
    .unwrap();
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let status = Patch::Merge(json!({"status": node.status}));
    nodes.patch_status(name, &PatchParams::default(), &status).await.unwrap();
}

fn pods_of_games(pods: Api<Pod>) -> impl futures::Stream<Item = Pod> + Unpin {
    let config = watcher::Config::default().labels("agones.dev/role=gameserver");
    let events = watcher(pods, config).default_backoff().applied_objects();
    events.filter_map(|event| async { event.ok() }).boxed()
}

/// Stands in for scheduler and kubelets: puts pods on nodes, says that they run, and lets go of those that are deleted or whose node is gone.
pub(crate) async fn kubelet(client: Client, namespace: String) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let nodes: Api<Node> = Api::all(client.clone());
    let mut changes = pods_of_games(pods.clone());
    let mut gone = watcher(nodes, watcher::Config::default()).boxed();
    let mut turn = 0;
    loop {
        let pod = tokio::select! {
            Some(pod) = changes.next() => pod,
            Some(event) = gone.next() => {
                if let Ok(watcher::Event::Delete(node)) = event {
                    lose(&pods, node.metadata.name.as_deref().unwrap_or_default()).await;
                }
                continue;
            }
        };
        let name = pod.metadata.name.clone().unwrap_or_default();
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let is_bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        if pod.metadata.deletion_timestamp.is_some() {
            drop(pods.delete(&name, &DeleteParams::default().grace_period(0)).await);
        } else if !is_bound {
            turn += 1;
            bind(&client, &pods, &name, turn).await;
        } else if phase.is_none_or(|phase| phase == "Pending") {
            status(&pods, &name, json!({"phase": "Running", "podIPs": [{"ip": "10.2.0.1"}]})).await;
        }
    }
}

/// Takes away the pods of a node that is gone.
async fn lose(pods: &Api<Pod>, node: &str) {
    let there = ListParams::default().fields(&format!("spec.nodeName={node}"));
    for pod in pods.list(&there).await.map(|list| list.items).unwrap_or_default() {
        let name = pod.metadata.name.unwrap_or_default();
        drop(pods.delete(&name, &DeleteParams::default().grace_period(0)).await);
    }
}

/// Puts a pod on one of the nodes, in turn.
async fn bind(client: &Client, pods: &Api<Pod>, name: &str, turn: usize) {
    let nodes: Api<Node> = Api::all(client.clone());
    let Ok(nodes) = nodes.list(&ListParams::default()).await else { return };
    let Some(node) = nodes.items.get(turn % nodes.items.len().max(1)) else { return };
    let target = ObjectReference {
        kind: Some("Node".to_owned()),
        name: node.metadata.name.clone(),
        ..ObjectReference::default()
    };
    let binding = Binding { target, ..Binding::default() };
    // Someone else may have put it somewhere, or it is gone.
    let params = PostParams::default();
    drop(pods.create_subresource::<_, Value>("binding", name, &params, &binding).await);
}

/// Says what a pod is.
pub(crate) async fn status(pods: &Api<Pod>, name: &str, status: Value) {
    let status = Patch::Merge(json!({"status": status}));
    drop(pods.patch_status(name, &PatchParams::default(), &status).await);
}

/// Stands in for the games: each says that it is ready as soon as its pod runs.
pub(crate) async fn games(client: Client, namespace: String) {
    let mut changes = pods_of_games(Api::namespaced(client.clone(), &namespace));
    let mut begun: HashSet<String> = HashSet::new();
    while let Some(pod) = changes.next().await {
        let is_running =
            pod.status.is_some_and(|status| status.phase.as_deref() == Some("Running"));
        if is_running && begun.insert(pod.metadata.uid.unwrap_or_default()) {
            let name = pod.metadata.name.unwrap_or_default();
            say(&client, &namespace, &name, "RequestReady").await;
        }
    }
}

/// Writes the state that the SDK server of a game would write.
pub(crate) async fn say(client: &Client, namespace: &str, name: &str, state: &str) {
    let servers: Api<GameServer> = Api::namespaced(client.clone(), namespace);
    let change = Patch::Merge(json!({"status": {"state": state}}));
    drop(servers.patch(name, &PatchParams::default(), &change).await);
}
