//! The first command of the README: real game servers, an answer to a packet, a clean end, and a second start.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use serve::proto::allocation::AllocationRequest;
use serve::proto::allocation::allocation_service_client::AllocationServiceClient;

use crate::plimsoll;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_quickstart_answers_and_is_there_again_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let first = Up::start(dir.path(), &["examples/quickstart.yaml", "--allocator", "127.0.0.1:0"]);
    assert_eq!(first.servers.len(), 2, "{:?}", first.servers);
    for (_, address) in &first.servers {
        assert_eq!(exchange(*address, "hello"), "ACK: hello\n");
    }
    let allocated = plimsoll()
        .args(["allocate", "quickstart", "--kubeconfig"])
        .arg(dir.path().join("kubeconfig"))
        .output()
        .unwrap();
    let allocation = String::from_utf8_lossy(&allocated.stdout).into_owned();
    assert!(allocated.status.success(), "{allocation}");
    let mine =
        first.servers.iter().find(|(name, _)| allocation.contains(name)).expect("one of the two");
    let (mine, addresses) = (mine.0.clone(), first.addresses());
    let other = first.servers.iter().find(|(name, _)| *name != mine).expect("the other one");
    first.allocate_last(&other.0).await;
    first.stop();
    for address in addresses {
        // Binding fails if a process still uses the port.
        UdpSocket::bind(address).unwrap_or_else(|err| panic!("{address} is still taken: {err}"));
    }

    let second = Up::start(dir.path(), &[]);
    assert!(second.servers.len() >= 2, "the fleet is at its size: {:?}", second.servers);
    assert!(second.servers.iter().all(|(name, _)| *name != mine), "the allocated one is replaced");
    assert_eq!(exchange(second.servers[0].1, "again"), "ACK: again\n");
    assert!(reasons(dir.path(), &mine).await.contains("NodeRestarted"), "an event says why");
    second.stop();
}

#[test]
fn a_missing_program_is_reported_with_the_flag_that_maps_it() {
    let dir = tempfile::tempdir().unwrap();
    let bad = dir.path().join("fleet.yaml");
    let good = std::fs::read_to_string(crate::root().join("examples/quickstart.yaml")).unwrap();
    std::fs::write(&bad, good.replace("simple-game-server", "no-such-game")).unwrap();
    let mut child = plimsoll()
        .args(["up", "--ephemeral", "--listen", "127.0.0.1:0", "--data"])
        .arg(dir.path())
        .arg(&bad)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let is_explained = lines.any(|line| line.contains("--image plimsoll/no-such-game=PROGRAM"));
    end(&mut child);
    assert!(is_explained, "the message does not name the flag");
}

/// By hand, in a release build for figures that mean something:
/// `cargo test --release -p plimsoll --test it five_hundred -- --ignored --nocapture`
#[test]
#[ignore = "by hand: it starts 500 game servers"]
fn five_hundred_game_servers_start_answer_and_stop() {
    const COUNT: usize = 500;
    let dir = tempfile::tempdir().unwrap();
    let fleet = dir.path().join("fleet.yaml");
    let container = json!({"name": "game", "image": "plimsoll/simple-game-server"});
    let server = json!({
        "ports": [{"name": "game", "containerPort": 7654}],
        "template": {"spec": {"containers": [container]}},
    });
    let object = json!({
        "apiVersion": "agones.dev/v1", "kind": "Fleet", "metadata": {"name": "many"},
        "spec": {"replicas": COUNT, "template": {"spec": server}},
    });
    std::fs::write(&fleet, object.to_string()).unwrap();
    let began = Instant::now();
    let up = Up::start(dir.path(), &[fleet.to_str().unwrap()]);
    eprintln!("{COUNT} Ready after {:.1?}", began.elapsed());
    let began = Instant::now();
    for address in up.addresses() {
        assert_eq!(exchange(address, "hello"), "ACK: hello\n");
    }
    eprintln!("those that are printed answered after {:.1?}", began.elapsed());
    assert_eq!(children(up.child.id()).len(), COUNT, "one process for each");
    let status = std::fs::read_to_string(format!("/proc/{}/status", up.child.id())).unwrap();
    eprintln!("{}", status.lines().find(|line| line.starts_with("VmRSS")).unwrap());
    let (began, started) = (Instant::now(), children(up.child.id()));
    up.stop();
    eprintln!("all stopped after {:.1?}", began.elapsed());
    let left = started.iter().filter(|pid| Path::new(&format!("/proc/{pid}")).exists());
    assert_eq!(left.count(), 0, "processes are left");
}

/// Returns the processes that a process has started.
fn children(of: u32) -> Vec<u32> {
    let parent = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // After the name, which may hold anything, come the state and the parent.
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let names = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok());
    let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| parent(pid) == Some(of)).collect()
}

