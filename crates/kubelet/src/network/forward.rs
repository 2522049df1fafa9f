//! How do host ports lead into the network of a pod?

use std::io;
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{ContainerPort, Pod};
use tokio_util::task::AbortOnDropHandle;

use super::{tcp, udp};
use crate::Local;
use crate::spawner::Spawner;
use crate::status::containers;

/// The host ports of a pod, forwarded until this is dropped.
pub(super) type Forwards = Vec<AbortOnDropHandle<()>>;

/// Starts to forward every host port of a pod.
pub(super) async fn start(inside: &Spawner, local: &Local, pod: &Pod) -> io::Result<Forwards> {
    let mut forwards = Vec::new();
    for (_, container) in containers(pod) {
        for port in container.ports.iter().flatten() {
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            let forward = one(inside, local, port, protocol).await;
            let forward = forward.map_err(|err| explain(&err, port, protocol));
            forwards.extend(forward?);
        }
    }
    Ok(forwards)
}

fn explain(err: &io::Error, port: &ContainerPort, protocol: &str) -> io::Error {
    let number = port.host_port.unwrap_or_default();
    let what = if err.kind() == io::ErrorKind::AddrInUse {
        "another program listens on it; stop that one, or use other ports".to_owned()
    } else {
        err.to_string()
    };
    io::Error::new(err.kind(), format!("host port {number}/{protocol}: {what}"))
}

async fn one(
    inside: &Spawner,
    local: &Local,
    port: &ContainerPort,
    protocol: &str,
) -> io::Result<Option<AbortOnDropHandle<()>>> {
    let number = |port: i32| u16::try_from(port).ok().filter(|port| *port > 0);
    let Some(outside) = port.host_port.and_then(number) else { return Ok(None) };
    let Some(to) = number(port.container_port) else { return Ok(None) };
    let ip = port.host_ip.as_deref().and_then(|ip| ip.parse::<IpAddr>().ok());
    let from = SocketAddr::new(ip.unwrap_or(local.address), outside);
    let inside = inside.clone();
    let task = match protocol {
        "TCP" => tokio::spawn(tcp::forward(tokio::net::TcpListener::bind(from).await?, inside, to)),
        "UDP" => tokio::spawn(udp::forward(tokio::net::UdpSocket::bind(from).await?, inside, to)),
        _ => {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "only TCP and UDP are forwarded",
            ));
        }
    };
    Ok(Some(AbortOnDropHandle::new(task)))
}
