//! The real kubectl forwards ports of pods.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::api::DeleteParams;
use kubelet::{Program, ProgramContext, ProgramPort};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::Child;

use super::super::local;
use super::{Kubectl, PATIENCE, next_line};

/// A port forward, and the local port that it listens on.
async fn forward(kubectl: &Kubectl, pod: &str, port: u16) -> (Child, u16) {
    let mut child = kubectl.command(&["port-forward", pod, &format!(":{port}")]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let line = next_line(&mut lines).await;
    let found = line.strip_prefix("Forwarding from 127.0.0.1:").and_then(|l| l.split(' ').next());
    let found = found.and_then(|port| port.parse().ok());
    // What it writes later is read, so that it can go on.
    tokio::spawn(async move { lines.read_to_end(&mut Vec::new()).await });
    (child, found.unwrap_or_else(|| panic!("{line:?}")))
}

async fn get(port: u16, path: &str) -> Vec<u8> {
    let getting = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        answer
    };
    tokio::time::timeout(PATIENCE, getting).await.expect("the pod answers")
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_forwards_several_connections_to_a_port() {
    for kubectl in Kubectl::each(local).await {
        let contents: Vec<u8> =
            (0..2_000_000_u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
        std::fs::write(kubectl.dir.path().join("file"), &contents).unwrap();
        let serve = "import http.server,os; s=http.server.ThreadingHTTPServer(('127.0.0.1',0),http.server.SimpleHTTPRequestHandler); \
                     print(s.server_address[1],flush=True); s.serve_forever()";
        let container = json!({"name": "c", "image": "i", "command": ["python3", "-c", serve],
            "workingDir": kubectl.dir.path()});
        let spec = json!({"terminationGracePeriodSeconds": 0, "containers": [container]});
        kubectl.machine.create("p", spec).await;
        kubectl.machine.until_phase("p", "Running").await;
        let waiting = async {
            loop {
                match kubectl.machine.logs("p").await.lines().next().and_then(|l| l.parse().ok()) {
                    Some(port) => return port,
                    None => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        };
        let port: u16 = tokio::time::timeout(PATIENCE, waiting).await.unwrap();
        let (mut child, local_port) = forward(&kubectl, "p", port).await;
        let all = futures::future::join_all((0..8).map(|_| get(local_port, "/file"))).await;
        for answer in all {
            assert!(answer.starts_with(b"HTTP/1.0 200") && answer.ends_with(&contents));
        }
        assert!(get(local_port, "/missing").await.starts_with(b"HTTP/1.0 404"));
        kubectl.machine.pods().delete("p", &DeleteParams::default()).await.unwrap();
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
        assert!(ended.is_ok(), "it ends with the pod");
    }
}

/// Sends `hello` to a port of a pod, and expects an answer.
pub(super) async fn echoes(kubectl: &Kubectl, pod: &str, port: u16, expected: &str) {
    let (_child, port) = forward(kubectl, pod, port).await;
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(b"hello\n").await.unwrap();
    // The end of the input arrives, and the answer still comes.
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    let reading = stream.read_to_string(&mut answer);
    tokio::time::timeout(PATIENCE, reading).await.unwrap().unwrap();
    assert_eq!(answer, expected);
}

/// Echoes what it is sent.
struct Echo;

impl Program for Echo {
    fn ports(&self, _: &Pod, _: &Container) -> Vec<ProgramPort> {
        vec![ProgramPort { port: 9358, env: String::new() }]
    }

    fn run(&self, context: ProgramContext) -> BoxFuture<'static, i32> {
        Box::pin(async move {
            let listener = context.listen_tcp(9358).await.unwrap();
            loop {
                tokio::select! {
                    () = context.stop.cancelled() => return 0,
                    accepted = listener.accept() => {
                        let (mut stream, _) = accepted.unwrap();
                        tokio::spawn(async move {
                            let (mut from, mut to) = stream.split();
                            tokio::io::copy(&mut from, &mut to).await
                        });
                    }
                }
            }
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_in_this_process_has_ports_but_runs_no_commands() {
    let with_echo = || {
        let mut local = local();
        local.programs.add("echo", Arc::new(Echo));
        local
    };
    for kubectl in Kubectl::each(with_echo).await {
        let container = json!({"name": "c", "image": "echo:1"});
        kubectl.machine.create("p", json!({"containers": [container]})).await;
        kubectl.machine.until_phase("p", "Running").await;
        let (code, _, error) = kubectl.run(&["exec", "p", "--", "true"]).await;
        assert!(code != 0 && error.contains("is a program inside Plimsoll"), "{error}");
        echoes(&kubectl, "p", 9358, "hello\n").await;
    }
}
