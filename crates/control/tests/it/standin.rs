//! A stand-in for the games: the pods of these tests run no processes, so it acts as the game of each Running pod, through a real SDK server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::agones::GameServer;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use serve::sdk;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Makes a node: a simulated one of the embedded engine, or one that KWOK plays.
pub(crate) async fn node(client: &Client, name: &str, test: &str, index: usize) {
    let amounts = json!({"cpu": "64", "memory": "256Gi", "pods": "500"});
    let labels =
        json!({"kubernetes.io/hostname": name, "test": test, "plimsoll.dev/simulated": "true"});
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels},
        "status": {
            "addresses": addresses(index),
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }))
    .unwrap();
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let status = Patch::Merge(json!({"status": node.status}));
    nodes.patch_status(name, &PatchParams::default(), &status).await.unwrap();
}

/// Restores the addresses of nodes, which KWOK removes when it first observes them, for as long as it is polled.
pub(crate) async fn keep_addresses(client: Client, names: Vec<String>) {
    let nodes: Api<Node> = Api::all(client);
    loop {
        for (index, name) in names.iter().enumerate() {
            let Ok(Some(node)) = nodes.get_opt(name).await else { continue };
            if node.status.and_then(|status| status.addresses).is_none_or(|all| all.is_empty()) {
                let addresses = json!({"status": {"addresses": addresses(index)}});
                drop(
                    nodes
                        .patch_status(name, &PatchParams::default(), &Patch::Merge(addresses))
                        .await,
                );
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn addresses(index: usize) -> Value {
    json!([{"type": "InternalIP", "address": format!("10.1.0.{}", index + 1)}])
}

/// The games that are being played.
#[derive(Clone, Default)]
pub(crate) struct Games(Arc<Mutex<HashMap<String, mpsc::UnboundedSender<Order>>>>);

/// An order to a game process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// Stop sending health pings.
    FallSilent,
    /// Call `Shutdown()`.
    ShutDown,
}

impl Games {
    /// Sends an order to the game process of a server.
    pub(crate) fn order(&self, server: &str, order: Order) {
        self.0.lock().unwrap()[server].send(order).unwrap();
    }

    /// Acts as the games for as long as it is polled.
    pub(crate) async fn play(self, client: Client, namespace: String) {
        let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        let config = watcher::Config::default().labels("agones.dev/role=gameserver");
        let mut changes = watcher(pods, config).default_backoff().boxed();
        let mut played: HashMap<String, JoinSet<()>> = HashMap::new();
        while let Some(change) = changes.next().await {
            match change {
                Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => {
                    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                    let uid = pod.uid().unwrap();
                    if phase == Some("Running") && !played.contains_key(&uid) {
                        let (sender, orders) = mpsc::unbounded_channel();
                        self.0.lock().unwrap().insert(pod.name_any(), sender);
                        let pings = is_watched(&pod);
                        let game =
                            game(client.clone(), namespace.clone(), pod.name_any(), pings, orders);
                        played.entry(uid).or_default().spawn(game);
                    }
                }
                Ok(watcher::Event::Delete(pod)) => drop(played.remove(&pod.uid().unwrap())),
                Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_) => {}
            }
        }
    }
}

/// Whether health is checked: a simulated day of checks takes long.
fn is_watched(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    spec.is_some_and(|spec| spec.containers.iter().any(|c| c.liveness_probe.is_some()))
}

/// Acts as one game with an SDK server of its own.
async fn game(
    client: Client,
    namespace: String,
    name: String,
    pings: bool,
    mut orders: mpsc::UnboundedReceiver<Order>,
) {
    let listen = || TcpListener::bind("127.0.0.1:0");
    let (grpc, http) = (listen().await.unwrap(), listen().await.unwrap());
    let port = http.local_addr().unwrap().port();
    let listeners = sdk::Listeners { grpc, http, health: None };
    let rate_limit = Duration::from_millis(10);
    let settings = sdk::Settings { rate_limit, ..sdk::Settings::new(namespace, name) };
    let game = async {
        while !call(port, "/ready").await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        loop {
            let pause = tokio::time::sleep(Duration::from_millis(200));
            tokio::select! {
                () = pause, if pings => drop(call(port, "/health").await),
                order = orders.recv() => match order {
                    Some(Order::ShutDown) => drop(call(port, "/shutdown").await),
                    Some(Order::FallSilent) | None => std::future::pending().await,
                }
            }
        }
    };
    tokio::select! {
        ended = sdk::run(client, settings, listeners, std::future::pending()) => ended.unwrap(),
        () = game => {}
    }
}

/// Calls the SDK server as a game does that has no library for it.
async fn call(port: u16, path: &str) -> bool {
    let exchange = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    exchange.await.is_ok_and(|answer| answer.starts_with(b"HTTP/1.1 200"))
}

/// Writes the status of a pod, as its kubelet would.
pub(crate) async fn status(pods: &Api<Pod>, name: &str, status: Value) {
    let status = Patch::Merge(json!({"status": status}));
    pods.patch_status(name, &PatchParams::default(), &status).await.unwrap();
}

/// Allocates a game server, as an allocator would.
pub(crate) async fn allocate(client: &Client, namespace: &str, name: &str) {
    let servers: Api<GameServer> = Api::namespaced(client.clone(), namespace);
    let change = Patch::Merge(json!({"status": {"state": "Allocated"}}));
    servers.patch(name, &PatchParams::default(), &change).await.unwrap();
}
