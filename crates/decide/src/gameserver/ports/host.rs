//! The host ports of all game servers, over all ranges.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Holder, Port, Ports, Protocol, assign, needed};

/// How long a port is avoided that something else was found to use.
const AVOIDED_FOR: SignedDuration = SignedDuration::from_mins(5);
/// The delay of the second reassignment; each further one doubles it.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(5);
/// The longest delay.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(60);

/// The host ports of every range.
#[derive(Clone, Debug, Default)]
pub struct HostPorts {
    ranges: BTreeMap<String, Ports>,
    /// Ports that something else uses, until when they are avoided.
    avoided: VecDeque<(Timestamp, Arc<str>, Vec<u16>)>,
    /// How often ports were reassigned to a server, by its uid, and when they may be again.
    picked: BTreeMap<Arc<str>, (u32, Timestamp)>,
}

/// The fields of a game server that its host ports depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortOwner {
    /// Its uid.
    pub uid: Arc<str>,
    /// `spec.ports`.
    pub ports: Vec<Port>,
    /// The host ports that its pod was created with, in the order of the ports that need one.
    pub pod_ports: Option<Vec<u16>>,
    /// Its node, from its own status or its pod.
    pub node: Option<Arc<str>>,
}

/// The permanent reason why a game server gets no ports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortsError {
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

impl PortOwner {
    /// Returns whether its host ports can be reassigned: its pod has ports of ours, and its spec does not have them yet.
    pub fn can_change(&self) -> bool {
        let needs = |ports: Vec<Port>| ports.iter().any(|port| port.policy.needs_port());
        self.ports_by_spec().is_none() && self.ports_by_pod().is_some_and(needs)
    }

    /// Returns its ports with their host ports, where its spec or its pod has them.
    fn known(&self) -> Option<Vec<Port>> {
        self.ports_by_spec().or_else(|| self.ports_by_pod())
    }

    /// Returns the ports of a server whose spec has all host ports.
    fn ports_by_spec(&self) -> Option<Vec<Port>> {
        let is_open = |port: &Port| {
            (port.policy.needs_port() && port.host_port.is_none())
                || port.protocol == Protocol::TcpUdp
        };
        (!self.ports.iter().any(is_open)).then(|| self.ports.clone())
    }

    /// Returns the ports of a server whose pod was created with them.
    fn ports_by_pod(&self) -> Option<Vec<Port>> {
        let numbers = self.pod_ports.as_ref()?;
        let needing = || self.ports.iter().filter(|port| port.policy.needs_port());
        if numbers.len() != needing().count() {
            return None;
        }
        let mut by_range: BTreeMap<Arc<str>, Vec<u16>> = BTreeMap::new();
        for (port, number) in needing().zip(numbers) {
            by_range.entry(Arc::clone(&port.range)).or_default().push(*number);
        }
        let mut all = self.ports.clone();
        for name in ranges_of(&all) {
            let numbers = by_range.get(&name).map(Vec::as_slice).unwrap_or_default();
            assign(&mut all, &name, numbers);
        }
        Some(all)
    }

    /// Returns its ports in each range.
    fn held(&self) -> Vec<(Arc<str>, Holder)> {
        let mut by_range: BTreeMap<Arc<str>, BTreeSet<u16>> = BTreeMap::new();
        for port in self.known().into_iter().flatten() {
            if let (true, Some(number)) = (port.policy.needs_port(), port.host_port) {
                by_range.entry(port.range).or_default().insert(number);
            }
        }
        let holder = |ports: BTreeSet<u16>| Holder {
            uid: Arc::clone(&self.uid),
            node: self.node.clone(),
            ports: ports.into_iter().collect(),
        };
        by_range.into_iter().map(|(range, ports)| (range, holder(ports))).collect()
    }
}

impl HostPorts {
    /// Starts with the existing nodes and game servers.
    pub fn new(
        ranges: &BTreeMap<String, RangeInclusive<u16>>,
        nodes: &[Arc<str>],
        owners: &[PortOwner],
    ) -> Self {
        let mut holders: BTreeMap<Arc<str>, Vec<Holder>> = BTreeMap::new();
        for (range, holder) in owners.iter().flat_map(PortOwner::held) {
            holders.entry(range).or_default().push(holder);
        }
        let ports = |(name, range): (&String, &RangeInclusive<u16>)| {
            let holders = holders.get(name.as_str()).map(Vec::as_slice).unwrap_or_default();
            (name.clone(), Ports::new(range.clone(), nodes, holders))
        };
        Self { ranges: ranges.iter().map(ports).collect(), ..Self::default() }
    }

