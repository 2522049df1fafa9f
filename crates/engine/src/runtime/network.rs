//! How does a pod of this machine reach the network, and how is it reached?

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};

use k8s_openapi::api::core::v1::{Container, Pod};
use tokio::net::TcpListener;

use super::spawner::{Namespace, Spawner};
use super::status::containers;
use super::{Local, Machine};

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

/// Finds out what this machine allows.
#[expect(
    clippy::unused_async,
    reason = "finding out what Linux allows means trying it on another thread"
)]
pub(super) async fn find_out(_spawner: &Spawner, local: &Local) -> Networking {
    let why = if local.host_network { "the settings say so" } else { "not built yet" };
    Networking::Host { why: why.to_owned() }
}

/// The network of one pod.
pub(super) struct PodNetwork {
    namespace: Option<Namespace>,
    /// Ports of in-process programs on the host's network, by their usual numbers.
    reserved: BTreeMap<u16, std::net::TcpListener>,
    /// Variables that every container of the pod gets.
    env: BTreeMap<String, String>,
}

impl PodNetwork {
    /// Makes the network of a pod.
    #[expect(
        clippy::unused_async,
        reason = "finding out what Linux allows means trying it on another thread"
    )]
    pub(super) async fn new(machine: &Machine, local: &Local, pod: &Pod) -> io::Result<Self> {
        let _ = machine;
        let mut network = Self { namespace: None, reserved: BTreeMap::new(), env: BTreeMap::new() };
        for (_, container) in containers(pod) {
            network.reserve(local, pod, container)?;
        }
        Ok(network)
    }

    /// Takes free ports for the in-process program that stands for a container.
    fn reserve(&mut self, local: &Local, pod: &Pod, container: &Container) -> io::Result<()> {
        let image = container.image.as_deref().unwrap_or_default();
        let ports = local.programs.find(image).map(|p| p.ports(pod, container)).unwrap_or_default();
        for port in ports {
            let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            listener.set_nonblocking(true)?;
            if !port.env.is_empty() {
                self.env.insert(port.env, listener.local_addr()?.port().to_string());
            }
            self.reserved.insert(port.port, listener);
        }
        Ok(())
    }

    /// Gives the variables that a container gets on top of its own.
    pub(super) fn env(&self, container: &Container) -> BTreeMap<String, String> {
        let mut env = self.env.clone();
        // On the host's network a program cannot listen where it is used to: many would.
        let port = container.ports.iter().flatten().find_map(|port| port.host_port);
        env.extend(port.map(|port| ("PORT".to_owned(), port.to_string())));
        env
    }

    /// Gives the addresses of the host and of the pod.
    pub(super) fn addresses(&self, local: &Local) -> (IpAddr, IpAddr) {
        (local.address, local.address)
    }

    /// Gives the namespace of the pod's own network.
    pub(super) fn namespace(&self) -> Option<&Namespace> {
        self.namespace.as_ref()
    }

    /// Listens on a port inside.
    #[expect(
        clippy::unused_async,
        reason = "in a network of its own, a pod's sockets come from another thread"
    )]
    pub(super) async fn listen_tcp(&self, port: u16) -> io::Result<TcpListener> {
        let listener = match self.reserved.get(&port) {
            Some(reserved) => reserved.try_clone()?,
            None => std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))?,
        };
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    }
}
