//! `plimsoll run` on the real API server, with what `plimsoll install` prints, under the rights that it gives.
//!
//! Only what a pod would have is put in its place: the Secrets are folders here, and the Service is this machine.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};

use crate::{from_env, plimsoll};

#[test]
fn an_installation_runs_a_fleet_allocates_its_servers_and_stops_cleanly() {
    let Some(cluster) = Cluster::new() else { return };
    let manifests = cluster.manifests();
    cluster.apply(&manifests);
    let mut run = cluster.run(deployment(&manifests));
    cluster.kubectl(&[
        "wait",
        "--for=condition=Available",
        "apiservice/v1.allocation.agones.dev",
        "--timeout=120s",
    ]);
    cluster.add_node();
    cluster.apply(&[fleet(&cluster.games)]);
    let made = cluster.get("fleets/f");
    let is_filled_in = made["metadata"]["annotations"]["agones.dev/sdk-version"].is_string();
    assert!(is_filled_in, "the webhook filled it in: {made}");
    let servers = cluster.servers_in("Scheduled", 2);
    let sidecars: Vec<Running> = servers.iter().map(|name| cluster.sdk_server(name)).collect();
    sidecars.iter().for_each(Running::says_ready);
    cluster.servers_in("Ready", 2);

    let first = cluster.allocate_by_kubernetes();
    let second = cluster.allocate_by_rest(&manifests, &run);
    let mut given = vec![first, second];
    given.sort();
    assert_eq!(given, servers, "each is given once");
    let metrics = curl(&[&format!("http://{}/metrics", run.value("--metrics"))]);
    let tries = r#"agones_gameserver_allocations_retry_total_count{fleet_name="f",cluster_name="none",is_multicluster="false",status="Success",scheduling_strategy="Packed"} 2"#;
    assert!(metrics.contains(tries), "{metrics}");

    let lease = |cluster: &Cluster| {
        let all = cluster.kubectl(&["get", "lease", "-n", &cluster.system, "-o", "json"]);
        let all: Value = serde_json::from_str(&all).unwrap();
        all["items"][0]["spec"]["holderIdentity"].clone()
    };
    assert_eq!(lease(&cluster), "pod-of-a-test");
    // While someone is there who lets them go.
    cluster.kubectl(&["delete", "fleet/f", "-n", &cluster.games]);
    cluster.servers_in("", 0);
    run.terminate();
    assert!(lease(&cluster).as_str().unwrap_or_default().is_empty(), "the Lease is given back");
}

/// Namespaces of our own on the real cluster. What others would meet goes with it.
struct Cluster {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    dir: tempfile::TempDir,
    /// Where Plimsoll runs.
    system: String,
    /// Where game servers run.
    games: String,
    /// Where the API server finds us.
    webhooks: u16,
    aggregated: u16,
}

impl Cluster {
    fn new() -> Option<Self> {
        let kubeconfig = from_env("PLIMSOLL_TEST_KUBECONFIG")?;
        let kubectl = from_env("PLIMSOLL_TEST_KUBECTL")?;
        let id = std::process::id();
        let dir = tempfile::tempdir().unwrap();
        let (system, games) = (format!("run-{id}"), format!("run-{id}-games"));
        let (webhooks, aggregated) = (free_port(), free_port());
        let cluster = Self { kubectl, kubeconfig, dir, system, games, webhooks, aggregated };
        cluster.kubectl(&["create", "namespace", &cluster.games]);
        Some(cluster)
    }

    /// Returns what is installed, with this machine as the Service that the API server calls.
    fn manifests(&self) -> Vec<Value> {
        let printed = plimsoll()
            .args(["install", "--namespace", &self.system, "--game-namespace", &self.games])
            .output()
            .unwrap();
        let printed = String::from_utf8(printed.stdout).unwrap();
        let mut all: Vec<Value> = serde_saphyr::from_multiple(&printed).unwrap();
        for object in &mut all {
            let kind = object["kind"].as_str().unwrap().to_owned();
            if kind == "Service" && object["metadata"]["name"] == "plimsoll" {
                object["spec"] = json!({"type": "ExternalName", "externalName": "localhost"});
            }
            if kind == "APIService" {
                object["spec"]["service"]["port"] = json!(self.aggregated);
            }
            if kind.ends_with("WebhookConfiguration") {
                let webhook = &mut object["webhooks"][0];
                webhook["clientConfig"]["service"]["port"] = json!(self.webhooks);
                // The webhooks are called only for objects of this test.
                let ours = json!({"kubernetes.io/metadata.name": self.games});
                webhook["namespaceSelector"] = json!({"matchLabels": ours});
            }
        }
        all
    }

