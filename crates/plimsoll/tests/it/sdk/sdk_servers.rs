//! The three ways to run an SDK server, each with a game server in the same state.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use api::agones::GameServer;
use engine::{Engine, Listening, Settings as EngineSettings};
use futures::StreamExt as _;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::json;
use serve::sdk::{Listeners, Settings};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::plimsoll;

/// How long something may take before the test says that it never happens.
pub(super) const NEVER: Duration = Duration::from_secs(60);

/// An SDK server, and everything that ends with it.
pub(super) struct SdkServer {
    pub(super) grpc: u16,
    pub(super) http: u16,
    process: Option<Running>,
    tasks: Vec<JoinHandle<()>>,
    cluster: Option<(Engine, Option<Listening>, tempfile::TempDir)>,
}

impl Drop for SdkServer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// A process of the program that is killed with the test.
pub(super) struct Running(pub(super) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Asks it to end.
    pub(super) fn terminate(&self) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    }

    /// Asks it to end, and gives its exit code.
    pub(super) fn end(&mut self) -> Option<i32> {
        self.terminate();
        self.0.wait().unwrap().code()
    }
}

/// An SDK server in this process.
pub(super) async fn in_process() -> SdkServer {
    let (engine, controller) = cluster().await;
    let bind = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listeners =
        Listeners { grpc: bind().await, http: bind().await, health: Some(bind().await) };
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    let (grpc, http) = (port(&listeners.grpc), port(&listeners.http));
    let settings =
        Settings { rate_limit: Duration::from_millis(20), ..Settings::new("default", "gs") };
    let client = engine.client();
    let server = tokio::spawn(async move {
        serve::sdk::run(client, settings, listeners, std::future::pending()).await.unwrap();
    });
    let cluster = Some((engine, None, tempfile::tempdir().unwrap()));
    SdkServer { grpc, http, process: None, tasks: vec![controller, server], cluster }
}

/// An SDK server in a process of its own, which reaches its game server over TLS.
pub(super) async fn sidecar() -> SdkServer {
    let (engine, controller) = cluster().await;
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    let listening = engine.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    engine.write_kubeconfig(&kubeconfig, &listening).unwrap();
    let mut command = plimsoll();
    command.args(["sdk-server", "--health-address", "127.0.0.1", "--health-port", "0"]);
    command.args(["--gameserver-name", "gs", "--pod-namespace", "default"]);
    command.args(["--request-rate-limit", "20ms", "--kubeconfig"]).arg(&kubeconfig);
    let (process, grpc, http) = start(command);
    let cluster = Some((engine, Some(listening), dir));
    SdkServer { grpc, http, process: Some(process), tasks: vec![controller], cluster }
}

/// The stand-in with no control plane.
pub(super) fn local(args: &[&str]) -> SdkServer {
    let mut command = plimsoll();
    command.args(["sdk-server", "--local"]).args(args);
    let (process, grpc, http) = start(command);
    SdkServer { grpc, http, process: Some(process), tasks: Vec::new(), cluster: None }
}

impl SdkServer {
    pub(super) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.http)
    }

    pub(super) async fn client(&self) -> agones::Sdk {
        agones::Sdk::new(Some(self.grpc), None).await.unwrap()
    }

    /// Ends the process behind it, and gives its exit code.
    pub(super) fn end(mut self) -> Option<i32> {
        self.process.take().expect("it is a process").end()
    }

    /// Waits for the process behind it to end by itself, and gives its exit code.
    pub(super) fn wait(mut self) -> Option<i32> {
        self.process.take().expect("it is a process").0.wait().unwrap().code()
    }

    /// Returns what the control plane has, where there is one.
    pub(super) async fn stored(&self) -> Option<serde_json::Value> {
        let (engine, ..) = self.cluster.as_ref()?;
        let servers: Api<GameServer> = Api::default_namespaced(engine.client());
        Some(serde_json::to_value(servers.get("gs").await.unwrap()).unwrap())
    }
}

/// Starts the program on free ports and waits until it says which.
fn start(mut command: Command) -> (Running, u16, u16) {
    command.args(["--grpc-port", "0", "--http-port", "0"]);
    for key in ["KUBECONFIG", "LOCAL", "FILE", "TEST", "TIMEOUT", "DELAY", "ADDRESS"] {
        command.env_remove(key);
    }
    let mut child = Running(command.stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stderr.take().unwrap()).lines();
    let line = lines.find_map(|line| line.ok().filter(|line| line.contains("gRPC at"))).unwrap();
    // The other lines go to the output of the test, for failures.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| eprintln!("{line}")));
    let ports: Vec<u16> = line
        .split(':')
        .filter_map(|part| {
            part.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
        })
        .collect();
    assert_eq!(ports.len(), 2, "{line}");
    (child, ports[0], ports[1])
}

async fn cluster() -> (Engine, JoinHandle<()>) {
    let engine = Engine::open(EngineSettings::ephemeral()).await.unwrap();
    let servers: Api<GameServer> = Api::default_namespaced(engine.client());
    let object = json!({
        "apiVersion": "agones.dev/v1",
        "kind": "GameServer",
        "metadata": {"name": "gs"},
        "spec": {
            "health": {"disabled": true},
            "template": {"spec": {"containers": [{"name": "game", "image": "game"}]}},
        },
    });
    let object = serde_json::from_value(object).unwrap();
    servers.create(&PostParams::default(), &object).await.unwrap();
    let status = json!({"status": {
        "state": "Scheduled",
        "address": "192.0.2.1",
        "counters": {"rooms": {"count": 1, "capacity": 10}},
        "lists": {"players": {"capacity": 100, "values": ["test0", "test1", "test2"]}},
    }});
    servers.patch("gs", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    (engine, tokio::spawn(make_ready(servers)))
}

/// Acts as the controller: sets game servers in RequestReady to Ready.
async fn make_ready(servers: Api<GameServer>) {
    let mut changes =
        watcher(servers.clone(), watcher::Config::default()).applied_objects().boxed();
    while let Some(Ok(server)) = changes.next().await {
        if server.status.is_some_and(|status| status.state == "RequestReady") {
            let version = server.metadata.resource_version;
            let ready =
                json!({"metadata": {"resourceVersion": version}, "status": {"state": "Ready"}});
            // On a conflict, the watch delivers the newer object.
            let _ = servers.patch("gs", &PatchParams::default(), &Patch::Merge(ready)).await;
        }
    }
}