    /// Releases the ports of a server that are taken wherever it could run, so that it gets others next. `Err` is the time from
    /// which that may be done again.
    pub fn reassign(&mut self, owner: &PortOwner, now: Timestamp) -> Result<(), Timestamp> {
        let (times, not_before) = self.picked.get(&owner.uid).copied().unwrap_or((0, now));
        if not_before > now {
            return Err(not_before);
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << times.min(16)).min(LONGEST_PAUSE);
        let next_at = now.saturating_add(pause).unwrap_or(Timestamp::MAX);
        self.avoid(owner, now);
        self.ranges.values_mut().for_each(|ports| ports.release(&owner.uid));
        self.picked.insert(Arc::clone(&owner.uid), (times.saturating_add(1), next_at));
        Ok(())
    }

    /// Avoids the ports of a server for a while: something else uses them.
    pub fn avoid(&mut self, owner: &PortOwner, now: Timestamp) {
        let until = now.saturating_add(AVOIDED_FOR).unwrap_or(Timestamp::MAX);
        for (range, holder) in owner.held() {
            if let Some(ports) = self.ranges.get_mut(&*range) {
                ports.avoid(&holder.ports);
                self.avoided.push_back((until, range, holder.ports));
            }
        }
    }

    /// Stops avoiding ports after a while.
    pub fn expire(&mut self, now: Timestamp) {
        while self.avoided.front().is_some_and(|(until, ..)| *until <= now)
            && let Some((_, range, ports)) = self.avoided.pop_front()
        {
            self.ranges.get_mut(&*range).into_iter().for_each(|all| all.allow(&ports));
        }
    }

