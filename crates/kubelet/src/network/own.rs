//! A network namespace for one pod: it has its own `localhost`, and every port is free.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use nix::sched::{CloneFlags, unshare};
use rtnetlink::{Handle, LinkUnspec};
use rustix::process::{getegid, geteuid};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use super::NetworkConfig;
use super::forward::{self, Forwards};
use super::services::{Link, ServiceNetwork};
use crate::spawner::Spawner;

/// The number that the loopback interface has in every network.
pub(super) const LOOPBACK: u32 = 1;

/// A network namespace, which exists as long as its thread and the processes in it.
pub(crate) struct OwnNetwork {
    spawner: Spawner,
    env: BTreeMap<String, String>,
    /// The link to Services.
    link: Option<Link>,
    /// Host ports, forwarded until this is dropped.
    _forwards: Forwards,
}

impl OwnNetwork {
    /// Creates a network with nothing but `localhost`.
    pub(super) async fn empty() -> io::Result<Self> {
        let spawner = Spawner::in_new_network().await?;
        Netlink::in_network_of(&spawner).await?.start_loopback().await?;
        let (env, link) = (BTreeMap::new(), None);
        Ok(Self { spawner, env, link, _forwards: Forwards::default() })
    }

    /// Adds a link to Services.
    pub(super) async fn connect(&mut self, services: &ServiceNetwork) -> io::Result<()> {
        let netlink = Netlink::in_network_of(&self.spawner).await?;
        self.link = Some(services.connect(&netlink.handle).await?);
        Ok(())
    }

    /// Creates the network of a pod, with its host ports.
    pub(super) async fn new(config: NetworkConfig<'_>) -> io::Result<Self> {
        let mut network = Self::empty().await?;
        network._forwards = forward::start(&network.spawner, &config).await?;
        if let Some(services) = config.services
            && let Err(error) = network.connect(services).await
        {
            tracing::warn!(%error, "a pod is not connected to Services");
        }
        let named = config.program_ports.into_iter().filter(|port| !port.env.is_empty());
        network.env.extend(named.map(|port| (port.env, port.port.to_string())));
        Ok(network)
    }

    /// Whether the pod can reach Services.
    pub(super) fn reaches_services(&self) -> bool {
        self.link.is_some()
    }

    pub(super) fn env(&self) -> BTreeMap<String, String> {
        self.env.clone()
    }

    pub(super) fn spawner(&self) -> &Spawner {
        &self.spawner
    }

    pub(super) async fn listen_tcp(&self, port: u16) -> io::Result<TcpListener> {
        let listening = self.spawner.run(move || {
            let any = std::net::TcpListener::bind((Ipv6Addr::UNSPECIFIED, port));
            let any = any.or_else(|_| std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)));
            any.and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        });
        TcpListener::from_std(listening.await?)
    }
}

/// Configures the network of a thread.
pub(super) struct Netlink {
    pub(super) handle: Handle,
    _connection: AbortOnDropHandle<()>,
}

impl Netlink {
    pub(super) async fn in_network_of(thread: &Spawner) -> io::Result<Self> {
        let (connection, handle, _) = thread.run(rtnetlink::new_connection).await?;
        Ok(Self { handle, _connection: AbortOnDropHandle::new(tokio::spawn(connection)) })
    }

    pub(super) async fn start_loopback(&self) -> io::Result<()> {
        let up = LinkUnspec::new_with_index(LOOPBACK).up().build();
        let done = self.handle.link().set(up).execute().await;
        done.map_err(|err| io::Error::other(format!("could not start localhost: {err}")))
    }
}

/// Allows a process of an ordinary user to create networks: it becomes the first in a user namespace, with the same user.
/// Call it before any thread is started. If it fails, nothing has changed, and pods use the host's network.
pub fn allow_for_ordinary_users() -> io::Result<()> {
    if geteuid().is_root() {
        return Ok(());
    }
    enter_user_namespace(CloneFlags::empty())
}

/// Enters a new user namespace with the same user, and further new namespaces, in a process with one thread.
pub(crate) fn enter_user_namespace(others: CloneFlags) -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | others)?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}
