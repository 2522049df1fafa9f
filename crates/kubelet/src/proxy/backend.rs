//! The endpoints of one port of a Service, and how each of them is reached.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use cluster::Key;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use tokio::net::{TcpStream, UdpSocket};

use crate::machine::Machine;
use crate::network::udp::Upstream;

/// How long one endpoint may take to accept a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// How often all endpoints are tried, and the pause in between: a program may listen a moment after its pod is ready.
const ATTEMPTS: (u32, Duration) = (5, Duration::from_millis(100));

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The pod behind it.
    pub(super) pod: Option<TargetPod>,
    pub(super) address: SocketAddr,
    /// Whether it gets new connections.
    pub(super) is_ready: bool,
}

/// The pod of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TargetPod {
    pub(super) key: Key,
    pub(super) uid: String,
}

/// Returns the endpoints of a port, by its name and protocol.
pub(super) fn targets(slices: &[&EndpointSlice], name: &str, protocol: &str) -> Vec<Target> {
    let is_port = |port: &&EndpointPort| {
        port.name.as_deref().unwrap_or_default() == name
            && port.protocol.as_deref().unwrap_or("TCP") == protocol
    };
    let mut targets = Vec::new();
    for slice in slices {
        let port = slice.ports.iter().flatten().find(is_port).and_then(|port| port.port);
        let Some(port) = port.and_then(|port| u16::try_from(port).ok()) else { continue };
        let namespace = slice.metadata.namespace.as_deref().unwrap_or_default();
        let endpoints = slice.endpoints.iter().flatten();
        targets.extend(endpoints.filter_map(|endpoint| target(endpoint, namespace, port)));
    }
    targets
}

fn target(endpoint: &Endpoint, namespace: &str, port: u16) -> Option<Target> {
    let address: IpAddr = endpoint.addresses.first()?.parse().ok()?;
    let reference = endpoint.target_ref.as_ref();
    let reference = reference.filter(|target| target.kind.as_deref() == Some("Pod"));
    let pod = reference.and_then(|pod| {
        let namespace = pod.namespace.as_deref().unwrap_or(namespace);
        Some(TargetPod { key: Key::new(namespace, pod.name.as_deref()?), uid: pod.uid.clone()? })
    });
    // An endpoint that does not say so is ready.
    let is_ready = endpoint.conditions.as_ref().and_then(|c| c.ready).unwrap_or(true);
    Some(Target { pod, address: SocketAddr::new(address, port), is_ready })
}

/// The endpoints of one port, shared by its listeners.
pub(super) struct Backend {
    machine: Arc<Machine>,
    targets: RwLock<Arc<[Target]>>,
    /// Counts connections: each goes to the next endpoint.
    next: AtomicUsize,
}

impl Backend {
    pub(super) fn new(machine: &Arc<Machine>) -> Self {
        let targets = RwLock::new(Arc::from([]));
        Self { machine: Arc::clone(machine), targets, next: AtomicUsize::new(0) }
    }

    pub(super) fn set_targets(&self, targets: Vec<Target>) {
        *self.targets.write().unwrap_or_else(PoisonError::into_inner) = targets.into();
    }