    /// Returns a server's ports with their host ports: its own, those of its pod, or new ones.
    pub fn assign(&mut self, owner: &PortOwner) -> Result<Vec<Port>, PortsError> {
        if let Some(known) = owner.known() {
            return Ok(known);
        }
        let mut all = owner.ports.clone();
        for name in ranges_of(&all) {
            let count = needed(&all, &name);
            let numbers =
                if count == 0 { Vec::new() } else { self.allocate(&name, &owner.uid, count)? };
            assign(&mut all, &name, &numbers);
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

    /// Records the observed ports of a server.
    pub fn record(&mut self, owner: &PortOwner) {
        for (range, holder) in owner.held() {
            if let Some(ports) = self.ranges.get_mut(&*range) {
                ports.record(&holder);
            }
        }
    }

    /// Releases the ports of a server.
    pub fn release(&mut self, uid: &str) {
        self.ranges.values_mut().for_each(|ports| ports.release(uid));
        self.picked.remove(uid);
    }
}

/// Returns the assigned host ports, in the order of `ports` before one for both protocols became two.
pub fn host_ports(ports: &[Port], assigned: &[Port]) -> Vec<u16> {
    let assigned = assigned.iter().take(ports.len()).filter(|port| port.policy.needs_port());
    assigned.filter_map(|port| port.host_port).collect()
}

fn ranges_of(ports: &[Port]) -> BTreeSet<Arc<str>> {
    ports.iter().map(|port| Arc::clone(&port.range)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::PortPolicy;
    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_772_366_400, 0);

    fn port(range: &str, policy: PortPolicy, protocol: Protocol, host: Option<u16>) -> Port {
        Port {
            name: "p".into(),
            range: range.into(),
            policy,
            container: None,
            protocol,
            container_port: Some(80),
            host_port: host,
        }
    }

    fn dynamic(host: Option<u16>) -> Port {
        port("default", PortPolicy::Dynamic, Protocol::Udp, host)
    }

    fn owner(uid: &str, ports: Vec<Port>, pod_ports: Option<Vec<u16>>) -> PortOwner {
        PortOwner { uid: uid.into(), ports, pod_ports, node: None }
    }

    fn ports(owners: &[PortOwner]) -> HostPorts {
        let ranges = [("default".to_owned(), 7000..=7002), ("game".to_owned(), 8000..=8000)];
        HostPorts::new(&ranges.into(), &["n".into()], owners)
    }

    fn numbers(assigned: Result<Vec<Port>, PortsError>) -> Vec<u16> {
        assigned.unwrap().iter().filter_map(|port| port.host_port).collect()
    }

    #[test]
    fn a_server_keeps_the_ports_of_its_spec_or_pod() {
        let both = || port("default", PortPolicy::Dynamic, Protocol::TcpUdp, None);
        let fixed = || port("default", PortPolicy::Static, Protocol::Udp, Some(9000));
        for (what, owner, wanted, can_change) in [
            (
                "by its spec",
                owner("a", vec![dynamic(Some(7002))], Some(vec![7001])),
                vec![7002],
                false,
            ),
            ("by its pod", owner("a", vec![dynamic(None)], Some(vec![7001])), vec![7001], true),
            ("of another length", owner("a", vec![dynamic(None)], Some(vec![])), vec![7000], false),
            ("new ones", owner("a", vec![dynamic(None)], None), vec![7000], false),
            ("none of ours", owner("a", vec![fixed()], Some(vec![])), vec![9000], false),
            ("one for both", owner("a", vec![both()], Some(vec![7002])), vec![7002, 7002], true),
        ] {
            assert_eq!(owner.can_change(), can_change, "{what}");
            assert_eq!(numbers(ports(&[]).assign(&owner)), wanted, "{what}");
        }
    }

    #[test]
    fn an_impossible_request_is_refused_with_the_range() {
        let other = port("other", PortPolicy::Dynamic, Protocol::Udp, None);
        let game = || port("game", PortPolicy::Dynamic, Protocol::Udp, None);
        for (owner, wanted) in [
            (
                owner("a", vec![other], None),
                "there is no range `other`; expected one of default, game",
            ),
            (owner("a", vec![game(), game()], None), "range `game` has fewer ports"),
        ] {
            let error = ports(&[]).assign(&owner).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn used_ports_are_known_from_the_start_and_released() {
        let held = owner("a", vec![dynamic(Some(7000))], None);
        let mut ports = ports(std::slice::from_ref(&held));
        let next = |ports: &mut HostPorts, uid| {
            numbers(ports.assign(&owner(uid, vec![dynamic(None)], None)))
        };
        assert_eq!(next(&mut ports, "b"), [7001]);
        ports.release("a");
        ports.record(&owner("c", vec![dynamic(None)], Some(vec![7002])));
        assert_eq!(next(&mut ports, "d"), [7000]);
    }

    #[test]
    fn ports_are_reassigned_with_backoff() {
        let mut all = ports(&[]);
        let server = |pod: u16| owner("a", vec![dynamic(None)], Some(vec![pod]));
        let mut now = NOW;
        for pause in [5, 10, 20, 40, 60, 60] {
            assert_eq!(all.reassign(&server(7000), now), Ok(()));
            let next_at = now + SignedDuration::from_secs(pause);
            assert_eq!(all.reassign(&server(7000), now), Err(next_at));
            now = next_at;
        }
        all.release("a");
        assert_eq!(all.reassign(&server(7000), NOW), Ok(()), "another server starts anew");
    }

    #[test]
    fn a_port_that_something_else_uses_is_avoided_for_a_while() {
        let mut all = ports(&[]);
        all.avoid(&owner("a", vec![dynamic(Some(7000))], None), NOW);
        let new = |uid| owner(uid, vec![dynamic(None)], None);
        assert_eq!(numbers(all.assign(&new("b"))), [7001]);
        all.release("b");
        all.expire(NOW + AVOIDED_FOR);
        all.assign(&new("c")).unwrap();
        assert_eq!(numbers(all.assign(&new("d"))), [7000]);
    }

    #[test]
    fn a_pod_gets_each_host_port_once() {
        let both = port("default", PortPolicy::Dynamic, Protocol::TcpUdp, None);
        let before = vec![both, dynamic(None)];
        let assigned = ports(&[]).assign(&owner("a", before.clone(), None)).unwrap();
        assert_eq!((assigned.len(), host_ports(&before, &assigned)), (3, vec![7000, 7001]));
    }
}
