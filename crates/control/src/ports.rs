//! Which host ports does each game server have?

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

use api::agones::GameServer;
use cluster::{CachedGameServer, CachedPod, Caches, Key};
use decide::gameserver::ports::{self, Holder, Port, Ports};
use jiff::{SignedDuration, Timestamp};

/// How long a port is passed over that a stranger was found to have.
const PASSED_OVER_FOR: SignedDuration = SignedDuration::from_mins(5);
/// How long the second search for other ports waits; each further one waits twice as long.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(5);
/// The longest such wait.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(60);

/// The host ports of every range.
pub(crate) struct HostPorts {
    ranges: BTreeMap<String, Ports>,
    /// The ports that strangers have, until when they are passed over.
    passed_over: VecDeque<(Timestamp, Arc<str>, Vec<u16>)>,
    /// How often other ports were picked for a server, by its uid, and when they may be again.
    picked: BTreeMap<String, (u32, Timestamp)>,
}

/// Why a game server gets no ports. It never will.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PortsError {
    /// There is no such range.
    #[error("spec.ports: there is no range `{name}`; expected one of {known}")]
    NoRange {
        /// The range that a port names.
        name: String,
        /// The ranges that there are.
        known: String,
    },
    /// The range is too small for one server.
    #[error("spec.ports: range `{name}` has fewer ports than this game server needs")]
    TooSmall {
        /// The range.
        name: String,
    },
}

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
        let mut holders: BTreeMap<&str, Vec<Holder>> = BTreeMap::new();
        for server in servers {
            let pod = caches.pods.get(&Key::from_meta(&server.object.metadata));
            let pod =
                pod.filter(|pod| cluster::owner(&**pod) == server.object.metadata.uid.as_deref());
            for (range, holder) in held(&server.object, pod.as_deref()) {
                if let Some((name, _)) = ranges.get_key_value(&*range) {
                    holders.entry(name).or_default().push(holder);
                }
            }
        }
        let none = Vec::new();
        let ports = |(name, range): (&String, &RangeInclusive<u16>)| {
            let holders = holders.get(name.as_str()).unwrap_or(&none);
            (name.clone(), Ports::new(range.clone(), &nodes, holders))
        };
        let ranges = ranges.iter().map(ports).collect();
        Self { ranges, passed_over: VecDeque::new(), picked: BTreeMap::new() }
    }

    /// Takes the ports of a server back, which are taken where it could go, so that it gets others next. `Err` is the moment from
    /// which that may be done again.
    pub(crate) fn pick_again(
        &mut self,
        server: &GameServer,
        pod: &CachedPod,
        now: Timestamp,
    ) -> Result<(), Timestamp> {
        let uid = server.metadata.uid.as_deref().unwrap_or_default();
        let (times, not_before) = self.picked.get(uid).copied().unwrap_or((0, now));
        if not_before > now {
            return Err(not_before);
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << times.min(16)).min(LONGEST_PAUSE);
        let next_at = now.saturating_add(pause).unwrap_or(Timestamp::MAX);
        self.avoid(server, Some(pod), now);
        self.ranges.values_mut().for_each(|ports| ports.release(uid));
        self.picked.insert(uid.to_owned(), (times.saturating_add(1), next_at));
        Ok(())
    }

    /// Passes the ports of a server over for a while: a stranger has them.
    pub(crate) fn avoid(&mut self, server: &GameServer, pod: Option<&CachedPod>, now: Timestamp) {
        let until = now.saturating_add(PASSED_OVER_FOR).unwrap_or(Timestamp::MAX);
        for (range, holder) in held(server, pod) {
            if let Some(ports) = self.ranges.get_mut(&*range) {
                ports.avoid(&holder.ports);
                self.passed_over.push_back((until, range, holder.ports));
            }
        }
    }

    /// Gives out ports again whose time is over.
    pub(crate) fn expire(&mut self, now: Timestamp) {
        while self.passed_over.front().is_some_and(|(until, ..)| *until <= now)
            && let Some((_, range, ports)) = self.passed_over.pop_front()
        {
            self.ranges.get_mut(&*range).into_iter().for_each(|all| all.allow(&ports));
        }
    }

    /// Gives a server's ports with their host ports: those it has, those its pod has, or new ones.
    pub(crate) fn assign(
        &mut self,
        server: &GameServer,
        pod: Option<&CachedPod>,
    ) -> Result<Vec<Port>, PortsError> {
        if let Some(found) = has_all(server).or_else(|| from_pod(server, pod?)) {
            return Ok(found);
        }
        let mut all = server.spec.ports_view();
        let uid: Arc<str> = server.metadata.uid.as_deref().unwrap_or_default().into();
        for name in ranges_of(&all) {
            let count = ports::needed(&all, &name);
            let found = if count == 0 { Vec::new() } else { self.allocate(&name, &uid, count)? };
            ports::assign(&mut all, &name, &found);
        }
        Ok(all)
    }

    fn allocate(
        &mut self,
        name: &str,
        uid: &Arc<str>,
        count: usize,
    ) -> Result<Vec<u16>, PortsError> {
        let Some(range) = self.ranges.get_mut(name) else {
            let known = self.ranges.keys().cloned().collect::<Vec<_>>().join(", ");
            return Err(PortsError::NoRange { name: name.to_owned(), known });
        };
        range.allocate(uid, count).ok_or_else(|| PortsError::TooSmall { name: name.to_owned() })
    }

    /// Notes the ports that a server turned out to have.
    pub(crate) fn take_over(&mut self, server: &GameServer, pod: &CachedPod) {
        for (range, holder) in held(server, Some(pod)) {
            if let Some(ports) = self.ranges.get_mut(&*range) {
                ports.take_over(&holder);
            }
        }
    }

    /// Takes back what a server had.
    pub(crate) fn release(&mut self, uid: &str) {
        self.ranges.values_mut().for_each(|ports| ports.release(uid));
        self.picked.remove(uid);
    }
}