    fn targets(&self) -> Arc<[Target]> {
        Arc::clone(&self.targets.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the endpoints that may get a new connection, the next one first.
    fn ready(&self) -> Vec<Target> {
        let targets = self.targets();
        let mut ready: Vec<Target> =
            targets.iter().filter(|target| self.is_ready(target)).cloned().collect();
        if !ready.is_empty() {
            let first = self.next.fetch_add(1, Ordering::Relaxed) % ready.len();
            ready.rotate_left(first);
        }
        ready
    }

    /// Whether an endpoint may get a new connection. The kubelet knows that a pod terminates before its slice says so.
    fn is_ready(&self, target: &Target) -> bool {
        let is_terminating = target.pod.as_ref().is_some_and(|pod| {
            let entry = self.machine.pods.get(&pod.key);
            entry.is_some_and(|entry| {
                *entry.uid == *pod.uid && entry.latest().metadata.deletion_timestamp.is_some()
            })
        });
        target.is_ready && !is_terminating
    }

    /// Connects to the next endpoint that accepts.
    pub(super) async fn connect_tcp(&self) -> io::Result<TcpStream> {
        let mut failure = io::Error::new(io::ErrorKind::NotConnected, "no endpoint is ready");
        let (attempts, pause) = ATTEMPTS;
        for attempt in 0..attempts {
            if attempt > 0 {
                tokio::time::sleep(pause).await;
            }
            for target in self.ready() {
                match tokio::time::timeout(CONNECT_WITHIN, self.reach_tcp(&target)).await {
                    Ok(Ok(stream)) => return Ok(stream),
                    Ok(Err(error)) => failure = error,
                    Err(_) => failure = io::ErrorKind::TimedOut.into(),
                }
            }
        }
        Err(failure)
    }

    async fn reach_tcp(&self, target: &Target) -> io::Result<TcpStream> {
        let port = target.address.port();
        let Some(pod) = &target.pod else { return TcpStream::connect(target.address).await };
        let network = self.machine.networks.get(&pod.uid).ok_or_else(|| elsewhere(pod))?;
        network.connect_tcp(port).await
    }

    /// Opens a socket to the next endpoint. It serves its client until the endpoint is gone.
    pub(super) async fn open_udp(self: Arc<Self>) -> io::Result<Upstream> {
        let mut failure = io::Error::new(io::ErrorKind::NotConnected, "no endpoint is ready");
        for target in self.ready() {
            match self.reach_udp(&target).await {
                Ok(socket) => {
                    let backend = Arc::clone(&self);
                    let is_current =
                        Box::new(move || backend.targets().iter().any(|t| t.is_same(&target)));
                    return Ok(Upstream { socket, is_current });
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    async fn reach_udp(&self, target: &Target) -> io::Result<UdpSocket> {
        if let Some(pod) = &target.pod {
            let network = self.machine.networks.get(&pod.uid).ok_or_else(|| elsewhere(pod))?;
            return network.connect_udp(target.address.port()).await;
        }
        let any: IpAddr = match target.address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).await?;
        socket.connect(target.address).await?;
        Ok(socket)
    }
}

impl Target {
    /// Whether it is the same endpoint, ready or not.
    fn is_same(&self, other: &Self) -> bool {
        (&self.pod, self.address) == (&other.pod, other.address)
    }
}

fn elsewhere(pod: &TargetPod) -> io::Error {
    let message = format!("pod {} does not run on this machine", pod.key);
    io::Error::new(io::ErrorKind::HostUnreachable, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn endpoints_are_found_by_the_name_and_protocol_of_their_port() {
        let pod = json!({"kind": "Pod", "name": "a", "uid": "u"});
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": {"namespace": "games"}, "addressType": "IPv4",
            "ports": [
                {"name": "http", "port": 8080, "protocol": "TCP"},
                {"name": "dns", "port": 5353, "protocol": "UDP"},
            ],
            "endpoints": [
                {"addresses": ["10.0.0.1"], "targetRef": pod, "conditions": {"ready": true}},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": false}},
                {"addresses": ["10.0.0.3"]},
                {"addresses": ["web.example"]},
            ],
        }))
        .unwrap();
        let found = targets(&[&slice], "http", "TCP");
        let lines: Vec<_> =
            found.iter().map(|t| (t.address.to_string(), t.is_ready, t.pod.is_some())).collect();
        let expected = [
            ("10.0.0.1:8080".to_owned(), true, true),
            ("10.0.0.2:8080".to_owned(), false, false),
            ("10.0.0.3:8080".to_owned(), true, false),
        ];
        assert_eq!(lines, expected);
        assert_eq!(found[0].pod.as_ref().unwrap().key, Key::new("games", "a"));
        assert_eq!(targets(&[&slice], "dns", "UDP")[0].address.port(), 5353);
        assert!(targets(&[&slice], "http", "UDP").is_empty());
    }
}
