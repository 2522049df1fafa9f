//! Pods with networks of their own, and pods that share the host's.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use kubelet::{Local, Networking};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};

use super::{local, machine};

/// Answers on PORT, or 7654, by UDP and TCP, with the name of its pod and what it was sent.
const SERVER: &str = "
import os, socket, threading
port = int(os.environ.get('PORT', '7654'))
name = os.environ['HOSTNAME'].encode()
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind(('127.0.0.1', port))
tcp = socket.create_server(('127.0.0.1', port))
def packets():
    while True:
        data, sender = udp.recvfrom(2048); udp.sendto(name + b' ' + data, sender)
threading.Thread(target=packets, daemon=True).start()
print('ready', flush=True)
while True:
    connection, _ = tcp.accept(); data = connection.recv(2048)
    connection.sendall(name + b' ' + data); connection.close()
";

fn server(port: u16) -> Value {
    let ports = ["UDP", "TCP"].map(|protocol| {
        json!({"name": protocol.to_lowercase(), "containerPort": 7654, "hostPort": port, "protocol": protocol})
    });
    json!({"containers": [{"name": "c", "image": "i", "command": ["python3", "-c", SERVER], "ports": ports}]})
}

/// Finds ports that are free now.
fn free_ports(count: usize) -> Vec<u16> {
    let held: Vec<_> = (0..count)
        .map(|_| std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap())
        .collect();
    held.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

async fn by_udp(port: u16, text: &str) -> Option<String> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    socket.connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    socket.send(text.as_bytes()).await.ok()?;
    let mut answer = vec![0; 2048];
    let length =
        tokio::time::timeout(Duration::from_secs(2), socket.recv(&mut answer)).await.ok()?.ok()?;
    String::from_utf8(answer[..length].to_vec()).ok()
}

async fn by_tcp(port: u16, text: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    stream.write_all(text.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

async fn many_servers_answer(local: Local, count: usize) {
    let machine = machine(local).await;
    let ports = free_ports(count);
    for (index, port) in ports.iter().enumerate() {
        machine.create(&format!("s{index}"), server(*port)).await;
    }
    for (index, port) in ports.iter().enumerate() {
        let name = format!("s{index}");
        machine.until_phase(&name, "Running").await;
        for _ in 0..600 {
            if machine.logs(&name).await.contains("ready") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for text in ["one", "two"] {
            assert_eq!(by_udp(*port, text).await.as_deref(), Some(&*format!("{name} {text}")));
            assert_eq!(by_tcp(*port, text).await.unwrap(), format!("{name} {text}"));
        }
    }
    machine.runtime.stop(Duration::from_secs(1)).await;
    assert!(by_tcp(ports[0], "gone").await.is_err(), "nothing listens any more");
}

#[tokio::test]
async fn servers_that_all_listen_on_one_port_answer_on_their_own_host_ports() {
    let allowed = machine(local()).await.runtime.networking().clone();
    if let Networking::Host { why } = &allowed {
        assert!(std::env::var_os("CI").is_none(), "{why}");
        eprintln!("skipped: {why}");
        return;
    }
    many_servers_answer(local(), 20).await;
}

#[tokio::test]
async fn on_the_hosts_network_servers_get_their_ports() {
    many_servers_answer(Local { host_network: true, ..local() }, 3).await;
}

#[tokio::test]
async fn a_host_port_that_is_taken_is_named_and_the_pod_starts_once_it_is_free() {
    let machine = machine(local()).await;
    if *machine.runtime.networking() != Networking::Namespaces {
        return;
    }
    let port = free_ports(1)[0];
    let taken = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    machine.create("a", server(port)).await;
    machine.until_event(&format!("host port {port}/TCP: another program listens on it")).await;
    drop(taken);
    machine.until_phase("a", "Running").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "by hand: it starts 500 processes"]
async fn five_hundred_processes_start_and_stop() {
    let machine = machine(local()).await;
    let ports = free_ports(500);
    let began = std::time::Instant::now();
    for (index, port) in ports.iter().enumerate() {
        let script = "exec sleep 1000";
        let port = json!([{"containerPort": 7654, "hostPort": port, "protocol": "UDP"}]);
        let container =
            json!({"name": "c", "image": "i", "command": ["sh", "-c", script], "ports": port});
        machine.create(&format!("s{index}"), json!({"containers": [container]})).await;
    }
    eprintln!("created after {:?}", began.elapsed());
    for index in 0..ports.len() {
        machine.until_phase(&format!("s{index}"), "Running").await;
    }
    eprintln!("running after {:?}", began.elapsed());
    let began = std::time::Instant::now();
    machine.pods().delete_collection(&Default::default(), &Default::default()).await.unwrap();
    for index in 0..ports.len() {
        machine.until_gone(&format!("s{index}")).await;
    }
    eprintln!("gone after {:?}", began.elapsed());
}
