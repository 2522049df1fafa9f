//! The network through which pods with a network of their own reach Services: one namespace for all of them.
//!
//! All of 10.0.0.0/8 is local in it, so that the service proxy can listen there on the cluster IPs themselves. Each pod has a virtual
//! Ethernet link into it, and a route for the same addresses. A pod could not listen on its own ports if the proxy listened inside
//! its network.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rtnetlink::packet_route::link::{InfoData, InfoKind, InfoVeth};
use rtnetlink::packet_route::route::{RouteScope, RouteType};
use rtnetlink::{Handle, LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder};
use tokio::net::{TcpListener, UdpSocket};

use super::own::{LOOPBACK, Netlink, OwnNetwork};
use crate::spawner::Spawner;

/// The addresses that pods reach through this network: cluster IPs.
const CLUSTER_IPS: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 0, 0, 0), 8);
/// The address of the name server. The API server assigns no such cluster IP.
pub(crate) const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 10);
/// The name of the link inside a pod.
const LINK: &str = "eth0";
/// Its number there.
const LINK_INDEX: u32 = 100;
/// The numbers of links in this network start after it.
const FIRST_INDEX: u32 = 100;
/// How many pods can be connected: each has an address of its own in 169.254.0.0/16.
const MOST_LINKS: u32 = 254 * 254;
/// The local routing table.
const LOCAL_TABLE: u32 = 255;

/// A network in which every cluster IP is local.
pub(crate) struct ServiceNetwork {
    spawner: Spawner,
    netlink: Netlink,
    namespace: File,
    links: Arc<Mutex<PodLinks>>,
}

/// The numbers of the connected pods.
#[derive(Default)]
struct PodLinks {
    /// How many there have been: a link disappears only a while after its pod, so that names are not used again.
    count: u32,
    used: BTreeSet<u32>,
}

/// The link of a pod. Its address is free once this is dropped.
pub(super) struct Link {
    number: u32,
    links: Arc<Mutex<PodLinks>>,
}

impl Drop for Link {
    fn drop(&mut self) {
        lock(&self.links).used.remove(&self.number);
    }
}

fn lock(links: &Mutex<PodLinks>) -> MutexGuard<'_, PodLinks> {
    links.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ServiceNetwork {
    /// Creates the network, and makes sure that a pod can be connected to it.
    pub(crate) async fn new() -> io::Result<Self> {
        let spawner = Spawner::in_new_network().await?;
        let netlink = Netlink::in_network_of(&spawner).await?;
        netlink.start_loopback().await?;
        let namespace = spawner.run(|| File::open("/proc/thread-self/ns/net")).await?;
        let (range, length) = CLUSTER_IPS;
        let local = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(range, length)
            .output_interface(LOOPBACK)
            .kind(RouteType::Local)
            .scope(RouteScope::Host)
            .table_id(LOCAL_TABLE)
            .build();
        netlink.handle.route().add(local).execute().await.map_err(failed("add a route"))?;
        let network = Self { spawner, netlink, namespace, links: Arc::default() };
        let mut pod = OwnNetwork::empty().await?;
        pod.connect(&network).await?;
        Ok(network)
    }

    /// Connects the network that `inside` configures.
    pub(super) async fn connect(&self, inside: &Handle) -> io::Result<Link> {
        let (index, link) = self.reserve()?;
        let address = address(link.number);
        let peer = LinkUnspec::new_with_name(&format!("pod{index}"))
            .index(index)
            .setns_by_fd(self.namespace.as_raw_fd())
            .build();
        let veth = LinkMessageBuilder::<LinkVeth>::new_with_info_kind(InfoKind::Veth)
            .name(LINK)
            .index(LINK_INDEX)
            .set_info_data(InfoData::Veth(InfoVeth::Peer(peer)))
            .up()
            .build();
        inside.link().add(veth).execute().await.map_err(failed("create a link"))?;
        // Linux creates a peer only while it is down.
        let up = LinkUnspec::new_with_index(index).up().build();
        let done = self.netlink.handle.link().set(up).execute().await;
        done.map_err(failed("start a link"))?;
        let added = inside.address().add(LINK_INDEX, address.into(), 32).execute().await;
        added.map_err(failed("add an address"))?;
        let (range, length) = CLUSTER_IPS;
        let there = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(range, length)
            .output_interface(LINK_INDEX)
            .scope(RouteScope::Link)
            .pref_source(address)
            .build();
        inside.route().add(there).execute().await.map_err(failed("add a route"))?;
        let back = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(address, 32)
            .output_interface(index)
            .scope(RouteScope::Link)
            .build();
        let back = self.netlink.handle.route().add(back).replace().execute().await;
        back.map_err(failed("add a route"))?;
        Ok(link)
    }

    /// Reserves the index and the address of a link.
    fn reserve(&self) -> io::Result<(u32, Link)> {
        let mut links = lock(&self.links);
        let count = links.count;
        let mut free = (0..MOST_LINKS).map(|offset| count.wrapping_add(offset) % MOST_LINKS);
        let number = free.find(|number| !links.used.contains(number));
        let full = || io::Error::other(format!("{MOST_LINKS} pods are connected to Services"));
        let number = number.ok_or_else(full)?;
        links.used.insert(number);
        links.count = count.wrapping_add(1);
        // An index is positive as a signed number.
        let index = FIRST_INDEX + (links.count % (1 << 30));
        Ok((index, Link { number, links: Arc::clone(&self.links) }))
    }

    /// Listens on a cluster IP.
    pub(crate) async fn listen_tcp(&self, address: SocketAddr) -> io::Result<TcpListener> {
        let listener = self.spawner.run(move || {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true).map(|()| listener)
        });
        TcpListener::from_std(listener.await?)
    }

    /// Binds a socket to a cluster IP.
    pub(crate) async fn bind_udp(&self, address: SocketAddr) -> io::Result<UdpSocket> {
        let socket = self.spawner.run(move || {
            let socket = std::net::UdpSocket::bind(address)?;
            socket.set_nonblocking(true).map(|()| socket)
        });
        UdpSocket::from_std(socket.await?)
    }
}

/// Returns the address of the link with a number.
fn address(number: u32) -> Ipv4Addr {
    let octet = |number: u32| u8::try_from(1 + number % 254).unwrap_or(1);
    Ipv4Addr::new(169, 254, octet(number / 254), octet(number))
}

fn failed(what: &str) -> impl FnOnce(rtnetlink::Error) -> io::Error {
    move |err| io::Error::other(format!("could not {what}: {err}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_has_an_address_of_its_own() {
        let all: BTreeSet<Ipv4Addr> = (0..MOST_LINKS).map(address).collect();
        assert_eq!(all.len(), usize::try_from(MOST_LINKS).unwrap());
        assert_eq!(all.first().unwrap().to_string(), "169.254.1.1");
        assert_eq!(all.last().unwrap().to_string(), "169.254.254.254");
    }
}
