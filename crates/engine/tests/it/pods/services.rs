//! Services before real processes: node ports, load balancers, names for webhooks, and pods that are added and removed.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::cluster::{Caches, LocalAddresses};
use control::{Part, required_kinds};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use kubelet::{Local, Networking};
use process::{Random, Supervised, Supervisor};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpStream, UdpSocket};

use super::{Machine, local, machine, shell};

/// Answers on PORT, or 8080: HTTP with the name of its pod, or the answer of a webhook that wants 7 replicas; and UDP packets with the
/// name of its pod. It ends gracefully.
const SERVER: &str = "
import http.server, json, os, signal, socket, threading
name, port = os.environ['HOSTNAME'].encode(), int(os.environ.get('PORT', '8080'))
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, body):
        self.send_response(200); self.send_header('Content-Length', str(len(body)))
        self.end_headers(); self.wfile.write(body)
    def do_GET(self): self.answer(name)
    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        response = {'uid': review['request']['uid'], 'scale': True, 'replicas': 7}
        self.answer(json.dumps({'response': response}).encode())
    def log_message(self, *args): pass
class Server(http.server.ThreadingHTTPServer):
    daemon_threads, request_queue_size = False, 128
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind(('127.0.0.1', port))
def packets():
    while True:
        data, sender = udp.recvfrom(2048); udp.sendto(name + b' ' + data, sender)
threading.Thread(target=packets, daemon=True).start()
server = Server(('127.0.0.1', port), Handler)
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
server.serve_forever(); server.server_close()
";

fn serving(local: Local) -> Local {
    Local { service_proxy: true, ..local }
}

/// Runs the controller of endpoints.
fn endpoints(machine: &Machine) -> Supervised {
    let client = machine.client.clone();
    Supervisor::new()
        .spawn("endpoints", move || control::endpoints::run(client.clone(), Random::seeded(1)))
}

impl Machine {
    fn services(&self) -> Api<Service> {
        Api::default_namespaced(self.client.clone())
    }

