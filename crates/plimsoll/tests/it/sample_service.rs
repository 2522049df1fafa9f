//! The sample service and the load generator, by themselves and as a pod on `plimsoll up`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::plimsoll;

#[test]
fn the_service_answers_uses_cpu_and_counts() {
    let service = Service::start(&["--cpu-per-request", "5ms"], &[]);
    for path in ["/", "/any/path"] {
        let (status, body) = get(service.address, path).unwrap();
        assert_eq!((status, body.starts_with("hello from ")), (200, true), "{body}");
    }
    assert_eq!(get(service.address, "/healthz").unwrap(), (200, "ok\n".to_owned()));
    assert_eq!(get(service.address, "/readyz").unwrap(), (200, "ok\n".to_owned()));
    let (_, stats) = get(service.address, "/stats").unwrap();
    let stats: Value = serde_json::from_str(&stats).unwrap();
    assert_eq!((&stats["requests"], &stats["inFlight"]), (&2.into(), &0.into()), "{stats}");
    assert!(stats["cpuSeconds"].as_f64().unwrap() >= 0.01, "{stats}");
    assert!(stats["requestsPerSecond"].is_number(), "{stats}");
    let (_, metrics) = get(service.address, "/metrics").unwrap();
    for line in ["sample_service_requests_total 2", "sample_service_requests_in_flight 0"] {
        assert!(metrics.lines().any(|found| found == line), "{metrics}");
    }
}

#[test]
fn the_port_comes_from_the_environment() {
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = plimsoll();
    command.arg("sample-service").env("PORT", free.to_string()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let _ = child.kill();
    let _ = child.wait();
    assert!(line.contains(&format!("listens on http://0.0.0.0:{free};")), "{line}");
}

#[test]
fn the_service_is_ready_after_a_while_and_not_while_it_stops() {
    let mut service = Service::start(&["--ready-after", "1h", "--shutdown-delay", "1h"], &[]);
    assert_eq!(get(service.address, "/readyz").unwrap(), (503, "starting\n".to_owned()));
    assert_eq!(get(service.address, "/healthz").unwrap().0, 200);
    service.signal("TERM");
    let until = Instant::now() + Duration::from_secs(30);
    while get(service.address, "/readyz").unwrap() != (503, "stopping\n".to_owned()) {
        assert!(Instant::now() < until);
    }
    assert_eq!(get(service.address, "/").unwrap().0, 200, "requests are still answered");
    service.signal("INT");
    service.ends();
}

#[test]
fn a_service_that_stops_announces_that_connections_are_closed() {
    let mut service = Service::start(&["--cpu-per-request", "0s", "--shutdown-delay", "1h"], &[]);
    let mut kept = TcpStream::connect(service.address).unwrap();
    assert!(!exchange(&mut kept).contains("connection: close"));
    service.signal("TERM");
    let until = Instant::now() + Duration::from_secs(30);
    while !exchange(&mut kept).contains("connection: close") {
        assert!(Instant::now() < until, "it does not stop");
    }
    assert_eq!(kept.read(&mut [0]).unwrap(), 0, "the connection is closed");
}

#[test]
fn connections_are_closed_now_and_then_so_that_new_pods_get_some() {
    let service = Service::start(&["--cpu-per-request", "0s"], &[]);
    let mut kept = TcpStream::connect(service.address).unwrap();
    let closes = (0..50).position(|_| exchange(&mut kept).contains("connection: close"));
    assert_eq!(closes, Some(49));
}

#[test]
fn requests_in_progress_finish_after_sigterm() {
    let flags = ["--cpu-per-request", "1s", "--shutdown-delay", "0s"];
    let mut service = Service::start(&flags, &[]);
    let address = service.address;
    let slow = std::thread::spawn(move || get(address, "/slow").unwrap());
    let until = Instant::now() + Duration::from_secs(30);
    while !get(address, "/stats").unwrap().1.contains("\"inFlight\":1") {
        assert!(Instant::now() < until, "the request does not arrive");
    }
    service.signal("TERM");
    assert_eq!(slow.join().unwrap().0, 200);
    service.ends();
    assert!(TcpStream::connect(address).is_err(), "it does not listen any more");
}

#[test]
fn a_load_test_sends_at_its_rate_and_fails_if_requests_fail() {
    let service = Service::start(&["--cpu-per-request", "100us"], &[]);
    let url = format!("http://{}/", service.address);
    let load = |url: &str| {
        plimsoll()
            .args([
                "load",
                url,
                "--rate",
                "100",
                "--for",
                "500ms",
                "--concurrency",
                "4",
                "-o",
                "json",
            ])
            .output()
            .unwrap()
    };
    let done = load(&url);
    let summary: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert!(done.status.success(), "{summary}");
    assert_eq!(summary["errors"], 0, "{summary}");
    let sent = summary["requests"].as_u64().unwrap();
    assert!((1..=50).contains(&sent), "{summary}");
    assert!(summary["latencySeconds"]["p99"].as_f64().unwrap() > 0.0, "{summary}");
    let (_, stats) = get(service.address, "/stats").unwrap();
    assert!(stats.contains(&format!("\"requests\":{sent},")), "{stats}");

    let refused = load(&format!("{url}readyz"));
    assert!(refused.status.success(), "a path that responds with 200");
    drop(service);
    let refused = load(&url);
    let summary: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{summary}");
    assert_eq!(summary["errors"], summary["requests"], "{summary}");
    assert!(summary["reasons"].to_string().contains("refused"), "{summary}");
    let wrong = plimsoll().args(["load", "ftp://127.0.0.1"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(1));
}

#[test]
fn a_pod_with_the_image_sample_service_answers() {
    let folder = tempfile::tempdir().unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let port = free.port();
    let pod = format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: web}}
spec:
  containers:
  - name: web
    image: plimsoll/sample-service:1
    args: [--cpu-per-request=1ms]
    ports: [{{containerPort: 8080, hostPort: {port}}}]
    readinessProbe: {{httpGet: {{path: /readyz, port: 8080}}, periodSeconds: 1}}
"
    );
    let file = folder.path().join("pod.yaml");
    std::fs::write(&file, pod).unwrap();
    let child = plimsoll()
        .args(["up", "--ephemeral", "--listen", "127.0.0.1:0", "--data"])
        .arg(folder.path())
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _up = Stopped(child);
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some((status, body)) = get(free, "/") {
            assert_eq!((status, body.starts_with("hello from ")), (200, true), "{body}");
            return;
        }
        assert!(Instant::now() < until, "the pod does not answer");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_quickstart_for_services_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = plimsoll()
        .args(["up", "--api-only", "--ephemeral", "--listen", "127.0.0.1:0", "--data"])
        .arg(folder.path())
        .arg("examples/service-quickstart.yaml")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let _up = Stopped(child);
    let applied: Vec<String> = lines.filter(|l| l.ends_with(" applied")).take(2).collect();
    assert_eq!(applied, ["deployment/web applied", "service/web applied"]);
}

