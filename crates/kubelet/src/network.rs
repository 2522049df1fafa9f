//! The network of a pod: one of its own, or the host's.

mod forward;
mod index;
mod own;
mod services;
mod shared;
pub(crate) mod tcp;
pub(crate) mod udp;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};

use k8s_openapi::api::core::v1::{Container, Pod};
use process::Supervisor;
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use crate::spawner::Spawner;
pub(crate) use index::NetworkIndex;
use own::OwnNetwork;
pub use own::allow_for_ordinary_users;
pub(crate) use own::enter_user_namespace;
pub(crate) use services::{NAME_SERVER, ServiceNetwork};
use shared::SharedNetwork;

/// How pods of this machine reach the network.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Networking {
    /// Each pod has a network of its own; host ports are forwarded into it.
    Namespaces,
    /// All pods share the host's network; ports come through the environment.
    Host {
        /// Why pods have no network of their own.
        why: String,
    },
}

/// Detects which networks this machine allows.
pub(crate) async fn detect(wants_host: bool) -> Networking {
    if wants_host {
        return Networking::Host { why: "the settings ask for it".to_owned() };
    }
    match OwnNetwork::empty().await {
        Ok(_) => Networking::Namespaces,
        Err(err) => {
            Networking::Host { why: format!("Linux does not allow network namespaces here: {err}") }
        }
    }
}

/// A port that a program in this process listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramPort {
    /// The usual number, which is used where the pod has a network of its own.
    pub port: u16,
    /// The environment variable that holds the number for the other containers of the pod; empty: none.
    pub env: String,
}

/// What the network of a pod is made from.
pub(crate) struct NetworkConfig<'a> {
    pub(crate) pod: &'a Pod,
    /// The address of the node, where host ports are listened on.
    pub(crate) address: IpAddr,
    /// The ports of the pod's in-process programs.
    pub(crate) program_ports: Vec<ProgramPort>,
    /// Where the pod reaches Services from a network of its own; `None`: nowhere.
    pub(crate) services: Option<&'a ServiceNetwork>,
    /// Supervises the tasks that forward host ports.
    pub(crate) supervisor: &'a Supervisor,
}

/// The network of one pod.
pub(crate) enum PodNetwork {
    Own(OwnNetwork),
    Shared(SharedNetwork, Spawner),
}

impl PodNetwork {
    /// Creates a network that only the pod is in.
    pub(crate) async fn own(config: NetworkConfig<'_>) -> io::Result<Self> {
        Ok(Self::Own(OwnNetwork::new(config).await?))
    }

    /// Uses the host's network, where `spawner` starts processes.
    pub(crate) fn shared(config: NetworkConfig<'_>, spawner: Spawner) -> io::Result<Self> {
        Ok(Self::Shared(SharedNetwork::new(config)?, spawner))
    }

    /// Whether the pod has a network of its own, from which it reaches cluster IPs.
    pub(crate) fn reaches_cluster_ips(&self) -> bool {
        match self {
            Self::Own(own) => own.reaches_services(),
            Self::Shared(..) => false,
        }
    }

    /// Returns the variables that a container gets on top of its own.
    pub(crate) fn env(&self, container: &Container) -> BTreeMap<String, String> {
        match self {
            Self::Own(own) => own.env(),
            Self::Shared(shared, _) => shared.env(container),
        }
    }

    /// Returns the address of the pod, from inside it; `node` is that of its node.
    pub(crate) fn pod_ip(&self, node: IpAddr) -> IpAddr {
        match self {
            Self::Own(_) => Ipv4Addr::LOCALHOST.into(),
            Self::Shared(..) => node,
        }
    }

    /// Returns the thread whose children are in this network.
    pub(crate) fn spawner(&self) -> &Spawner {
        match self {
            Self::Own(own) => own.spawner(),
            Self::Shared(_, spawner) => spawner,
        }
    }

    /// Listens on a port of the pod.
    pub(crate) async fn listen_tcp(&self, port: u16) -> io::Result<TcpListener> {
        match self {
            Self::Own(own) => own.listen_tcp(port).await,
            Self::Shared(shared, _) => shared.listen_tcp(port),
        }
    }

    /// Connects to a port of the pod.
    pub(crate) async fn connect_tcp(&self, port: u16) -> io::Result<TcpStream> {
        match self {
            Self::Own(own) => tcp::connect(own.spawner(), port).await,
            Self::Shared(shared, _) => shared.connect_tcp(port).await,
        }
    }

    /// Opens a UDP socket that is connected to a port of the pod.
    pub(crate) async fn connect_udp(&self, port: u16) -> io::Result<UdpSocket> {
        match self {
            Self::Own(own) => udp::connect(own.spawner(), port).await,
            Self::Shared(shared, spawner) => udp::connect(spawner, shared.host_port(port)).await,
        }
    }
}
