//! A network namespace for one pod: it has its own `localhost`, and every port is free.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use nix::sched::{CloneFlags, unshare};
use rtnetlink::LinkUnspec;
use rustix::process::{getegid, geteuid};
use tokio::net::TcpListener;

use super::NetworkConfig;
use super::forward::{self, Forwards};
use crate::spawner::Spawner;

/// The number that the loopback interface has in every network.
const LOOPBACK: u32 = 1;

/// A network namespace, which exists as long as its thread and the processes in it.
pub(crate) struct OwnNetwork {
    spawner: Spawner,
    env: BTreeMap<String, String>,
    /// Host ports, forwarded until this is dropped.
    _forwards: Forwards,
}

impl OwnNetwork {
    /// Creates a network with nothing but `localhost`.
    pub(super) async fn empty() -> io::Result<Self> {
        let spawner = Spawner::in_new_network().await?;
        let (connection, netlink, _) = spawner.run(rtnetlink::new_connection).await?;
        let connection = tokio::spawn(connection);
        let up = LinkUnspec::new_with_index(LOOPBACK).up().build();
        let done = netlink.link().set(up).execute().await;
        connection.abort();
        done.map_err(|err| io::Error::other(format!("could not start localhost: {err}")))?;
        Ok(Self { spawner, env: BTreeMap::new(), _forwards: Forwards::default() })
    }

    /// Creates the network of a pod, with its host ports.
    pub(super) async fn new(config: NetworkConfig<'_>) -> io::Result<Self> {
        let mut network = Self::empty().await?;
        network._forwards = forward::start(&network.spawner, &config).await?;
        let named = config.program_ports.into_iter().filter(|port| !port.env.is_empty());
        network.env.extend(named.map(|port| (port.env, port.port.to_string())));
        Ok(network)
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

/// Allows a process of an ordinary user to create networks: it becomes the first in a user namespace, with the same user.
/// Call it before any thread is started. If it fails, nothing has changed, and pods use the host's network.
pub fn allow_for_ordinary_users() -> io::Result<()> {
    let (user, group) = (geteuid(), getegid());
    if user.is_root() {
        return Ok(());
    }
    unshare(CloneFlags::CLONE_NEWUSER)?;
    let (user, group) = (user.as_raw(), group.as_raw());
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}
