//! Forwards host ports into the network of a pod.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use cluster::Key;
use k8s_openapi::api::core::v1::ContainerPort;
use process::Supervised;
use tokio::net::{TcpListener, UdpSocket};

use super::{NetworkConfig, tcp, udp};
use crate::spawner::Spawner;
use crate::status::containers;

/// How long to wait after the first failure of a socket; each further one in a row doubles it, up to the second.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The host ports of a pod, forwarded until this is dropped.
pub(super) type Forwards = Vec<Supervised>;

/// Starts to forward every host port of a pod.
pub(super) async fn start(inside: &Spawner, config: &NetworkConfig<'_>) -> io::Result<Forwards> {
    let mut forwards = Vec::new();
    for (_, container) in containers(config.pod) {
        for port in container.ports.iter().flatten() {
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            let forward = forward_port(inside, config, port, protocol).await;
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

/// Binds a host port, and starts the task that forwards it. The socket outlives a panic of the task.
async fn forward_port(
    inside: &Spawner,
    config: &NetworkConfig<'_>,
    port: &ContainerPort,
    protocol: &str,
) -> io::Result<Option<Supervised>> {
    let number = |port: i32| u16::try_from(port).ok().filter(|port| *port > 0);
    let Some(outside) = port.host_port.and_then(number) else { return Ok(None) };
    let Some(to) = number(port.container_port) else { return Ok(None) };
    let ip = port.host_ip.as_deref().and_then(|ip| ip.parse::<IpAddr>().ok());
    let from = SocketAddr::new(ip.unwrap_or(config.address), outside);
    let inside = inside.clone();
    let pod = Key::from_meta(&config.pod.metadata);
    let name = format!("host port {outside}/{protocol} of pod {pod}");
    let task = match protocol {
        "TCP" => {
            let listener = Arc::new(TcpListener::bind(from).await?);
            let work = move || tcp::forward(Arc::clone(&listener), inside.clone(), to);
            config.supervisor.spawn(name, work)
        }
        "UDP" => {
            let socket = Arc::new(UdpSocket::bind(from).await?);
            let work = move || udp::forward_inside(Arc::clone(&socket), inside.clone(), to);
            config.supervisor.spawn(name, work)
        }
        _ => {
            let message = "only TCP and UDP are forwarded";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
    };
    Ok(Some(task))
}

/// Logs the failures of a socket, and waits after each of them.
#[derive(Default)]
pub(super) struct SocketBackoff {
    failures: u32,
}

impl SocketBackoff {
    /// Forgets earlier failures.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Waits before the next attempt. Of a series of failures the first is logged as a warning.
    pub(super) async fn wait(&mut self, what: &str, port: u16, error: &io::Error) {
        let (first, longest) = RETRY_AFTER;
        let retry_after = first.saturating_mul(1 << self.failures.min(16)).min(longest);
        if self.failures == 0 {
            tracing::warn!(port, %error, ?retry_after, "could not {what}; retrying");
        } else {
            tracing::debug!(port, %error, ?retry_after, "could not {what}; retrying");
        }
        self.failures = self.failures.saturating_add(1);
        tokio::time::sleep(retry_after).await;
    }
}
