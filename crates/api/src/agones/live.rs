//! Conversion of the ports and sums of live objects to and from the types of decisions.

use std::collections::BTreeMap;

use decide::fleet::{Aggregate, FleetStatus as FleetSums, SetStatus as SetSums};
use decide::gameserver::ports::{self, Port, Protocol};

use super::view::named;
use super::{
    AggregateCount, FleetStatus, GameServerPort, GameServerSetStatus, GameServerSpec, PortPolicy,
    PortProtocol,
};

impl GameServerSpec {
    /// Returns the ports as those who hand out host ports see them.
    pub fn ports_view(&self) -> Vec<Port> {
        self.ports.iter().map(GameServerPort::view).collect()
    }

    /// Writes ports back.
    pub fn set_ports(&mut self, ports: &[Port]) {
        self.ports = ports.iter().map(GameServerPort::from_view).collect();
    }
}

impl GameServerPort {
    fn view(&self) -> Port {
        let number = |n: i32| u16::try_from(n).ok().filter(|n| *n > 0);
        Port {
            name: self.name.as_str().into(),
            range: if self.range.is_empty() { "default" } else { &self.range }.into(),
            policy: match self.policy() {
                PortPolicy::Dynamic => ports::PortPolicy::Dynamic,
                PortPolicy::Static => ports::PortPolicy::Static,
                PortPolicy::Passthrough => ports::PortPolicy::Passthrough,
                PortPolicy::None => ports::PortPolicy::None,
            },
            container: self.container.as_deref().map(Into::into),
            protocol: match self.protocol.unwrap_or_default() {
                PortProtocol::Udp => Protocol::Udp,
                PortProtocol::Tcp => Protocol::Tcp,
                PortProtocol::TcpUdp => Protocol::TcpUdp,
            },
            container_port: number(self.container_port),
            host_port: number(self.host_port),
        }
    }

    fn from_view(port: &Port) -> Self {
        Self {
            name: port.name.to_string(),
            range: port.range.to_string(),
            port_policy: Some(match port.policy {
                ports::PortPolicy::Dynamic => PortPolicy::Dynamic,
                ports::PortPolicy::Static => PortPolicy::Static,
                ports::PortPolicy::Passthrough => PortPolicy::Passthrough,
                ports::PortPolicy::None => PortPolicy::None,
            }),
            container: port.container.as_deref().map(str::to_owned),
            container_port: port.container_port.map_or(0, i32::from),
            host_port: port.host_port.map_or(0, i32::from),
            protocol: Some(match port.protocol {
                Protocol::Udp => PortProtocol::Udp,
                Protocol::Tcp => PortProtocol::Tcp,
                Protocol::TcpUdp => PortProtocol::TcpUdp,
            }),
        }
    }
}

impl GameServerSetStatus {
    /// Writes down what was counted.
    pub fn from_sums(sums: &SetSums) -> Self {
        Self {
            replicas: sums.counts.replicas,
            ready_replicas: sums.counts.ready,
            reserved_replicas: sums.counts.reserved,
            allocated_replicas: sums.counts.allocated,
            shutdown_replicas: sums.counts.shutdown,
            players: None,
            counters: some(unsummed(&sums.counters)),
            lists: some(unsummed(&sums.lists)),
        }
    }

    /// Returns what a fleet adds up.
    pub fn sums(&self) -> SetSums {
        SetSums {
            counts: decide::fleet::SetCounts {
                replicas: self.replicas,
                ready: self.ready_replicas,
                reserved: self.reserved_replicas,
                allocated: self.allocated_replicas,
                shutdown: self.shutdown_replicas,
            },
            counters: named(self.counters.as_ref(), AggregateCount::view),
            lists: named(self.lists.as_ref(), AggregateCount::view),
        }
    }
}

impl FleetStatus {
    /// Writes down what was added up; how many allocations there were is not known from sets, and is kept.
    pub fn from_sums(sums: &FleetSums, allocations: i64) -> Self {
        Self {
            replicas: sums.replicas,
            ready_replicas: sums.ready,
            reserved_replicas: sums.reserved,
            allocated_replicas: sums.allocated,
            allocations,
            players: None,
            counters: Some(unsummed(&sums.counters)),
            lists: Some(unsummed(&sums.lists)),
        }
    }
}

impl AggregateCount {
    pub(crate) fn view(&self) -> Aggregate {
        Aggregate {
            allocated_count: self.allocated_count,
            allocated_capacity: self.allocated_capacity,
            count: self.count,
            capacity: self.capacity,
        }
    }
}

fn unsummed(sums: &BTreeMap<std::sync::Arc<str>, Aggregate>) -> BTreeMap<String, AggregateCount> {
    let of = |sum: &Aggregate| AggregateCount {
        allocated_count: sum.allocated_count,
        allocated_capacity: sum.allocated_capacity,
        count: sum.count,
        capacity: sum.capacity,
    };
    sums.iter().map(|(name, sum)| (name.to_string(), of(sum))).collect()
}

fn some<K, V>(map: BTreeMap<K, V>) -> Option<BTreeMap<K, V>> {
    (!map.is_empty()).then_some(map)
}
