//! The sockets on which a Service is reachable.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use cluster::{Key, LocalAddresses};
use k8s_openapi::api::core::v1::{Service, ServicePort};
use process::Supervised;
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use super::Target;
use super::backend::Backend;
use crate::machine::Machine;
use crate::network::{tcp, udp};

/// What clients know the address of a listener from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ListenerRole {
    /// It stands for the cluster IP: 127.96.0.7 for 10.96.0.7, or any port of 127.0.0.1.
    Cluster,
    /// The cluster IP itself, for pods with networks of their own.
    Pods,
    /// The node port.
    Node,
    /// The load balancer.
    LoadBalancer,
}

/// The ports of one Service, by number and protocol.
#[derive(Default)]
pub(super) struct ServicePorts {
    ports: BTreeMap<(u16, String), Port>,
    /// The problems that were reported last.
    pub(super) reported: String,
}

struct Port {
    name: String,
    backend: Arc<Backend>,
    listeners: BTreeMap<ListenerRole, Listener>,
    problems: BTreeMap<ListenerRole, String>,
}

struct Listener {
    wanted: SocketAddr,
    bound: SocketAddr,
    /// Forwards until this is dropped.
    _task: Supervised,
}

impl ServicePorts {
    /// Makes the listeners what the Service asks for. Those that stay are not interrupted.
    pub(super) async fn listen(&mut self, service: &Service, machine: &Arc<Machine>) {
        let wanted = wanted(service, machine);
        self.ports.retain(|port, _| wanted.contains_key(port));
        for (key, (name, roles)) in wanted {
            let protocol = key.1.clone();
            let port = self.ports.entry(key).or_insert_with(|| Port {
                name: String::new(),
                backend: Arc::new(Backend::new(machine)),
                listeners: BTreeMap::new(),
                problems: BTreeMap::new(),
            });
            port.name = name;
            port.problems.clear();
            port.listeners.retain(|role, listener| roles.get(role) == Some(&listener.wanted));
            for (role, address) in roles {
                if port.listeners.contains_key(&role) {
                    continue;
                }
                let of = Key::from_meta(&service.metadata);
                match bind(role, address, &protocol, &of, &port.backend, machine).await {
                    Ok(listener) => drop(port.listeners.insert(role, listener)),
                    Err(error) => drop(port.problems.insert(role, explain(&error, address))),
                }
            }
        }
    }

    /// Sets the endpoints of each port.
    pub(super) fn set_targets(&self, targets: impl Fn(&str, &str) -> Vec<Target>) {
        for ((_, protocol), port) in &self.ports {
            port.backend.set_targets(targets(&port.name, protocol));
        }
    }

    /// Returns where the ports of the cluster IP are reachable on this machine.
    pub(super) fn local_addresses(&self) -> LocalAddresses {
        let mut addresses = LocalAddresses::default();
        for ((number, protocol), port) in &self.ports {
            if let Some(listener) = port.listeners.get(&ListenerRole::Cluster) {
                addresses.insert(*number, protocol, listener.bound);
            }
        }
        addresses
    }

    /// Whether any port of the load balancer is bound.
    pub(super) fn has_load_balancer(&self) -> bool {
        self.ports.values().any(|port| port.listeners.contains_key(&ListenerRole::LoadBalancer))
    }

    /// Returns the reason for each port that could not be bound.
    pub(super) fn problems(&self) -> impl Iterator<Item = (ListenerRole, &str)> {
        let problems = self.ports.values().flat_map(|port| &port.problems);
        problems.map(|(role, problem)| (*role, problem.as_str()))
    }
}

type WantedPorts = BTreeMap<(u16, String), (String, BTreeMap<ListenerRole, SocketAddr>)>;

/// Returns the name and the addresses of each port of a Service.
fn wanted(service: &Service, machine: &Machine) -> WantedPorts {
    let Some(spec) = &service.spec else { return WantedPorts::new() };
    let node = machine.local.as_ref().map_or(Ipv4Addr::LOCALHOST.into(), |local| local.address);
    let cluster_ip = spec.cluster_ip.as_deref().and_then(|ip| ip.parse().ok());
    let kind = spec.type_.as_deref().unwrap_or("ClusterIP");
    let port = |port: &ServicePort| {
        let number = u16::try_from(port.port).ok()?;
        let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
        let mut roles = BTreeMap::new();
        roles.insert(ListenerRole::Cluster, loopback_twin(cluster_ip?, number));
        if let Some(IpAddr::V4(ip)) = cluster_ip.filter(|_| machine.services.is_some()) {
            roles.insert(ListenerRole::Pods, SocketAddr::from((ip, number)));
        }
        let node_port = port.node_port.and_then(|port| u16::try_from(port).ok());
        if let Some(node_port) = node_port.filter(|port| *port > 0 && kind != "ClusterIP") {
            roles.insert(ListenerRole::Node, SocketAddr::new(node, node_port));
        }
        if kind == "LoadBalancer" {
            roles.insert(ListenerRole::LoadBalancer, SocketAddr::new(node, number));
        }
        Some(((number, protocol), (port.name.clone().unwrap_or_default(), roles)))
    };
    spec.ports.iter().flatten().filter_map(port).collect()
}