    /// Makes a node that KWOK plays, for the pods of our game servers.
    fn add_node(&self) {
        let amounts = json!({"cpu": "32", "memory": "256Gi", "pods": "110"});
        self.apply(&[json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": self.games, "labels": {"test": self.games}},
            "status": {"capacity": amounts, "allocatable": amounts},
        })]);
    }

    /// Returns the node its address, which KWOK takes away when it first sees it.
    fn keep_address(&self) {
        let address = json!([{"type": "InternalIP", "address": "10.1.0.1"}]);
        let patch = json!({"status": {"addresses": address}}).to_string();
        let of = ["patch", "node", &self.games, "--subresource=status", "--type=merge"];
        self.kubectl(&[&of[..], &["-p", &patch]].concat());
    }

    fn apply(&self, objects: &[Value]) {
        let file = self.dir.path().join("objects.json");
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        fs::write(&file, list.to_string()).unwrap();
        let file = file.to_str().unwrap();
        self.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", file]);
    }

    /// Starts what the Deployment runs, as its account.
    fn run(&self, deployment: &Value) -> Running {
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let kubeconfig = self.kubeconfig_of("plimsoll", &self.system);
        let args = container["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
        let args = args.map(|arg| match arg.split_once('=') {
            Some(("--webhooks", _)) => format!("--webhooks=127.0.0.1:{}", self.webhooks),
            Some(("--aggregated-api", _)) => {
                format!("--aggregated-api=127.0.0.1:{}", self.aggregated)
            }
            Some((flag, address)) if address.starts_with("0.0.0.0:") => {
                format!("{flag}=127.0.0.1:{}", free_port())
            }
            Some((flag, folder)) if folder.starts_with('/') => {
                let volume = container["volumeMounts"].as_array().unwrap();
                let volume = volume.iter().find(|mount| mount["mountPath"] == folder).unwrap();
                let folder = self.mounted(pod, volume["name"].as_str().unwrap());
                format!("{flag}={}", folder.display())
            }
            None if arg == "--in-cluster" => format!("--kubeconfig={}", kubeconfig.display()),
            _ => arg.to_owned(),
        });
        let mut command = plimsoll();
        command.args(args).args(["--pod-namespace", &self.system]);
        command.env("POD_NAME", "pod-of-a-test");
        Running::start(command, self.dir.path().join("run.log"))
    }

    /// Returns the folder of a volume, with its Secret in it.
    fn mounted(&self, pod: &Value, volume: &str) -> PathBuf {
        let volumes = pod["volumes"].as_array().unwrap();
        let volume = volumes.iter().find(|v| v["name"] == volume).unwrap();
        let secret = volume["secret"]["secretName"].as_str().unwrap();
        let found = self.kubectl(&["get", "secret", secret, "-n", &self.system, "-o", "json"]);
        let folder = self.dir.path().join(secret);
        write_secret(&serde_json::from_str(&found).unwrap(), &folder);
        folder
    }

    /// Starts an SDK server for a game server, as the account of its pod.
    fn sdk_server(&self, name: &str) -> Running {
        let mut command = plimsoll();
        command.args(["sdk-server", "--gameserver-name", name, "--pod-namespace", &self.games]);
        command.arg("--kubeconfig").arg(self.kubeconfig_of("agones-sdk", &self.games));
        command.arg("--health-address=127.0.0.1");
        for flag in ["--grpc-port", "--http-port", "--health-port"] {
            command.arg(format!("{flag}={}", free_port()));
        }
        Running::start(command, self.dir.path().join(format!("{name}.log")))
    }

    /// Writes a kubeconfig with the token of an account.
    fn kubeconfig_of(&self, account: &str, namespace: &str) -> PathBuf {
        let token = self.kubectl(&["create", "token", account, "-n", namespace]);
        let settings =
            self.kubectl(&["config", "view", "--raw", "--flatten", "--minify", "-o", "json"]);
        let mut settings: Value = serde_json::from_str(&settings).unwrap();
        settings["users"][0]["user"] = json!({"token": token.trim()});
        let file = self.dir.path().join(format!("kubeconfig-of-{account}"));
        fs::write(&file, settings.to_string()).unwrap();
        file
    }

    /// Waits until so many game servers are in a state, and names them.
    fn servers_in(&self, state: &str, count: usize) -> Vec<String> {
        let mut all = Value::Null;
        let until = Instant::now() + Duration::from_secs(120);
        while Instant::now() < until {
            self.keep_address();
            all = self.get("gameservers");
            let items = all["items"].as_array().unwrap();
            let found = items.iter().filter(|s| count == 0 || s["status"]["state"] == state);
            let found = found.map(|s| s["metadata"]["name"].as_str().unwrap().to_owned());
            let found: Vec<String> = found.collect();
            if found.len() == count {
                return found;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        let log = fs::read_to_string(self.dir.path().join("run.log"));
        panic!("waited in vain for {count} {state}: {all}\n{}", log.unwrap_or_default());
    }

    /// Allocates through the API server, which passes it on.
    fn allocate_by_kubernetes(&self) -> String {
        let file = self.dir.path().join("allocation.json");
        let asked = json!({
            "apiVersion": "allocation.agones.dev/v1", "kind": "GameServerAllocation",
            "spec": {"selectors": [{"matchLabels": {"agones.dev/fleet": "f"}}]},
        });
        fs::write(&file, asked.to_string()).unwrap();
        let file = file.to_str().unwrap();
        let allocation = self.kubectl(&["create", "-n", &self.games, "-f", file, "-o", "json"]);
        let allocation: Value = serde_json::from_str(&allocation).unwrap();
        assert_eq!(allocation["status"]["state"], "Allocated", "{allocation}");
        allocation["status"]["gameServerName"].as_str().unwrap().to_owned()
    }

    /// Allocates as a matchmaker does, with its client certificate. Without a certificate, the connection is refused.
    fn allocate_by_rest(&self, manifests: &[Value], run: &Running) -> String {
        let folder = self.dir.path().join("client");
        let is_it = |o: &&Value| o["metadata"]["name"] == "plimsoll-allocator-client";
        write_secret(manifests.iter().find(is_it).unwrap(), &folder);
        let host = format!("plimsoll-allocator.{}.svc", self.system);
        let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        let (authority, certificate, key) = (file("ca.crt"), file("tls.crt"), file("tls.key"));
        let to = format!("{host}:443:{}", run.value("--allocator"));
        let url = format!("https://{host}/gameserverallocation");
        let body = json!({"namespace": self.games}).to_string();
        let asked = ["--connect-to", &to, "--cacert", &authority, "--data", &body, &url];
        let stranger = try_curl(&asked);
        assert!(!stranger.status.success(), "{stranger:?}");
        let shown = ["--cert", &certificate, "--key", &key];
        let response: Value = serde_json::from_str(&curl(&[&shown[..], &asked].concat())).unwrap();
        response["gameServerName"].as_str().unwrap_or_else(|| panic!("{response}")).to_owned()
    }

    fn get(&self, what: &str) -> Value {
        let found = self.kubectl(&["get", what, "-n", &self.games, "-o", "json"]);
        serde_json::from_str(&found).unwrap()
    }

    /// Runs kubectl and gives what it printed.
    fn kubectl(&self, args: &[&str]) -> String {
        let done = self.try_kubectl(args);
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "kubectl {args:?}: {errors}");
        String::from_utf8(done.stdout).unwrap()
    }

    fn try_kubectl(&self, args: &[&str]) -> Output {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(args).output().unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for what in [
            "apiservice/v1.allocation.agones.dev",
            "mutatingwebhookconfiguration/plimsoll-mutate",
            "validatingwebhookconfiguration/plimsoll-validate",
            &format!("node/{}", self.games),
            &format!("namespace/{}", self.games),
            &format!("namespace/{}", self.system),
        ] {
            self.try_kubectl(&["delete", what, "--wait=false", "--ignore-not-found"]);
        }
    }
}

/// A process of ours, with what it says in a file.
struct Running {
    child: Child,
    args: Vec<String>,
    log: PathBuf,
}

impl Running {
    fn start(mut command: Command, log: PathBuf) -> Self {
        let args = command.get_args().map(|arg| arg.to_str().unwrap().to_owned()).collect();
        let child = command.stderr(File::create(&log).unwrap()).spawn().unwrap();
        Self { child, args, log }
    }

    /// Returns the value of a flag that it was started with.
    fn value(&self, flag: &str) -> &str {
        let mut values = self.args.iter().filter_map(|arg| arg.split_once('='));
        values.find(|(name, _)| *name == flag).unwrap().1
    }

    /// Calls `Ready()` of the SDK, as a game does.
    fn says_ready(&self) {
        let url = format!("http://localhost:{}/ready", self.value("--http-port"));
        curl(&["--data", "{}", &url]);
    }

    /// Ends it as a kubelet does.
    fn terminate(&mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let until = Instant::now() + Duration::from_secs(20);
        let ended = loop {
            match self.child.try_wait().unwrap() {
                None if Instant::now() < until => std::thread::sleep(Duration::from_millis(50)),
                ended => break ended,
            }
        };
        let log = fs::read_to_string(&self.log).unwrap();
        assert!(ended.is_some_and(|status| status.success()), "{ended:?}\n{log}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn deployment(manifests: &[Value]) -> &Value {
    manifests.iter().find(|object| object["kind"] == "Deployment").unwrap()
}

fn fleet(namespace: &str) -> Value {
    let container = json!({"name": "game", "image": "game:1"});
    json!({
        "apiVersion": "agones.dev/v1", "kind": "Fleet",
        "metadata": {"name": "f", "namespace": namespace},
        "spec": {"replicas": 2, "template": {"spec": {
            "ports": [{"name": "game", "containerPort": 7654}],
            "health": {"disabled": true},
            "template": {"spec": {"containers": [container], "nodeSelector": {"test": namespace}}},
        }}},
    })
}

/// Writes the parts of a Secret as files, as a kubelet does.
fn write_secret(secret: &Value, folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for (name, text) in secret["data"].as_object().unwrap() {
        let text = base64::engine::general_purpose::STANDARD.decode(text.as_str().unwrap());
        fs::write(folder.join(name), text.unwrap()).unwrap();
    }
}

fn curl(args: &[&str]) -> String {
    let done = try_curl(args);
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn try_curl(args: &[&str]) -> Output {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--fail-with-body", "--noproxy", "*"]);
    command.args(["--retry", "20", "--retry-connrefused"]).args(args).output().unwrap()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
