//! Which host ports each game server has, read from its object and its pod. What to assign is decided in `decide`.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use api::agones::GameServer;
use cluster::{CachedGameServer, CachedPod, Caches, Key};
use decide::gameserver::ports::{self, Port, PortOwner, PortsError};
use jiff::Timestamp;

/// The host ports of every range.
pub(crate) struct HostPorts(ports::HostPorts);

impl HostPorts {
    /// Begins with the nodes, servers and pods that are there.
    pub(crate) fn seeded(
        ranges: &BTreeMap<String, RangeInclusive<u16>>,
        caches: &Caches,
        servers: &[Arc<CachedGameServer>],
    ) -> Self {
        let nodes: Vec<Arc<str>> = caches
            .nodes
            .all()
            .iter()
            .filter(|node| !node.spec.unschedulable)
            .map(|node| Key::from_meta(&node.metadata).name)
            .collect();
        let owner = |server: &Arc<CachedGameServer>| {
            let pod = caches.pods.get(&Key::from_meta(&server.object.metadata));
            let pod =
                pod.filter(|pod| cluster::owner(&**pod) == server.object.metadata.uid.as_deref());
            port_owner(&server.object, pod.as_deref())
        };
        let owners: Vec<PortOwner> = servers.iter().map(owner).collect();
        Self(ports::HostPorts::new(ranges, &nodes, &owners))
    }

    /// Releases the ports of a server that are taken wherever it could run, so that it gets others next. `Err` is the moment
    /// from which that may be done again.
    pub(crate) fn reassign(
        &mut self,
        server: &GameServer,
        pod: &CachedPod,
        now: Timestamp,
    ) -> Result<(), Timestamp> {
        self.0.reassign(&port_owner(server, Some(pod)), now)
    }

    /// Avoids the ports of a server for a while: something else has them.
    pub(crate) fn avoid(&mut self, server: &GameServer, pod: Option<&CachedPod>, now: Timestamp) {
        self.0.avoid(&port_owner(server, pod), now);
    }

    /// Returns a server's ports with their host ports: those it has, those its pod has, or new ones.
    pub(crate) fn assign(
        &mut self,
        server: &GameServer,
        pod: Option<&CachedPod>,
        now: Timestamp,
    ) -> Result<Vec<Port>, PortsError> {
        self.0.expire(now);
        self.0.assign(&port_owner(server, pod))
    }

    /// Records the ports that a server turned out to have.
    pub(crate) fn take_over(&mut self, server: &GameServer, pod: &CachedPod) {
        self.0.record(&port_owner(server, Some(pod)));
    }

    /// Releases the ports of a server.
    pub(crate) fn release(&mut self, uid: &str) {
        self.0.release(uid);
    }
}

/// Returns what the choice of host ports depends on.
pub(crate) fn port_owner(server: &GameServer, pod: Option<&CachedPod>) -> PortOwner {
    let node = server.status.as_ref().map(|status| status.node_name.as_str());
    let node = node.filter(|node| !node.is_empty());
    let node = node.or_else(|| pod.and_then(|pod| pod.spec.node_name.as_deref()));
    PortOwner {
        uid: server.metadata.uid.as_deref().unwrap_or_default().into(),
        ports: server.spec.ports_view(),
        pod_ports: pod.and_then(CachedPod::host_ports),
        node: node.map(Into::into),
    }
}
