//! The SDK server in this process, for a game server on the embedded engine.

mod changes;
mod life;
mod trouble;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api::agones::GameServer;
use engine::{Engine, Settings as EngineSettings};
use futures::StreamExt as _;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use plimsoll_serve::sdk::{Error, Listeners, Settings, run};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

/// How long something may take before the test says that it never happens.
const NEVER: Duration = Duration::from_secs(30);

/// One game server and its SDK server.
struct World {
    engine: Engine,
    servers: Api<GameServer>,
    writes: Arc<AtomicUsize>,
    sdk: Option<Running>,
    controller: JoinHandle<()>,
}

struct Running {
    grpc: u16,
    http: u16,
    health: u16,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

impl World {
    /// Makes a game server with something changed, and an SDK server for it.
    async fn new(change: Value) -> Self {
        let mut world = Self::without_sdk(change).await;
        world.start(settings()).await;
        world
    }

    async fn without_sdk(change: Value) -> Self {
        let engine = Engine::open(EngineSettings::ephemeral()).await.unwrap();
        let servers: Api<GameServer> = Api::default_namespaced(engine.client());
        let mut object = json!({
            "apiVersion": "agones.dev/v1",
            "kind": "GameServer",
            "metadata": {"name": "gs"},
            "spec": {
                "health": {"disabled": true},
                "template": {"spec": {"containers": [{"name": "game", "image": "game"}]}},
            },
        });
        merge(&mut object, &change);
        let object = serde_json::from_value(object).unwrap();
        servers.create(&PostParams::default(), &object).await.unwrap();
        // The part of a controller that brought it this far.
        let status = json!({"status": {
            "state": "Scheduled",
            "address": "192.0.2.1",
            "counters": {"rooms": {"count": 1, "capacity": 10}},
            "lists": {"players": {"capacity": 100, "values": ["test0", "test1", "test2"]}},
        }});
        let mut status = status;
        merge(&mut status, &json!({"status": change["status"]}));
        servers.patch("gs", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        let controller = tokio::spawn(make_ready(servers.clone()));
        Self { engine, servers, writes: Arc::default(), sdk: None, controller }
    }

    async fn start(&mut self, settings: Settings) {
        let counter = Arc::clone(&self.writes);
        let counted = self.engine.service().map_request(move |request: http::Request<_>| {
            let is_write = request.method() == http::Method::PATCH;
            if is_write && request.uri().path().contains("/gameservers/") {
                counter.fetch_add(1, Ordering::SeqCst);
            }
            request
        });
        self.start_with(settings, kube::Client::new(counted, "default")).await;
    }

    /// Starts an SDK server that reaches the engine through `client`.
    async fn start_with(&mut self, settings: Settings, client: kube::Client) {
        let bind = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listeners =
            Listeners { grpc: bind().await, http: bind().await, health: Some(bind().await) };
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let (grpc, http) = (port(&listeners.grpc), port(&listeners.http));
        let health = listeners.health.as_ref().map(port).unwrap();
        let (stop, stopped) = oneshot::channel();
        let stopped = async { drop(stopped.await) };
        let task = tokio::spawn(run(client, settings, listeners, stopped));
        self.sdk = Some(Running { grpc, http, health, stop, task });
    }

    /// Ends the SDK server, as its pod would.
    async fn stop(&mut self) {
        let running = self.sdk.take().unwrap();
        let _ = running.stop.send(());
        tokio::time::timeout(NEVER, running.task).await.unwrap().unwrap().unwrap();
    }

    async fn client(&self) -> agones::Sdk {
        agones::Sdk::new(Some(self.sdk.as_ref().unwrap().grpc), None).await.unwrap()
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.sdk.as_ref().unwrap().http)
    }

    fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    async fn stored(&self) -> Value {
        serde_json::to_value(self.servers.get("gs").await.unwrap()).unwrap()
    }

    /// Waits until the stored object is as wanted.
    async fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let wait = async {
            loop {
                let stored = self.stored().await;
                if is_so(&stored) {
                    return stored;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        match tokio::time::timeout(NEVER, wait).await {
            Ok(stored) => stored,
            Err(_) => panic!("never: {what}; it is {:#}", self.stored().await["status"]),
        }
    }

    async fn until_state(&self, state: &str) -> Value {
        self.until(state, |stored| stored["status"]["state"] == state).await
    }

    async fn patch(&self, patch: Value) {
        self.servers.patch("gs", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.controller.abort();
        if let Some(running) = &self.sdk {
            running.task.abort();
        }
    }
}

/// Settings that do not make tests wait.
fn settings() -> Settings {
    Settings { rate_limit: Duration::from_millis(20), ..Settings::new("default", "gs") }
}

fn merge(into: &mut Value, change: &Value) {
    if let (Value::Object(into), Value::Object(change)) = (&mut *into, change) {
        for (key, value) in change {
            merge(into.entry(key).or_insert(Value::Null), value);
        }
    } else if !change.is_null() {
        *into = change.clone();
    }
}

/// Acts as the controller: sets game servers in RequestReady to Ready.
async fn make_ready(servers: Api<GameServer>) {
    let mut changes =
        watcher(servers.clone(), watcher::Config::default()).applied_objects().boxed();
    while let Some(Ok(server)) = changes.next().await {
        let Some(status) = server.status else { continue };
        if status.state == "RequestReady" {
            let version = server.metadata.resource_version;
            let ready =
                json!({"metadata": {"resourceVersion": version}, "status": {"state": "Ready"}});
            // On a conflict, the watch delivers the newer object.
            let _ = servers.patch("gs", &PatchParams::default(), &Patch::Merge(ready)).await;
        }
    }
}

/// Runs the real curl and gives what it prints.
async fn curl(args: &[&str]) -> String {
    let mut curl = tokio::process::Command::new("curl");
    curl.args(["-sS", "--max-time", "30"]).args(args).kill_on_drop(true);
    String::from_utf8(curl.output().await.unwrap().stdout).unwrap()
}