/// Whether other host ports can be picked for a server that has a pod: it has some of ours, and does not say so yet.
pub(crate) fn can_change(server: &GameServer, pod: &CachedPod) -> bool {
    has_all(server).is_none()
        && from_pod(server, pod).is_some_and(|ports| ports.iter().any(|p| p.policy.needs_port()))
}

/// The ports of a server that lacks none.
fn has_all(server: &GameServer) -> Option<Vec<Port>> {
    let ports = server.spec.ports_view();
    let is_open = |port: &Port| {
        (port.policy.needs_port() && port.host_port.is_none())
            || port.protocol == ports::Protocol::TcpUdp
    };
    (!ports.iter().any(is_open)).then_some(ports)
}

/// The ports of a server whose pod was made with them, and which does not say so yet.
fn from_pod(server: &GameServer, pod: &CachedPod) -> Option<Vec<Port>> {
    let found = pod.host_ports()?;
    let mut all = server.spec.ports_view();
    let needing = all.iter().filter(|port| port.policy.needs_port()).count();
    if found.len() != needing {
        return None;
    }
    let mut by_range: BTreeMap<Arc<str>, Vec<u16>> = BTreeMap::new();
    for (port, number) in all.iter().filter(|port| port.policy.needs_port()).zip(found) {
        by_range.entry(Arc::clone(&port.range)).or_default().push(number);
    }
    for name in ranges_of(&all) {
        let found = by_range.get(&name).map(Vec::as_slice).unwrap_or_default();
        ports::assign(&mut all, &name, found);
    }
    Some(all)
}

/// Lists the host ports that were found for a server, in the order of its ports before they were doubled.
pub(crate) fn found(before: &GameServer, after: &[Port]) -> Vec<u16> {
    let count = before.spec.ports.len();
    let found = after.iter().take(count).filter(|port| port.policy.needs_port());
    found.filter_map(|port| port.host_port).collect()
}

/// What a server holds in each range.
fn held(server: &GameServer, pod: Option<&CachedPod>) -> Vec<(Arc<str>, Holder)> {
    let known = has_all(server).or_else(|| from_pod(server, pod?));
    let mut by_range: BTreeMap<Arc<str>, BTreeSet<u16>> = BTreeMap::new();
    for port in known.into_iter().flatten() {
        if let (true, Some(number)) = (port.policy.needs_port(), port.host_port) {
            by_range.entry(port.range).or_default().insert(number);
        }
    }
    let node = server.status.as_ref().map(|status| status.node_name.as_str());
    let node = node.filter(|node| !node.is_empty());
    let node = node.or_else(|| pod.and_then(|pod| pod.spec.node_name.as_deref()));
    let uid: Arc<str> = server.metadata.uid.as_deref().unwrap_or_default().into();
    let holder = |ports: BTreeSet<u16>| Holder {
        uid: Arc::clone(&uid),
        node: node.map(Into::into),
        ports: ports.into_iter().collect(),
    };
    by_range.into_iter().map(|(range, ports)| (range, holder(ports))).collect()
}

fn ranges_of(ports: &[Port]) -> BTreeSet<Arc<str>> {
    ports.iter().map(|port| Arc::clone(&port.range)).collect()
}