/// Returns the loopback address that stands for a cluster IP. 127.0.x.x belongs to other programs: there, any port will do.
fn loopback_twin(cluster_ip: IpAddr, port: u16) -> SocketAddr {
    if let IpAddr::V4(ip) = cluster_ip
        && let [_, b, c, d] = ip.octets()
        && b != 0
    {
        return SocketAddr::from((Ipv4Addr::new(127, b, c, d), port));
    }
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

fn explain(error: &io::Error, address: SocketAddr) -> String {
    let why = if error.kind() == io::ErrorKind::AddrInUse {
        "another program or Service listens on it".to_owned()
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        "the system reserves ports below 1024 for root; use a higher port".to_owned()
    } else {
        error.to_string()
    };
    format!("could not listen on {address}: {why}")
}

/// Binds a socket, and starts the task that forwards it.
async fn bind(
    role: ListenerRole,
    address: SocketAddr,
    protocol: &str,
    of: &Key,
    backend: &Arc<Backend>,
    machine: &Machine,
) -> io::Result<Listener> {
    let bound = bind_to(role, address, protocol, of, backend, machine).await;
    match bound {
        // Clients read the address from the Service, so that any port will do.
        Err(_) if role == ListenerRole::Cluster => {
            let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let bound = bind_to(role, any, protocol, of, backend, machine).await?;
            Ok(Listener { wanted: address, ..bound })
        }
        bound => bound,
    }
}

async fn bind_to(
    role: ListenerRole,
    wanted: SocketAddr,
    protocol: &str,
    of: &Key,
    backend: &Arc<Backend>,
    machine: &Machine,
) -> io::Result<Listener> {
    let supervisor = &machine.context.supervisor;
    let name = format!("{wanted}/{protocol} of Service {of}");
    let backend = Arc::clone(backend);
    let inside = machine.services.as_ref().filter(|_| role == ListenerRole::Pods);
    let (bound, task) = match protocol {
        "TCP" => {
            let listener = match inside {
                Some(services) => services.listen_tcp(wanted).await?,
                None => TcpListener::bind(wanted).await?,
            };
            let listener = Arc::new(listener);
            let bound = listener.local_addr()?;
            let work =
                move || forward_tcp(Arc::clone(&listener), Arc::clone(&backend), wanted.port());
            (bound, supervisor.spawn(name, work))
        }
        "UDP" => {
            let socket = match inside {
                Some(services) => services.bind_udp(wanted).await?,
                None => UdpSocket::bind(wanted).await?,
            };
            let socket = Arc::new(socket);
            let bound = socket.local_addr()?;
            let work =
                move || forward_udp(Arc::clone(&socket), Arc::clone(&backend), wanted.port());
            (bound, supervisor.spawn(name, work))
        }
        _ => {
            let message = "only TCP and UDP are forwarded";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
    };
    Ok(Listener { wanted, bound, _task: task })
}

async fn forward_tcp(listener: Arc<TcpListener>, backend: Arc<Backend>, port: u16) {
    let accept = || {
        let listener = Arc::clone(&listener);
        async move { listener.accept().await.map(|(client, _)| client) }
    };
    let carry = |outer, client| carry(outer, client, Arc::clone(&backend));
    tcp::accept_all(accept, port, carry).await;
}

async fn carry(
    outer: TcpStream,
    client: tcp::AcceptedClient,
    backend: Arc<Backend>,
) -> io::Result<()> {
    let connected = backend.connect_tcp().await;
    let server = connected.inspect_err(|error| {
        tracing::debug!(%error, "no endpoint accepted a connection; closing it");
    })?;
    tcp::copy_both(outer, server, &client).await
}

async fn forward_udp(socket: Arc<UdpSocket>, backend: Arc<Backend>, port: u16) {
    udp::forward(socket, port, || Arc::clone(&backend).open_udp()).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_ip_has_a_twin_on_loopback() {
        for (ip, twin) in [
            ("10.96.0.7", "127.96.0.7:80"),
            ("10.111.255.254", "127.111.255.254:80"),
            ("10.0.0.1", "127.0.0.1:0"),
            ("fd00::1", "127.0.0.1:0"),
        ] {
            assert_eq!(loopback_twin(ip.parse().unwrap(), 80).to_string(), twin, "{ip}");
        }
    }
}
