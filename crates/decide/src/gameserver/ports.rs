//! Allocates host ports.
//!
//! Ports are allocated before the node of a server is known. So there is a set of ports per node, without knowing which node is
//! which: as many servers may share a port as there are nodes, and the scheduler keeps them apart.

mod assign;
mod host;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

pub use assign::{Port, PortPolicy, Protocol, assign, needed};
pub use host::{HostPorts, PortOwner, PortsError, host_ports};

/// The ports of one named range.
#[derive(Clone, Debug)]
pub struct Ports {
    range: RangeInclusive<u16>,
    /// The used ports, one set for each node; the fullest come first.
    maps: Vec<BTreeSet<u16>>,
    /// The ports of each server, by its uid.
    held: BTreeMap<Arc<str>, Held>,
    /// Ports that something else was found to use.
    avoided: BTreeSet<u16>,
    /// Where the search continues, so that a released port is not reused at once.
    next: u16,
}

#[derive(Clone, Debug)]
struct Held {
    map: usize,
    ports: Vec<u16>,
}

/// A server that already has ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its uid.
    pub uid: Arc<str>,
    /// Its node, if it has one.
    pub node: Option<Arc<str>>,
    /// Its Dynamic and Passthrough ports of this range.
    pub ports: Vec<u16>,
}

impl Ports {
    /// Starts with the existing nodes and servers.
    pub fn new(range: RangeInclusive<u16>, nodes: &[Arc<str>], holders: &[Holder]) -> Self {
        let mut by_node: BTreeMap<&str, Vec<&Holder>> =
            nodes.iter().map(|node| (&**node, Vec::new())).collect();
        let mut adrift = Vec::new();
        for holder in holders {
            match holder.node.as_deref().and_then(|node| by_node.get_mut(node)) {
                Some(there) => there.push(holder),
                None => adrift.push(holder),
            }
        }
        let mut groups: Vec<Vec<&Holder>> = by_node.into_values().collect();
        groups.sort_by_key(|group| {
            std::cmp::Reverse(group.iter().map(|h| h.ports.len()).sum::<usize>())
        });
        let next = *range.start();
        let (maps, held) = (vec![BTreeSet::new(); groups.len()], BTreeMap::new());
        let mut ports = Self { range, maps, held, avoided: BTreeSet::new(), next };
        for (map, group) in groups.into_iter().enumerate() {
            group.into_iter().for_each(|holder| ports.hold(map, holder));
        }
        adrift.into_iter().for_each(|holder| ports.record(holder));
        ports
    }

    /// Allocates `count` distinct ports that are free on one node; `None` when the range is too small. A repeated call for a server
    /// returns its ports.
    pub fn allocate(&mut self, uid: &Arc<str>, count: usize) -> Option<Vec<u16>> {
        if let Some(held) = self.held.get(uid) {
            return Some(held.ports.clone());
        }
        let size = self.range.len();
        if count > size {
            return None;
        }
        let has_room = |map: &BTreeSet<u16>| size - map.len() >= count;
        let avoids = |map: &BTreeSet<u16>| size - map.union(&self.avoided).count() >= count;
        let mut found = self.maps.iter().position(has_room);
        if !self.avoided.is_empty() {
            // Another node is better than a port that something else uses, and that is better than none.
            found = self.maps.iter().position(avoids).or(found);
        }
        let map = found.unwrap_or_else(|| self.open());
        let used = &self.maps[map];
        let from_here = (self.next..=*self.range.end()).chain(*self.range.start()..self.next);
        let free = from_here.filter(|port| !used.contains(port));
        let good = free.clone().filter(|port| !self.avoided.contains(port));
        let avoided = free.filter(|port| self.avoided.contains(port));
        let ports: Vec<u16> = good.chain(avoided).take(count).collect();
        if let Some(last) = ports.last() {
            self.next = if last == self.range.end() { *self.range.start() } else { last + 1 };
        }
        self.maps[map].extend(&ports);
        self.held.insert(Arc::clone(uid), Held { map, ports: ports.clone() });
        Some(ports)
    }

    /// Records the observed ports of a server, replacing its previous ones.
    pub fn record(&mut self, holder: &Holder) {
        self.release(&holder.uid);
        let is_free = |map: &BTreeSet<u16>| holder.ports.iter().all(|port| !map.contains(port));
        let map = self.maps.iter().position(is_free).unwrap_or_else(|| self.open());
        self.hold(map, holder);
    }

    /// Avoids ports that something else uses, as long as there are others.
    pub fn avoid(&mut self, ports: &[u16]) {
        self.avoided.extend(ports.iter().filter(|port| self.range.contains(port)));
    }

