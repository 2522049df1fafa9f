//! How does a pod of this machine reach the network, and how is it reached?

mod forward;
mod own;
mod shared;
mod tcp;
mod udp;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};

use k8s_openapi::api::core::v1::{Container, Pod};
use tokio::net::{TcpListener, TcpStream};

use crate::kubelet::Machine;
use crate::spawner::Spawner;
use crate::status::containers;
use crate::{Local, resolve};
use own::OwnNetwork;
pub use own::allow_for_ordinary_users;
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
pub(crate) async fn detect(local: &Local) -> Networking {
    if local.host_network {
        return Networking::Host { why: "it was asked for".to_owned() };
    }
    match OwnNetwork::empty().await {
        Ok(_) => Networking::Namespaces,
        Err(err) => {
            Networking::Host { why: format!("Linux does not allow network namespaces here: {err}") }
        }
    }
}

/// The network of one pod.
pub(crate) enum PodNetwork {
    Own(OwnNetwork),
    Shared(SharedNetwork, Spawner),
}

impl PodNetwork {
    /// Makes the network of a pod.
    pub(crate) async fn new(machine: &Machine, local: &Local, pod: &Pod) -> io::Result<Self> {
        let has_docker = machine.docker.is_some();
        let on_host = pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true))
            || has_docker && containers(pod).any(|(_, c)| resolve::is_for_docker(local, c));
        if machine.networking == Networking::Namespaces && !on_host {
            return Ok(Self::Own(OwnNetwork::new(local, pod).await?));
        }
        let spawner = machine.spawner.clone();
        let spawner = spawner.ok_or_else(|| io::Error::other("no process runs here"))?;
        Ok(Self::Shared(SharedNetwork::new(local, pod)?, spawner))
    }

    /// Gives the variables that a container gets on top of its own.
    pub(crate) fn env(&self, container: &Container) -> BTreeMap<String, String> {
        match self {
            Self::Own(own) => own.env(),
            Self::Shared(shared, _) => shared.env(container),
        }
    }

    /// Gives the addresses of the host and of the pod, as the pod sees them.
    pub(crate) fn addresses(&self, local: &Local) -> (IpAddr, IpAddr) {
        match self {
            Self::Own(_) => (local.address, Ipv4Addr::LOCALHOST.into()),
            Self::Shared(..) => (local.address, local.address),
        }
    }

    /// Gives the thread whose children are in this network.
    pub(crate) fn spawner(&self) -> &Spawner {
        match self {
            Self::Own(own) => own.spawner(),
            Self::Shared(_, spawner) => spawner,
        }
    }

    /// Listens on a port inside.
    pub(crate) async fn listen_tcp(&self, port: u16) -> io::Result<TcpListener> {
        match self {
            Self::Own(own) => own.listen_tcp(port).await,
            Self::Shared(shared, _) => shared.listen_tcp(port),
        }
    }

    /// Connects to a port inside.
    pub(crate) async fn connect_tcp(&self, port: u16) -> io::Result<TcpStream> {
        match self {
            Self::Own(own) => tcp::connect(own.spawner(), port).await,
            Self::Shared(shared, _) => shared.connect_tcp(port).await,
        }
    }
}
