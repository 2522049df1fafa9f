//! Writes allocated host ports into a server's list of ports.

use std::sync::Arc;

/// One of a server's `spec.ports`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// `name`.
    pub name: Arc<str>,
    /// `range`.
    pub range: Arc<str>,
    /// `portPolicy`.
    pub policy: PortPolicy,
    /// `container`.
    pub container: Option<Arc<str>>,
    /// `protocol`.
    pub protocol: Protocol,
    /// `containerPort`.
    pub container_port: Option<u16>,
    /// `hostPort`.
    pub host_port: Option<u16>,
}

/// How the host port is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortPolicy {
    /// By us.
    Dynamic,
    /// By the user.
    Static,
    /// By us, and the container listens on the same one.
    Passthrough,
    /// There is none.
    None,
}

impl PortPolicy {
    /// Returns whether a host port has to be allocated.
    pub fn needs_port(self) -> bool {
        matches!(self, Self::Dynamic | Self::Passthrough)
    }
}

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// Both, on one port number.
    TcpUdp,
}

/// Returns how many host ports of `range` have to be allocated for a server.
pub fn needed(ports: &[Port], range: &str) -> usize {
    ports.iter().filter(|port| port.policy.needs_port() && *port.range == *range).count()
}

/// Writes allocated host ports into the list, in order. A port for both protocols becomes two: the one for TCP in its position and
/// the one for UDP at the end.
pub fn assign(ports: &mut Vec<Port>, range: &str, found: &[u16]) {
    let mut found = found.iter().copied();
    for port in ports.iter_mut().filter(|p| p.policy.needs_port() && *p.range == *range) {
        port.host_port = found.next();
        if port.policy == PortPolicy::Passthrough {
            port.container_port = port.host_port;
        }
    }
    let mut udp = Vec::new();
    for port in ports.iter_mut().filter(|p| p.protocol == Protocol::TcpUdp && *p.range == *range) {
        let name = Arc::clone(&port.name);
        udp.push(Port {
            name: format!("{name}-udp").into(),
            protocol: Protocol::Udp,
            ..port.clone()
        });
        (port.name, port.protocol) = (format!("{name}-tcp").into(), Protocol::Tcp);
    }
    ports.extend(udp);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str, policy: PortPolicy, protocol: Protocol) -> Port {
        Port {
            name: name.into(),
            range: "default".into(),
            policy,
            container: None,
            protocol,
            container_port: (policy != PortPolicy::Passthrough).then_some(80),
            host_port: (policy == PortPolicy::Static).then_some(9000),
        }
    }

    #[test]
    fn allocated_ports_are_written_where_they_are_needed() {
        let mut ports = vec![
            port("a", PortPolicy::Dynamic, Protocol::Udp),
            port("b", PortPolicy::Static, Protocol::Udp),
            port("c", PortPolicy::Passthrough, Protocol::Tcp),
            port("d", PortPolicy::None, Protocol::Udp),
        ];
        ports[1].host_port = Some(9000);
        assert_eq!(needed(&ports, "default"), 2);
        assert_eq!(needed(&ports, "game"), 0);
        assign(&mut ports, "default", &[7001, 7002]);
        let of = |p: &Port| (p.host_port, p.container_port);
        let both: Vec<_> = ports.iter().map(of).collect();
        let all = [
            (Some(7001), Some(80)),
            (Some(9000), Some(80)),
            (Some(7002), Some(7002)),
            (None, Some(80)),
        ];
        assert_eq!(both, all);
    }

    #[test]
    fn a_port_for_both_protocols_becomes_two() {
        let mut ports = vec![
            port("a", PortPolicy::Dynamic, Protocol::TcpUdp),
            port("b", PortPolicy::Dynamic, Protocol::Udp),
        ];
        assign(&mut ports, "default", &[7001, 7002]);
        let all: Vec<_> =
            ports.iter().map(|p| (&*p.name, p.protocol, p.host_port.unwrap())).collect();
        let expected = [
            ("a-tcp", Protocol::Tcp, 7001),
            ("b", Protocol::Udp, 7002),
            ("a-udp", Protocol::Udp, 7001),
        ];
        assert_eq!(all, expected);
    }
}