    /// Creates a pod that serves, and gets no new connections a while before it is asked to terminate.
    async fn create_server(&self, name: &str, readiness: Value) {
        let ports = [
            json!({"name": "http", "containerPort": 8080, "protocol": "TCP"}),
            json!({"name": "dns", "containerPort": 8080, "protocol": "UDP"}),
        ];
        let container = json!({
            "name": "c", "image": "i", "command": ["python3", "-c", SERVER], "ports": ports,
            "readinessProbe": readiness, "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
        });
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 10},
        });
        let pod = serde_json::from_value(pod).unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap();
    }

    async fn create_service(&self, kind: &str, ports: Value) -> Service {
        let service = json!({
            "metadata": {"name": "web"},
            "spec": {"type": kind, "selector": {"app": "web"}, "ports": ports},
        });
        let service = serde_json::from_value(service).unwrap();
        self.services().create(&PostParams::default(), &service).await.unwrap()
    }

    async fn until_ready(&self, name: &str) {
        self.until(name, "became ready", is_ready).await;
    }

    async fn until_log(&self, name: &str, text: &str) {
        for _ in 0..1200 {
            if self.logs(name).await.contains(text) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{name} never printed {text:?}: {}", self.logs(name).await);
    }

    /// Waits until a client has printed for each URL that a pod answered.
    async fn until_answered(&self, client: &str, urls: &[String], name: &str) {
        for url in urls {
            self.until_log(client, &format!("{url} {name}\n")).await;
        }
    }

    async fn until_service(&self, what: &str, holds: impl Fn(&Service) -> bool) -> Service {
        for _ in 0..1200 {
            let service = self.services().get("web").await.unwrap();
            if holds(&service) {
                return service;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the Service never {what}: {:#?}", self.services().get("web").await.unwrap());
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True")
}

fn answers() -> Value {
    json!({"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1})
}

fn node_port(service: &Service) -> SocketAddr {
    let port = service.spec.as_ref().unwrap().ports.as_ref().unwrap()[0].node_port.unwrap();
    (Ipv4Addr::LOCALHOST, u16::try_from(port).unwrap()).into()
}

fn ingress(service: &Service) -> Option<String> {
    service.status.as_ref()?.load_balancer.as_ref()?.ingress.as_ref()?.first()?.ip.clone()
}

/// Sends an HTTP request, and returns the body of the answer.
async fn get(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let body = answer.strip_prefix("HTTP/1.0 200 OK").and_then(|rest| rest.split_once("\r\n\r\n"));
    let body = body.map(|(_, body)| body.to_owned()).filter(|body| !body.is_empty());
    body.ok_or_else(|| std::io::Error::other(format!("answered {answer:?}")))
}

async fn ask_udp(address: SocketAddr) -> Option<String> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    socket.connect(address).await.unwrap();
    socket.send(b"hello").await.ok()?;
    let mut answer = vec![0; 2048];
    let receiving = socket.recv(&mut answer);
    let length = tokio::time::timeout(Duration::from_secs(5), receiving).await.ok()?.ok()?;
    String::from_utf8(answer[..length].to_vec()).ok()
}

/// Sends requests until the expected number of pods has answered, and returns their names.
async fn answering(address: SocketAddr, count: usize) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for _ in 0..600 {
        match get(address).await {
            Ok(name) => drop(names.insert(name)),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        if names.len() == count {
            break;
        }
    }
    names
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn names(names: [&str; 3]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

async fn every_ready_pod_answers(local: Local) {
    let machine = machine(serving(local)).await;
    let _endpoints = endpoints(&machine);
    for name in ["a", "b", "c"] {
        machine.create_server(name, answers()).await;
    }
    machine.create_server("unready", json!({"exec": {"command": ["false"]}})).await;
    let port = free_port();
    let ports = json!([{"name": "http", "port": port, "targetPort": "http"}]);
    machine.create_service("LoadBalancer", ports).await;
    let is_balanced = |service: &Service| ingress(service).as_deref() == Some("127.0.0.1");
    let service = machine.until_service("had an ingress", is_balanced).await;
    for name in ["a", "b", "c"] {
        machine.until_ready(name).await;
    }
    let local =
        LocalAddresses::from_service(&service).get(port, "TCP").expect("it has a local address");
    for address in [node_port(&service), (Ipv4Addr::LOCALHOST, port).into(), local] {
        assert_eq!(answering(address, 3).await, names(["a", "b", "c"]), "on {address}");
        let mut next = BTreeSet::new();
        for _ in 0..3 {
            next.insert(get(address).await.unwrap());
        }
        assert_eq!(next, names(["a", "b", "c"]), "round robin on {address}");
    }
    machine.services().delete("web", &DeleteParams::default()).await.unwrap();
    for _ in 0..600 {
        if TcpStream::connect(node_port(&service)).await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(TcpStream::connect(node_port(&service)).await.is_err(), "nothing listens any more");
}

#[tokio::test]
async fn every_ready_pod_answers_behind_a_service() {
    every_ready_pod_answers(local()).await;
}

#[tokio::test]
async fn on_the_hosts_network_every_ready_pod_answers_behind_a_service() {
    every_ready_pod_answers(Local { host_network: true, ..local() }).await;
}

#[tokio::test]
async fn packets_go_to_a_ready_pod_and_then_to_its_successor() {
    let machine = machine(serving(local())).await;
    if *machine.runtime.networking() != Networking::Namespaces {
        return;
    }
    let _endpoints = endpoints(&machine);
    let ports = json!([{"name": "dns", "port": 53, "targetPort": "dns", "protocol": "UDP"}]);
    let service = machine.create_service("NodePort", ports).await;
    for name in ["a", "b"] {
        machine.create_server(name, answers()).await;
        machine.until_ready(name).await;
        let mut answer = None;
        for _ in 0..60 {
            answer = ask_udp(node_port(&service)).await;
            if answer.is_some() {
                break;
            }
        }
        assert_eq!(answer.as_deref(), Some(&*format!("{name} hello")));
        machine.pods().delete(name, &DeleteParams::default()).await.unwrap();
        machine.until_gone(name).await;
    }
}

#[tokio::test]
async fn pods_are_replaced_one_after_another_without_a_failed_request() {
    let machine = machine(serving(local())).await;
    let _endpoints = endpoints(&machine);
    let ports = json!([{"name": "http", "port": 80, "targetPort": "http"}]);
    let address = node_port(&machine.create_service("NodePort", ports).await);
    for name in ["old-0", "old-1", "old-2"] {
        machine.create_server(name, answers()).await;
        machine.until_ready(name).await;
    }
    assert_eq!(answering(address, 3).await, names(["old-0", "old-1", "old-2"]));
    let is_done = Arc::new(AtomicBool::new(false));
    let client = tokio::spawn({
        let is_done = Arc::clone(&is_done);
        async move {
            let (mut failures, mut requests) = (Vec::new(), 0);
            while !is_done.load(Ordering::Relaxed) {
                requests += 1;
                failures.extend(get(address).await.err().map(|error| error.to_string()));
            }
            (failures, requests)
        }
    });
    for number in 0..3 {
        let (new, old) = (format!("new-{number}"), format!("old-{number}"));
        machine.create_server(&new, answers()).await;
        machine.until_ready(&new).await;
        machine.pods().delete(&old, &DeleteParams::default()).await.unwrap();
        machine.until_gone(&old).await;
    }
    is_done.store(true, Ordering::Relaxed);
    let (failures, requests) = client.await.unwrap();
    assert!(failures.is_empty(), "{} of {requests} failed: {failures:?}", failures.len());
    assert_eq!(answering(address, 3).await, names(["new-0", "new-1", "new-2"]));
}

/// Prints again and again what each URL answers, while it listens on the port of the Service itself.
const CLIENT: &str = "
import socket, sys, time, urllib.request
own = socket.create_server(('0.0.0.0', 8080))
while True:
    for url in sys.argv[1:]:
        try: print(url, urllib.request.urlopen(url, timeout=5).read().decode(), flush=True)
        except OSError as error: print(url, 'failed:', error, flush=True)
    time.sleep(0.1)
";

#[tokio::test]
async fn pods_with_their_own_network_reach_services_by_name_and_address() {
    let machine = machine(serving(local())).await;
    if let Networking::Host { why } = machine.runtime.networking() {
        assert!(std::env::var_os("CI").is_none(), "{why}");
        eprintln!("skipped: {why}");
        return;
    }
    let _endpoints = endpoints(&machine);
    let ports = json!([{"name": "http", "port": 8080, "targetPort": "http"}]);
    let service = machine.create_service("ClusterIP", ports).await;
    let cluster_ip = service.spec.unwrap().cluster_ip.unwrap();
    machine.create_server("old", answers()).await;
    machine.until_ready("old").await;
    let hosts =
        ["web", "web.default", "web.default.svc", "web.default.svc.cluster.local", &cluster_ip];
    let urls = hosts.map(|host| format!("http://{host}:8080/"));
    let mut command = vec!["python3".to_owned(), "-c".to_owned(), CLIENT.to_owned()];
    command.extend(urls.clone());
    let container = json!({"name": "c", "image": "i", "command": command});
    machine.create("client", json!({"containers": [container]})).await;
    machine.until_phase("client", "Running").await;
    machine.until_answered("client", &urls, "old").await;
    machine.create_server("new", answers()).await;
    machine.until_ready("new").await;
    machine.pods().delete("old", &DeleteParams::default()).await.unwrap();
    machine.until_gone("old").await;
    machine.until_answered("client", &urls, "new").await;
    let unknown = shell("c", "getent hosts nothing.default.svc.cluster.local || echo unknown");
    machine.create("other", json!({"restartPolicy": "Never", "containers": [unknown]})).await;
    machine.until_phase("other", "Succeeded").await;
    assert_eq!(machine.logs("other").await, "unknown\n");
}

/// Greets each client with the name of its pod, and repeats what it sends. When it is asked to terminate it serves the clients
/// that it has until they leave.
const ECHO: &str = "
import os, signal, socket, threading
name = os.environ['HOSTNAME'].encode()
listener = socket.create_server(('127.0.0.1', int(os.environ.get('PORT', '8080'))))
def serve(client):
    client.sendall(name + b'\\n')
    while data := client.recv(2048): client.sendall(name + b' ' + data)
    client.close()
def terminate(*_):
    print('terminating', flush=True); listener.shutdown(socket.SHUT_RDWR)
signal.signal(signal.SIGTERM, terminate)
def accept():
    while True:
        try: client, _ = listener.accept()
        except OSError: return
        threading.Thread(target=serve, args=(client,)).start()
threading.Thread(target=accept).start()
while threading.active_count() > 1: signal.sigtimedwait([], 0.1)
";

/// Connects, and returns the connection with the greeting of the pod that accepted it.
async fn greeted(address: SocketAddr) -> (BufReader<TcpStream>, String) {
    let mut stream = BufReader::new(TcpStream::connect(address).await.unwrap());
    let mut greeting = String::new();
    stream.read_line(&mut greeting).await.unwrap();
    (stream, greeting.trim_end().to_owned())
}

#[tokio::test]
async fn a_connection_outlives_the_deletion_of_its_pod_and_new_ones_reach_others() {
    let machine = machine(serving(local())).await;
    let _endpoints = endpoints(&machine);
    let ports = json!([{"port": 80, "targetPort": 8080}]);
    let address = node_port(&machine.create_service("NodePort", ports).await);
    for name in ["a", "b"] {
        let container = json!({
            "name": "c", "image": "i", "command": ["python3", "-c", ECHO],
            "ports": [{"containerPort": 8080}],
            "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
        });
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 600},
        });
        let pod = serde_json::from_value(pod).unwrap();
        machine.pods().create(&PostParams::default(), &pod).await.unwrap();
        machine.until_ready(name).await;
    }
    let mut held = None;
    for _ in 0..600 {
        let (stream, name) = greeted(address).await;
        if name == "a" {
            held = Some(stream);
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut held = held.expect("the pod accepted a connection");
    machine.pods().delete("a", &DeleteParams::default()).await.unwrap();
    machine.until_log("a", "terminating").await;
    for _ in 0..10 {
        assert_eq!(greeted(address).await.1, "b", "of a new connection");
    }
    held.write_all(b"still here\n").await.unwrap();
    let mut answer = String::new();
    held.read_line(&mut answer).await.unwrap();
    assert_eq!(answer, "a still here\n");
    assert!(machine.pods().get_opt("a").await.unwrap().is_some(), "it waits for its client");
    drop(held);
    machine.until_gone("a").await;
}

#[tokio::test]
async fn a_port_that_is_taken_is_reported_and_the_node_port_stays_usable() {
    let machine = machine(serving(local())).await;
    let _endpoints = endpoints(&machine);
    machine.create_server("a", answers()).await;
    let taken = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let ports = json!([{"port": port, "targetPort": 8080}]);
    machine.create_service("LoadBalancer", ports).await;
    let problem = format!("could not listen on 127.0.0.1:{port}: another program or Service");
    let condition = |service: &Service| {
        let status = service.status.as_ref()?;
        let mut conditions = status.conditions.iter().flatten();
        conditions.find(|c| c.type_ == "LoadBalancerPortsError").map(|c| c.message.clone())
    };
    let is_reported =
        |service: &Service| condition(service).is_some_and(|message| message.contains(&problem));
    let service = machine.until_service("had a condition", is_reported).await;
    assert_eq!(ingress(&service), None);
    machine.until_event(&problem).await;
    machine.until_ready("a").await;
    assert_eq!(answering(node_port(&service), 1).await, BTreeSet::from(["a".to_owned()]));
    drop(taken);
    let is_balanced =
        |service: &Service| ingress(service).is_some() && condition(service).is_none();
    machine.until_service("was balanced once the port was free", is_balanced).await;
    assert_eq!(get((Ipv4Addr::LOCALHOST, port).into()).await.unwrap(), "a");
}

#[tokio::test]
async fn a_fleet_autoscaler_calls_a_webhook_by_the_name_of_its_service() {
    let machine = machine(serving(local())).await;
    let _endpoints = endpoints(&machine);
    machine.create_server("sizer", answers()).await;
    machine.create_service("ClusterIP", json!([{"port": 8000, "targetPort": "http"}])).await;
    machine.until_ready("sizer").await;
    let (client, supervisor) = (machine.client.clone(), Supervisor::new());
    let (caches, random) = (Caches::new(None, false), Random::seeded(1));
    let kinds = required_kinds(&Part::ALL);
    let _following = caches.follow(&client, &kinds, &random, &supervisor);
    // Only the autoscaler runs: the fleet has no servers, which does not matter here.
    let _controllers = supervisor.spawn("controllers", move || {
        let (client, caches) = (client.clone(), Arc::clone(&caches));
        let settings =
            control::Settings { resolves_services: true, ..control::Settings::default() };
        control::run(client, caches, settings, &[Part::FleetAutoscaler], std::future::pending())
    });
    let api = |group: &str, kind: &str| -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        Api::default_namespaced_with(machine.client.clone(), &resource)
    };
    let fleets = api("agones.dev", "Fleet");
    let pod = json!({"spec": {"containers": [{"name": "game", "image": "game"}]}});
    let fleet = json!({
        "apiVersion": "agones.dev/v1", "kind": "Fleet", "metadata": {"name": "games"},
        "spec": {"replicas": 1, "template": {"spec": {"template": pod}}},
    });
    let fleet = serde_json::from_value(fleet).unwrap();
    fleets.create(&PostParams::default(), &fleet).await.unwrap();
    let service = json!({"name": "web", "namespace": "default", "path": "scale"});
    let autoscaler = json!({
        "apiVersion": "autoscaling.agones.dev/v1", "kind": "FleetAutoscaler",
        "metadata": {"name": "by-service"},
        "spec": {
            "fleetName": "games", "policy": {"type": "Webhook", "webhook": {"service": service}},
            "sync": {"type": "FixedInterval", "fixedInterval": {"seconds": 1}},
        },
    });
    let autoscaler = serde_json::from_value(autoscaler).unwrap();
    let autoscalers = api("autoscaling.agones.dev", "FleetAutoscaler");
    autoscalers.create(&PostParams::default(), &autoscaler).await.unwrap();
    for _ in 0..1200 {
        if fleets.get("games").await.unwrap().data["spec"]["replicas"] == 7 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never resized: {:?}", autoscalers.get("by-service").await.unwrap().data["status"]);
}
