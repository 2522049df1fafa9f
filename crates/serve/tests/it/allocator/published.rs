//! Published clients: grpcio for Python, curl, and kubectl; on the embedded engine and on a real API server.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use plimsoll_serve::allocator::{Endpoint, Endpoints, Settings, serve};
use serde_json::json;
use tokio::net::TcpListener;

use super::World;
use super::certificates::{Authority, files};
use super::real::{Real, from_env};
use super::world::{create, followed};

/// The name under which the API server calls the allocator.
const NAME: &str = "plimsoll-test-allocator";

/// Both endpoints of an allocator with all certificates, until this is dropped.
struct Open {
    dir: tempfile::TempDir,
    authority: Authority,
    matchmakers: u16,
    aggregated: Option<u16>,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Open {
    async fn new(client: &Client, namespace: &str, is_aggregated: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (authority, callers) = (Authority::new("servers"), Authority::new("callers"));
        let service = format!("{NAME}.{namespace}.svc");
        let tls = files(dir.path(), &authority.server(&["localhost", &service]), &callers);
        std::fs::write(dir.path().join("ca.crt"), &authority.pem).unwrap();
        callers.caller("matchmaker").write(dir.path(), "caller");
        let endpoint = async || {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            Endpoint { listener, tls: Some(tls.clone()), allow_anonymous: false }
        };
        let port = |endpoint: &Endpoint| endpoint.listener.local_addr().unwrap().port();
        let matchmakers = endpoint().await;
        let aggregated = if is_aggregated { Some(endpoint().await) } else { None };
        let ports = (port(&matchmakers), aggregated.as_ref().map(port));
        let endpoints = Endpoints { matchmakers: Some(matchmakers), aggregated };
        let client = client.clone();
        let serving = tokio::spawn(async move {
            let settings = Settings::default();
            let caches = followed(&client, true, &settings.supervisor);
            serve(client, caches, settings, endpoints, std::future::pending()).await.unwrap();
        });
        Self { dir, authority, matchmakers: ports.0, aggregated: ports.1, serving }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns what the Python program printed, line by line.
    async fn python(&self, python: &Path, namespace: &str, count: usize) -> Vec<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(python);
        command.arg(root.join("tests/clients/allocate.py"));
        command.arg("--proto").arg(root.join("../api/proto/allocation.proto"));
        command.args(["--namespace", namespace, "--fleet", "f"]);
        command.args(["--address", &format!("127.0.0.1:{}", self.matchmakers)]);
        command.args(["--count", &count.to_string()]);
        for (flag, file) in [("--ca", "ca.crt"), ("--cert", "caller.crt"), ("--key", "caller.key")]
        {
            command.arg(flag).arg(self.file(file));
        }
        output(command).await
    }

    /// Asks by REST with the real curl.
    async fn curl(&self, namespace: &str) -> Vec<String> {
        let mut command = Command::new("curl");
        command.args([
            "--silent",
            "--show-error",
            "--retry",
            "20",
            "--retry-connrefused",
            "--noproxy",
            "*",
        ]);
        for (flag, file) in
            [("--cacert", "ca.crt"), ("--cert", "caller.crt"), ("--key", "caller.key")]
        {
            command.arg(flag).arg(self.file(file));
        }
        command.args([
            "--write-out",
            "\n%{http_code}",
            "--data",
            &json!({"namespace": namespace}).to_string(),
        ]);
        command.arg(format!("https://localhost:{}/gameserverallocation", self.matchmakers));
        output(command).await
    }
}

/// Runs a program to its end and gives the lines that it printed.
async fn output(mut command: Command) -> Vec<String> {
    let done = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{errors}");
    String::from_utf8(done.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Creates an allocation with the real kubectl.
async fn kubectl(kubectl: &Path, kubeconfig: &Path, dir: &Path, namespace: &str) -> Vec<String> {
    let file = dir.join("gameserverallocation.yaml");
    let yaml = "apiVersion: allocation.agones.dev/v1\nkind: GameServerAllocation\nspec:\n  selectors:\n  \
                - matchLabels: {agones.dev/fleet: f}\n";
    std::fs::write(&file, yaml).unwrap();
    let mut command = Command::new(kubectl);
    command
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(["--namespace", namespace, "create", "-f"])
        .arg(&file);
    command.args(["-o", "jsonpath={.status.state} {.status.gameServerName} {.status.address}"]);
    output(command).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn published_clients_work_on_the_embedded_engine() {
    let world = World::with_ready(3).await;
    let open = Open::new(&world.engine.client(), "default", false).await;
    let rest = open.curl("default").await;
    assert_eq!(rest.last().unwrap(), "200", "{rest:?}");
    assert!(rest[0].starts_with("{\"gameServerName\":\"s0000\""), "{rest:?}");
    if let Some(python) = from_env("PLIMSOLL_TEST_PYTHON") {
        let output = open.python(&python, "default", 1).await;
        assert_eq!(output, ["s0001 10.0.0.1:7000"]);
        assert_eq!(world.server("s0001").await["metadata"]["labels"]["by"], "python");
    }
    let Some(program) = from_env("PLIMSOLL_TEST_KUBECTL") else { return };
    let _allocator = world.delegate().await;
    let listening = world.engine.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let kubeconfig = open.file("kubeconfig");
    world.engine.write_kubeconfig(&kubeconfig, &listening).unwrap();
    let left = world.in_state("Ready").await.remove(0);
    let output = kubectl(&program, &kubeconfig, open.dir.path(), "default").await;
    assert_eq!(output, [format!("Allocated {left} 10.0.0.1")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn published_clients_work_on_a_real_api_server() {
    let Some(real) = Real::new().await else { return };
    for name in ["a", "b", "c"] {
        create(&real.client, &real.namespace, name, json!({})).await;
    }
    let open = Open::new(&real.client, &real.namespace, true).await;
    register(&real, &open).await;
    // Whatever comes of it, the group does not stay behind on a cluster that other tests use.
    let asked = {
        let (client, kubeconfig) = (real.client.clone(), real.kubeconfig.clone());
        let namespace = real.namespace.clone();
        tokio::spawn(
            async move { allocate_with_clients(&client, &kubeconfig, &namespace, &open).await },
        )
    };
    let asked = asked.await;
    let services: Api<APIService> = Api::all(real.client.clone());
    let _ = services.delete("v1.allocation.agones.dev", &DeleteParams::default()).await;
    real.clean_up().await;
    asked.unwrap();
}

async fn allocate_with_clients(client: &Client, kubeconfig: &Path, namespace: &str, open: &Open) {
    available(client).await;
    let rest = open.curl(namespace).await;
    assert_eq!(rest.last().unwrap(), "200", "{rest:?}");
    if let Some(python) = from_env("PLIMSOLL_TEST_PYTHON") {
        let output = open.python(&python, namespace, 1).await;
        assert_eq!(output, ["b 10.0.0.1:7000"]);
    }
    if let Some(program) = from_env("PLIMSOLL_TEST_KUBECTL") {
        let output = kubectl(&program, kubeconfig, open.dir.path(), namespace).await;
        assert!(output[0].starts_with("Allocated "), "{output:?}");
        let none = kubectl(&program, kubeconfig, open.dir.path(), namespace).await;
        assert_eq!(none[0].trim(), "UnAllocated", "all three are given out");
    }
}

/// Registers the group at the API server, with a service that resolves to this machine.
async fn register(real: &Real, open: &Open) {
    let services: Api<Service> = Api::namespaced(real.client.clone(), &real.namespace);
    let service = json!({
        "metadata": {"name": NAME}, "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    let service = serde_json::from_value(service).unwrap();
    services.create(&PostParams::default(), &service).await.unwrap();
    let groups: Api<APIService> = Api::all(real.client.clone());
    let authority = k8s_openapi::ByteString(open.authority.pem.clone().into_bytes());
    let group = json!({
        "metadata": {"name": "v1.allocation.agones.dev"},
        "spec": {
            "group": "allocation.agones.dev", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
            "service": {"name": NAME, "namespace": real.namespace, "port": open.aggregated}, "caBundle": authority,
        },
    });
    let group = serde_json::from_value(group).unwrap();
    groups.create(&PostParams::default(), &group).await.unwrap();
}

/// Waits until the API server reports the group as available.
async fn available(client: &Client) {
    let groups: Api<APIService> = Api::all(client.clone());
    let mut last = None;
    for _ in 0..300 {
        let group = groups.get("v1.allocation.agones.dev").await.unwrap();
        last = group.status.and_then(|s| s.conditions).unwrap_or_default().into_iter().next();
        if last.as_ref().is_some_and(|c| c.type_ == "Available" && c.status == "True") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("the group does not become available: {last:?}");
}