    /// Stops avoiding ports.
    pub fn allow(&mut self, ports: &[u16]) {
        self.avoided.retain(|port| !ports.contains(port));
    }

    /// Releases the ports of a server. Idempotent.
    pub fn release(&mut self, uid: &str) {
        if let Some(held) = self.held.remove(uid) {
            self.maps[held.map].retain(|port| !held.ports.contains(port));
        }
    }

    fn open(&mut self) -> usize {
        self.maps.push(BTreeSet::new());
        self.maps.len() - 1
    }

    fn hold(&mut self, map: usize, holder: &Holder) {
        let ports: Vec<u16> =
            holder.ports.iter().copied().filter(|port| self.range.contains(port)).collect();
        self.maps[map].extend(&ports);
        self.held.insert(Arc::clone(&holder.uid), Held { map, ports });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn uid(number: usize) -> Arc<str> {
        format!("uid-{number}").into()
    }

    #[test]
    fn a_port_is_shared_only_once_a_node_is_full() {
        let mut ports = Ports::new(7000..=7002, &["n".into()], &[]);
        let first: Vec<_> = (0..3).flat_map(|n| ports.allocate(&uid(n), 1).unwrap()).collect();
        assert_eq!(first, [7000, 7001, 7002]);
        assert_eq!(ports.allocate(&uid(3), 1), Some(vec![7000]), "a node more is made up");
    }

    #[test]
    fn a_server_with_several_ports_gets_them_on_one_node() {
        let mut ports = Ports::new(7000..=7002, &["n".into()], &[]);
        ports.allocate(&uid(0), 2).unwrap();
        let two = ports.allocate(&uid(1), 2).unwrap();
        assert_ne!(two[0], two[1]);
        assert_eq!(ports.allocate(&uid(2), 4), None, "the range has three");
        assert_eq!(ports.allocate(&uid(1), 2), Some(two), "asking again changes nothing");
    }

    #[test]
    fn ports_of_existing_servers_are_taken() {
        let holder = |n, node: Option<&str>, port| Holder {
            uid: uid(n),
            node: node.map(Arc::from),
            ports: vec![port],
        };
        let holders =
            [holder(0, Some("b"), 7000), holder(1, None, 7000), holder(2, Some("b"), 7001)];
        let mut ports = Ports::new(7000..=7002, &["a".into(), "b".into()], &holders);
        assert_eq!(
            ports.allocate(&uid(9), 1),
            Some(vec![7002]),
            "the fullest node is filled first"
        );
        ports.release("uid-0");
        ports.release("uid-0");
        assert_eq!(ports.allocate(&uid(10), 1), Some(vec![7000]));
    }

    #[test]
    fn recording_other_ports_releases_the_previous_ones() {
        let mut ports = Ports::new(7000..=7002, &["n".into()], &[]);
        assert_eq!(ports.allocate(&uid(0), 1), Some(vec![7000]));
        ports.record(&Holder { uid: uid(0), node: None, ports: vec![7002] });
        let others: Vec<_> = (1..3).flat_map(|n| ports.allocate(&uid(n), 1).unwrap()).collect();
        assert_eq!(others, [7001, 7000]);
    }

    #[test]
    fn ports_that_something_else_uses_are_avoided_while_there_are_others() {
        let mut ports = Ports::new(7000..=7002, &["n".into()], &[]);
        ports.avoid(&[7000, 9000]);
        let first: Vec<_> = (0..2).flat_map(|n| ports.allocate(&uid(n), 1).unwrap()).collect();
        assert_eq!(first, [7001, 7002]);
        assert_eq!(ports.allocate(&uid(2), 1), Some(vec![7000]), "rather that than none");
        ports.release("uid-2");
        ports.avoid(&[7001]);
        ports.allow(&[7000]);
        assert_eq!(ports.allocate(&uid(3), 1), Some(vec![7000]));
        ports.release("uid-0");
        assert_eq!(ports.allocate(&uid(4), 1), Some(vec![7001]), "no other is free");
    }

    proptest! {
        #[test]
        fn no_node_allocates_a_port_twice(
            steps in proptest::collection::vec((0..20_usize, proptest::option::of(1..4_usize)), 1..200)
        ) {
            let mut ports = Ports::new(7000..=7009, &["a".into(), "b".into()], &[]);
            for (server, wanted) in steps {
                match wanted {
                    Some(count) => drop(ports.allocate(&uid(server), count)),
                    None => ports.release(&uid(server)),
                }
                let held: usize = ports.held.values().map(|h| h.ports.len()).sum();
                let used: usize = ports.maps.iter().map(BTreeSet::len).sum();
                prop_assert_eq!(held, used);
            }
        }
    }
}
