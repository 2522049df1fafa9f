//! The host's network, shared by pods: each needs ports of its own instead of the usual ones.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::Container;
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
}

impl SharedNetwork {
    /// Reserves free ports for the in-process programs of a pod.
    pub(super) fn new(config: NetworkConfig<'_>) -> io::Result<Self> {
        let mut network =
            Self { reserved: BTreeMap::new(), env: BTreeMap::new(), host_ports: BTreeMap::new() };
        config.program_ports.into_iter().try_for_each(|port| network.reserve(port))?;
        for (_, container) in containers(config.pod) {
            for port in container.ports.iter().flatten() {
                let number = |port: i32| u16::try_from(port).ok();
                let (inside, outside) =
                    (number(port.container_port), port.host_port.and_then(number));
                network.host_ports.extend(inside.zip(outside));
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

    pub(super) async fn connect_tcp(&self, port: u16) -> io::Result<TcpStream> {
        let reserved = self.reserved.get(&port).and_then(|listener| listener.local_addr().ok());
        let reserved = reserved.map(|address| address.port());
        let port = reserved.or_else(|| self.host_ports.get(&port).copied()).unwrap_or(port);
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await
    }
}
