//! A Service with real processes behind it, on `plimsoll up` alone.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::plimsoll;

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_load_balancer_answers_as_soon_as_its_pod_does() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page");
    std::fs::write(&page, "hello from a pod").unwrap();
    let port = {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        free.local_addr().unwrap().port()
    };
    let script = "exec python3 -m http.server --bind 127.0.0.1 ${PORT:-8080}";
    let container = json!({
        "name": "web", "image": "web", "command": ["sh", "-c", script], "workingDir": dir.path(),
        "ports": [{"name": "http", "containerPort": 8080}],
    });
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "labels": {"app": "web"}},
            "spec": {"containers": [container]},
        },
        {
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {
                "type": "LoadBalancer", "selector": {"app": "web"},
                "ports": [{"port": port, "targetPort": "http"}],
            },
        },
    ]});
    let file = dir.path().join("web.json");
    std::fs::write(&file, objects.to_string()).unwrap();
    let child = plimsoll()
        .args(["up", "--ephemeral", "--listen", "127.0.0.1:0", "--data"])
        .arg(dir.path().join("data"))
        .arg(&file)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let _running = Running(child);
    let mut answer = None;
    for _ in 0..600 {
        answer = get(port);
        if answer.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let answer = answer.expect("the Service answers");
    assert!(answer.ends_with("hello from a pod"), "{answer}");
}

fn get(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    stream.write_all(b"GET /page HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.contains(" 200 OK").then_some(answer)
}
