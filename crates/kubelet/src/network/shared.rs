//! The host's network, shared by pods: each needs ports of its own instead of the usual ones.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{Container, Pod};
use tokio::net::{TcpListener, TcpStream};

use super::{NetworkConfig, ProgramPort};
use crate::status::containers;

/// The part of the host's network that a pod uses.
pub(crate) struct SharedNetwork {
    /// Ports of in-process programs, by their usual numbers.
    reserved: BTreeMap<u16, std::net::TcpListener>,
    /// Variables that every container of the pod gets.
    env: BTreeMap<String, String>,
    /// Host ports by the ports of containers.
    host_ports: BTreeMap<u16, u16>,
    /// Free ports by those ports of containers that have no host port: pods of one template would all listen on the same one.
    assigned: BTreeMap<u16, u16>,
}

impl SharedNetwork {
    /// Reserves free ports for the in-process programs of a pod.
    pub(super) fn new(config: NetworkConfig<'_>) -> io::Result<Self> {
        let mut network = Self {
            reserved: BTreeMap::new(),
            env: BTreeMap::new(),
            host_ports: BTreeMap::new(),
            assigned: BTreeMap::new(),
        };
        let keeps_ports = keeps_ports(config.pod);
        config.program_ports.into_iter().try_for_each(|port| network.reserve(port))?;
        for (_, container) in containers(config.pod) {
            for port in container.ports.iter().flatten() {
                let number = |port: i32| u16::try_from(port).ok();
                let (inside, outside) =
                    (number(port.container_port), port.host_port.and_then(number));
                network.host_ports.extend(inside.zip(outside));
                if let (Some(inside), None, false) = (inside, outside, keeps_ports) {
                    network.assigned.insert(inside, free_port()?);
                }
            }
        }
        Ok(network)
    }

    fn reserve(&mut self, port: ProgramPort) -> io::Result<()> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        if !port.env.is_empty() {
            self.env.insert(port.env, listener.local_addr()?.port().to_string());
        }
        self.reserved.insert(port.port, listener);
        Ok(())
    }

    pub(super) fn env(&self, container: &Container) -> BTreeMap<String, String> {
        let mut env = self.env.clone();
        // The usual port of a program may be taken by another pod, so this variable names the one to listen on.
        let port = container.ports.iter().flatten().find_map(|port| port.host_port);
        let port = port.and_then(|port| u16::try_from(port).ok());
        let assigned = || {
            let mut ports = container.ports.iter().flatten();
            let inside = ports.find_map(|port| u16::try_from(port.container_port).ok())?;
            self.assigned.get(&inside).copied()
        };
        let port = port.or_else(assigned);
        env.extend(port.map(|port| ("PORT".to_owned(), port.to_string())));
        env
    }

    pub(super) fn listen_tcp(&self, port: u16) -> io::Result<TcpListener> {
        let listener = match self.reserved.get(&port) {
            Some(reserved) => reserved.try_clone()?,
            None => std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))?,
        };
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    }

    /// Returns the port of the host on which a port of the pod is served. A program may not read the port that it was assigned.
    pub(super) fn host_port(&self, port: u16) -> u16 {
        let known = self.host_ports.get(&port).or_else(|| self.assigned.get(&port));
        known.copied().unwrap_or(port)
    }

    pub(super) async fn connect_tcp(&self, port: u16) -> io::Result<TcpStream> {
        let reserved = self.reserved.get(&port).and_then(|listener| listener.local_addr().ok());
        let host_port = reserved.map_or_else(|| self.host_port(port), |address| address.port());
        let connected = TcpStream::connect((Ipv4Addr::LOCALHOST, host_port)).await;
        if connected.is_err() && self.assigned.get(&port) == Some(&host_port) {
            // The program does not read PORT, and listens on its usual port.
            return TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
        }
        connected
    }
}

/// Whether the programs of a pod listen on the ports of their containers: it asks for the host's network, or its game server
/// tells players the port.
fn keeps_ports(pod: &Pod) -> bool {
    let label = |labels: &BTreeMap<String, String>| labels.contains_key("agones.dev/gameserver");
    pod.metadata.labels.as_ref().is_some_and(label)
        || pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true))
}

/// Finds a port that no program listens on.
fn free_port() -> io::Result<u16> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}