/// A process that is stopped at the end of the test.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let pid = self.0.id().to_string();
        let _ = Command::new("kill").args(["-INT", &pid]).status();
        let _ = self.0.wait();
    }
}

/// A running sample service.
struct Service {
    child: Child,
    address: SocketAddr,
}

impl Service {
    fn start(flags: &[&str], env: &[(&str, &str)]) -> Self {
        let mut command = plimsoll();
        command.args(["sample-service", "--listen", "127.0.0.1:0"]).args(flags);
        command.envs(env.iter().copied()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        lines.read_line(&mut line).unwrap();
        let address = line.split_once("http://").and_then(|(_, rest)| rest.split_once(';'));
        let address = address.and_then(|(address, _)| address.parse().ok());
        Self { child, address: address.unwrap_or_else(|| panic!("no address: {line}")) }
    }

    /// Waits until the process exits with code 0.
    fn ends(&mut self) {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            match self.child.try_wait().unwrap() {
                Some(status) => return assert!(status.success(), "{status}"),
                None => assert!(Instant::now() < until, "the service does not exit"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&mut self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request on a connection that is kept, and returns the response, whose body ends with a line.
fn exchange(stream: &mut TcpStream) -> String {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let mut response = Vec::new();
    let is_complete = |response: &[u8]| {
        let text = String::from_utf8_lossy(response);
        text.split_once("\r\n\r\n").is_some_and(|(_, body)| body.ends_with('\n'))
    };
    while !is_complete(&response) {
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "the connection is closed early");
        response.push(byte[0]);
    }
    String::from_utf8(response).unwrap()
}

/// Sends a request. Returns the status and the body; `None` without a connection.
pub(crate) fn get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    let status = response.split_whitespace().nth(1)?.parse().ok()?;
    Some((status, response.split_once("\r\n\r\n")?.1.to_owned()))
}
