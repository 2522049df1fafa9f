//! The processes that are attacked, and whether they still work.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use api::agones::Fleet;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::discovery::Discovery;
use kube::{Client, Config, ResourceExt as _};
use serde_json::{Value, json};

use crate::lease::free_port;
use crate::plimsoll;

/// Where attackers write, and where they leave things for the restart.
pub(super) const NAMESPACES: [&str; 2] = ["attacked", "kept"];

/// Any of our programs, with what it says in a file.
struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    fn start(mut command: Command, log: PathBuf) -> Self {
        let file = File::create(&log).unwrap();
        let child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        Self { child, log }
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap()).into_owned()
    }

    /// Waits for a line that begins so, and gives the rest of it.
    async fn says(&mut self, start: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let log = self.log();
            if let Some(rest) = log.lines().find_map(|line| line.strip_prefix(start)) {
                return rest.trim().to_owned();
            }
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < deadline, "{start}: {ended:?}\n{log}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn is_the_same(&mut self) {
        let ended = self.child.try_wait().unwrap();
        let log = self.log();
        let end = log.lines().rev().take(40).collect::<Vec<_>>();
        assert!(ended.is_none(), "it ended: {ended:?}\n{end:#?}");
        let panics: Vec<_> = log.lines().filter(|line| line.contains("panicked")).take(5).collect();
        assert!(panics.is_empty(), "tasks of it panicked: {panics:#?}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running `plimsoll up`.
pub(super) struct Up {
    process: std::cell::RefCell<Process>,
    kubeconfig: Kubeconfig,
    /// The same, as it is written.
    access: Value,
    pub(super) allocator: SocketAddr,
    pub(super) metrics: SocketAddr,
}

impl Up {
    pub(super) async fn start(dir: &Path) -> Self {
        let metrics = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let mut command = plimsoll();
        command.args(["up", "--simulated-nodes", "2", "--listen", "127.0.0.1:0"]);
        command.args(["--allocator", "127.0.0.1:0", "--metrics", &metrics.to_string(), "--data"]);
        command.arg(dir.join("data")).env("PLIMSOLL_LOG", "error");
        let mut process = Process::start(command, dir.join("up.log"));
        let url = process.says("allocator (gRPC and REST) at http://").await;
        let written = fs::read_to_string(dir.join("data/kubeconfig")).unwrap();
        let access = serde_saphyr::from_str(&written).unwrap();
        let kubeconfig = Kubeconfig::from_yaml(&written).unwrap();
        Self {
            process: process.into(),
            kubeconfig,
            access,
            allocator: url.parse().unwrap(),
            metrics,
        }
    }

    pub(super) async fn client(&self) -> Client {
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(self.kubeconfig.clone(), &options).await;
        Client::try_from(config.unwrap()).unwrap()
    }

    /// Returns where the API is, the certificate to trust, and the token.
    pub(super) fn access(&self) -> (SocketAddr, String, String) {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let cluster = &self.access["clusters"][0]["cluster"];
        let server = text(&cluster["server"]);
        let address = server.trim_start_matches("https://").parse().unwrap();
        let token = text(&self.access["users"][0]["user"]["token"]);
        (address, text(&cluster["certificate-authority-data"]), token)
    }

    /// Makes what attackers and honest clients meet.
    pub(super) async fn prepare(&self) {
        let client = self.client().await;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        for name in NAMESPACES {
            let namespace = json!({"metadata": {"name": name}});
            let namespace = serde_json::from_value(namespace).unwrap();
            namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        }
        let template = json!({
            "ports": [{"name": "game", "containerPort": 7654}],
            "template": {"spec": {"containers": [{"name": "game", "image": "game:1"}]}},
        });
        let fleet = json!({
            "apiVersion": "agones.dev/v1", "kind": "Fleet", "metadata": {"name": "honest"},
            "spec": {"replicas": 2, "template": {"spec": template}},
        });
        let fleets: Api<Fleet> = Api::default_namespaced(client);
        let fleet = serde_json::from_value(fleet).unwrap();
        fleets.create(&PostParams::default(), &fleet).await.unwrap();
    }

    pub(super) fn is_the_same_process(&self) {
        self.process.borrow_mut().is_the_same();
    }

    /// Checks that every part still does its work: the API, the controllers, the scheduler, the allocator, metrics.
    pub(super) async fn works(&self, ready: i32) {
        let client = self.client().await;
        let readyz = http::Request::get("/readyz").body(Vec::new()).unwrap();
        assert_eq!(client.request_text(readyz).await.unwrap(), "ok");
        let fleets: Api<Fleet> = Api::default_namespaced(client.clone());
        // Attackers may have got some.
        let status = fleets.get("honest").await.unwrap().status.unwrap_or_default();
        let replicas = status.allocated_replicas + ready;
        let size = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        fleets.patch("honest", &PatchParams::default(), &size).await.unwrap();
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let status = fleets.get("honest").await.unwrap().status.unwrap_or_default();
            if status.ready_replicas >= ready {
                break;
            }
            assert!(Instant::now() < deadline, "the fleet does not grow: {status:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let url = format!("http://{}/gameserverallocation", self.allocator);
        let asked = r#"{"gameServerSelectors": [{"matchLabels": {"agones.dev/fleet": "honest"}}]}"#;
        let output = curl(&["--data", asked, &url]);
        assert!(output.contains("gameServerName"), "{output}");
        let output = curl(&[&format!("http://{}/metrics", self.metrics)]);
        assert!(output.contains("agones_"), "{output}");
    }

    /// Deletes what attackers left in one namespace, with the namespace.
    pub(super) async fn clear(&self) {
        let namespaces: Api<Namespace> = Api::all(self.client().await);
        namespaces.delete(NAMESPACES[0], &DeleteParams::default()).await.unwrap();
        let deadline = Instant::now() + Duration::from_secs(180);
        while let Some(left) = namespaces.get_opt(NAMESPACES[0]).await.unwrap() {
            let status = serde_json::to_string(&left.status).unwrap();
            if Instant::now() >= deadline {
                let pods: Api<Pod> = Api::namespaced(self.client().await, NAMESPACES[0]);
                let pods = pods.list(&ListParams::default()).await.unwrap().items;
                let pods: Vec<_> = pods.into_iter().map(|pod| pod.metadata).collect();
                panic!("the namespace does not end: {status}; its pods: {pods:#?}");
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Reads all objects of all kinds.
    pub(super) async fn lists_everything(&self) {
        let client = self.client().await;
        let secrets: Api<Secret> = Api::all(client.clone());
        secrets.list(&ListParams::default()).await.unwrap();
        let discovery = Discovery::new(client.clone()).run().await.unwrap();
        for (kind, can) in discovery.groups().flat_map(|group| group.recommended_resources()) {
            if !can.supports_operation("list") {
                continue;
            }
            let all: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
            let found = all.list(&ListParams::default()).await;
            let found = found.unwrap_or_else(|err| panic!("{}: {err}", kind.plural));
            found.items.iter().for_each(|object| drop(object.name_any()));
        }
    }

    /// Returns how much memory the process has, in MiB.
    pub(super) fn memory(&self) -> u64 {
        let id = self.process.borrow().child.id();
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        kib / 1024
    }

    pub(super) fn kill(self) {
        drop(self.process.into_inner());
    }
}

/// The SDK server, as it is beside a game server.
pub(super) struct SdkServer {
    process: std::cell::RefCell<Process>,
    pub(super) rest: SocketAddr,
    pub(super) grpc: SocketAddr,
}

impl SdkServer {
    pub(super) async fn start(dir: &Path) -> Self {
        let [rest, grpc, health] =
            [(); 3].map(|()| SocketAddr::from(([127, 0, 0, 1], free_port())));
        let mut command = plimsoll();
        command.args([
            "sdk-server",
            "--local",
            "--address=127.0.0.1",
            "--health-address=127.0.0.1",
        ]);
        command.arg(format!("--http-port={}", rest.port()));
        command.arg(format!("--grpc-port={}", grpc.port()));
        command.arg(format!("--health-port={}", health.port()));
        let process = Process::start(command, dir.join("sdk.log"));
        let deadline = Instant::now() + Duration::from_secs(60);
        while tokio::net::TcpStream::connect(rest).await.is_err() {
            assert!(Instant::now() < deadline, "the SDK server does not listen: {}", process.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Self { process: process.into(), rest, grpc }
    }

    pub(super) fn is_the_same_process(&self) {
        self.process.borrow_mut().is_the_same();
        let output = curl(&[&format!("http://{}/gameserver", self.rest)]);
        assert!(output.contains("object_meta") || output.contains("objectMeta"), "{output}");
    }
}

fn curl(args: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--noproxy", "*", "--max-time", "60"]);
    let done = command.args(args).output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}
