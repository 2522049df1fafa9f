//! The address and the ports by which players reach a game server.

use std::net::IpAddr;

use api::agones::{GameServerStatus, NodeAddress, StatusPort};
use cluster::{CachedNode, CachedPod};
use decide::gameserver::ports::{Port, PortPolicy};

/// Returns the address of a node for players: the most public one it has.
pub(super) fn public(node: &CachedNode) -> Option<&str> {
    let first = |type_: &str, is_ip: bool| {
        let mut all = node.status.addresses.iter().filter(|a| a.type_ == type_);
        let found = all.find(|a| !is_ip || a.address.parse::<IpAddr>().is_ok());
        found.map(|a| a.address.as_str())
    };
    first("ExternalDNS", false)
        .or_else(|| first("ExternalIP", true))
        .or_else(|| first("InternalDNS", false))
        .or_else(|| first("InternalIP", true))
}

/// Sets the addresses of a server on `node`.
pub(super) fn on_node(status: &mut GameServerStatus, node: &CachedNode, pod: &CachedPod) {
    status.node_name = node.metadata.name.clone().unwrap_or_default();
    status.address = public(node).unwrap_or_default().to_owned();
    let of_node = node.status.addresses.iter();
    let of_node =
        of_node.map(|a| NodeAddress { type_: a.type_.clone(), address: a.address.clone() });
    let of_pod = pod.status.pod_ips.iter();
    let of_pod = of_pod.map(|p| NodeAddress { type_: "PodIP".to_owned(), address: p.ip.clone() });
    status.addresses = Some(of_node.chain(of_pod).collect());
}

/// Sets the addresses of a server on a developer's machine.
pub(super) fn in_development(status: &mut GameServerStatus, address: &str) {
    let internal = NodeAddress { type_: "InternalIP".to_owned(), address: address.to_owned() };
    status.node_name = address.to_owned();
    status.address = address.to_owned();
    status.addresses = Some(vec![internal]);
}

/// Returns the ports that players connect to.
pub(super) fn ports(ports: &[Port]) -> Vec<StatusPort> {
    let number = |port: &Port| match port.policy {
        PortPolicy::None => port.container_port,
        PortPolicy::Dynamic | PortPolicy::Static | PortPolicy::Passthrough => port.host_port,
    };
    let one = |port: &Port| StatusPort {
        name: port.name.to_string(),
        port: number(port).map_or(0, i32::from),
    };
    ports.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(addresses: &[(&str, &str)]) -> CachedNode {
        let of = |(type_, address): &(&str, &str)| k8s_openapi::api::core::v1::NodeAddress {
            type_: (*type_).to_owned(),
            address: (*address).to_owned(),
        };
        let mut host = CachedNode::default();
        host.status.addresses = addresses.iter().map(of).collect();
        host
    }

    #[test]
    fn the_most_public_address_is_used() {
        let all =
            [("InternalIP", "10.0.0.1"), ("ExternalIP", "1.2.3.4"), ("ExternalDNS", "a.example")];
        assert_eq!(public(&node(&all)), Some("a.example"));
        assert_eq!(public(&node(&all[..2])), Some("1.2.3.4"));
        assert_eq!(public(&node(&all[..1])), Some("10.0.0.1"));
        let odd = [("ExternalIP", "not an address"), ("InternalIP", "10.0.0.1")];
        assert_eq!(public(&node(&odd)), Some("10.0.0.1"));
        assert_eq!(public(&node(&[("Hostname", "n")])), None);
    }
}