#[test]
fn feature_gates_are_read_and_one_that_cannot_be_disabled_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let up = |gates: &str| {
        let mut command = plimsoll();
        command.args(["up", "--ephemeral", "--listen", "127.0.0.1:0", "--data"]).arg(dir.path());
        command.env("FEATURE_GATES", gates).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let refused = up("CountAndLists=true").wait_with_output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(stderr.contains("there is no gate `CountAndLists`"), "{stderr}");
    let mut child = up("CountsAndLists=false");
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let is_reported =
        lines.any(|line| line.contains("always on") && line.contains("CountsAndLists"));
    end(&mut child);
    assert!(is_reported, "no message reports that the gate stays on");
}

#[test]
fn an_unprivileged_user_can_create_pod_networks() {
    let dir = tempfile::tempdir().unwrap();
    let binary = dir.path().join("plimsoll");
    std::fs::copy(env!("CARGO_BIN_EXE_plimsoll"), &binary).unwrap();
    for path in [dir.path(), &binary] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .unwrap();
    }
    let as_unprivileged_user = |program: &Path| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(program);
        command.current_dir("/").stderr(Stdio::null());
        command
    };
    let is_allowed = as_unprivileged_user(Path::new("unshare")).args(["--user", "true"]).status();
    if !is_allowed.is_ok_and(|status| status.success()) {
        eprintln!(
            "skipped: this machine does not allow unprivileged users to create networks, or this user is one"
        );
        return;
    }
    let mut child = as_unprivileged_user(&binary)
        .args(["up", "--ephemeral", "--listen", "127.0.0.1:0", "--data"])
        .arg(dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let is_up = lines.any(|line| line.starts_with("plimsoll is up"));
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/user")).ok();
    let (its, ours) = (namespace(&child.id().to_string()), namespace("self"));
    end(&mut child);
    assert!(is_up && its.is_some() && ours.is_some(), "it ended before it was up");
    assert_ne!(its, ours, "it had a thread too early to enter a namespace of its own");
}

/// A running `plimsoll up`, with the game servers that it printed, and where it answers allocations.
struct Up {
    child: Child,
    out: BufReader<ChildStdout>,
    servers: Vec<(String, SocketAddr)>,
    allocator: Option<String>,
}

impl Up {
    /// Starts it, and reads what it prints until game servers are up.
    fn start(data: &Path, files: &[&str]) -> Self {
        let mut child = plimsoll()
            .args(["up", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .args(files)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut up = Self { child, out, servers: Vec::new(), allocator: None };
        loop {
            let mut line = String::new();
            assert_ne!(up.out.read_line(&mut line).unwrap(), 0, "it ended before it was up");
            if line.starts_with("try it: ") {
                return up;
            }
            if let Some(url) = line.strip_prefix("allocator (gRPC and REST) at ") {
                up.allocator = Some(url.trim().to_owned());
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            if let [name, "Ready" | "Allocated", address] = words.as_slice() {
                up.servers.push(((*name).to_owned(), address.parse().unwrap()));
            }
        }
    }

    /// Allocates by REST the only game server that is left, and then by gRPC, where there is none.
    async fn allocate_last(&self, name: &str) {
        let url = self.allocator.clone().expect("it says where");
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--noproxy", "*", "--data", "{}"]);
        let answered = curl.arg(format!("{url}/gameserverallocation")).output().unwrap();
        let body = String::from_utf8_lossy(&answered.stdout).into_owned();
        let response: serde_json::Value =
            serde_json::from_str(&body).unwrap_or_else(|err| panic!("{body}: {err}"));
        assert_eq!(response["gameServerName"], name, "{response}");
        let mut grpc = AllocationServiceClient::connect(url).await.unwrap();
        let none = grpc.allocate(AllocationRequest::default()).await.unwrap_err();
        assert_eq!(none.code(), tonic::Code::ResourceExhausted, "{none}");
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(|(_, address)| *address).collect()
    }

    /// Ends it as Ctrl-C does.
    fn stop(mut self) {
        let signalled = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(signalled.unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Sends a packet and returns the reply; repeats it, because packets get lost.
fn exchange(address: SocketAddr, text: &str) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    for _ in 0..30 {
        socket.send_to(text.as_bytes(), address).unwrap();
        let mut answer = [0; 512];
        if let Ok(length) = socket.recv(&mut answer) {
            return String::from_utf8_lossy(&answer[..length]).into_owned();
        }
    }
    panic!("no answer from {address}")
}

/// Returns the reasons of all events about objects of a name.
async fn reasons(data: &Path, name: &str) -> BTreeSet<String> {
    let kubeconfig = Kubeconfig::read_from(data.join("kubeconfig")).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let client = Client::try_from(config).unwrap();
    let about = ListParams::default().fields(&format!("involvedObject.name={name}"));
    let events = Api::<Event>::all(client).list(&about).await.unwrap();
    events.into_iter().filter_map(|event| event.reason).collect()
}
