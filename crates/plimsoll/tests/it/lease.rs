//! `up` and `run` on one API: only one of them is active, and a restart continues where a kill interrupted it.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::ApiResource;
use kube::{Client, Config};
use serde_json::json;

use crate::plimsoll;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_controller_waits_and_a_killed_up_takes_its_own_lease_over() {
    let dir = tempfile::tempdir().unwrap();
    let listen = format!("127.0.0.1:{}", free_port());
    let up = |name: &str| {
        let mut command = plimsoll();
        command.args(["up", "--simulated-nodes", "1", "--listen", &listen, "--data"]);
        Process::start(command.arg(dir.path()), dir.path(), name)
    };
    let first = up("first");
    first.until("export KUBECONFIG=").await;
    let client = client(dir.path()).await;
    let mut beside = plimsoll();
    beside.arg("run").arg("--kubeconfig").arg(dir.path().join("kubeconfig"));
    // The variable of a pod does not lead to another Lease than that of `up`.
    beside.env_remove("POD_NAME").env("POD_NAMESPACE", "elsewhere");
    let beside = Process::start(&mut beside, dir.path(), "beside");
    beside.until("another process is the leader").await;
    fleet(&client, 2).await;
    servers(&client, 2).await;
    let before = lease(&client).await;
    first.kill();

    let second = up("second");
    second.until("export KUBECONFIG=").await;
    fleet(&client, 3).await;
    servers(&client, 3).await;
    let after = lease(&client).await;
    assert!(
        before.holder_identity.as_ref().is_some_and(|holder| holder.starts_with("plimsoll-up"))
    );
    assert_eq!(before.holder_identity, after.holder_identity);
    assert_eq!(
        before.lease_transitions, after.lease_transitions,
        "the lease changed hands in between"
    );
    assert!(!second.says("another process is the leader"), "it does not wait for another leader");
    assert!(!beside.says("became leader"), "{}", beside.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_controllers_without_a_pod_name_one_is_active() {
    let dir = tempfile::tempdir().unwrap();
    let mut up = plimsoll();
    up.args(["up", "--api-only", "--ephemeral", "--listen", "127.0.0.1:0", "--data"]);
    let up = Process::start(up.arg(dir.path()), dir.path(), "up");
    up.until("export KUBECONFIG=").await;
    // Process ids are often the same in different containers: there they are all 1.
    let run = |name: &str| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child"]).arg(env!("CARGO_BIN_EXE_plimsoll"));
        command.arg("run").arg("--kubeconfig").arg(dir.path().join("kubeconfig"));
        command.env_remove("POD_NAME").env_remove("POD_NAMESPACE");
        Process::start(&mut command, dir.path(), name)
    };
    if !Command::new("unshare")
        .args(["--pid", "--fork", "true"])
        .status()
        .is_ok_and(|s| s.success())
    {
        eprintln!("skipped: this machine does not let us make namespaces for process ids");
        return;
    }
    let one = run("one");
    one.until("became leader").await;
    let two = run("two");
    two.until("another process is the leader").await;
    assert!(!two.says("became leader"), "{}", two.log());
}

/// A process of ours, with what it says in a file.
struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    fn start(command: &mut Command, dir: &Path, name: &str) -> Self {
        let log = dir.join(format!("{name}.log"));
        let file = File::create(&log).unwrap();
        let child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        Self { child, log }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    fn says(&self, text: &str) -> bool {
        self.log().contains(text)
    }

    async fn until(&self, text: &str) {
        until(&format!("{text}\n{}", self.log.display()), async || self.says(text)).await;
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so().await {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn client(dir: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(dir.join("kubeconfig")).unwrap();
    let options = KubeConfigOptions::default();
    Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap()).unwrap()
}

/// Makes the fleet, or gives it a size.
async fn fleet(client: &Client, replicas: u32) {
    let kind = ApiResource::erase::<api::agones::Fleet>(&());
    let fleets: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &kind);
    if fleets.get_opt("f").await.unwrap().is_some() {
        let size = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        fleets.patch("f", &PatchParams::default(), &size).await.unwrap();
        return;
    }
    let template = json!({
        "ports": [{"name": "game", "containerPort": 7654}],
        "template": {"spec": {"containers": [{"name": "game", "image": "game:1"}]}},
    });
    let fleet = json!({
        "apiVersion": "agones.dev/v1", "kind": "Fleet", "metadata": {"name": "f"},
        "spec": {"replicas": replicas, "template": {"spec": template}},
    });
    fleets.create(&PostParams::default(), &serde_json::from_value(fleet).unwrap()).await.unwrap();
}

/// Waits until there are so many game servers.
async fn servers(client: &Client, count: usize) {
    let kind = ApiResource::erase::<api::agones::GameServer>(&());
    let servers: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &kind);
    until(&format!("{count} game servers"), async || {
        servers.list(&ListParams::default()).await.unwrap().items.len() == count
    })
    .await;
}

async fn lease(client: &Client) -> LeaseSpec {
    let leases: Api<Lease> = Api::default_namespaced(client.clone());
    leases.get("plimsoll-controller-lock").await.unwrap().spec.unwrap()
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
