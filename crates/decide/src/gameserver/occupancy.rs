//! The game server load of nodes, which Packed sorts by.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::{GameServer, State};

/// The number of servers of all fleets and namespaces on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLoad {
    /// Those in state Ready.
    pub ready: u32,
    /// Those in state Allocated.
    pub allocated: u32,
}

impl NodeLoad {
    /// Returns the sum of both.
    pub fn total(self) -> u32 {
        self.ready + self.allocated
    }

    /// Adds one server in `state`.
    pub(crate) fn add(&mut self, state: State) {
        self.ready += u32::from(state == State::Ready);
        self.allocated += u32::from(state == State::Allocated);
    }

    /// Removes one server in `state`.
    pub(crate) fn remove(&mut self, state: State) {
        self.ready = self.ready.saturating_sub(u32::from(state == State::Ready));
        self.allocated = self.allocated.saturating_sub(u32::from(state == State::Allocated));
    }
}

/// The load of every known node. A node is known once a server was observed on it, in any state, until the node is deleted; the
/// empty node name of unscheduled servers is a node too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    nodes: BTreeMap<Arc<str>, NodeLoad>,
    /// Nodes that the node autoscaler does not need, with the time since when.
    unneeded: BTreeMap<Arc<str>, Timestamp>,
}

impl Occupancy {
    /// Counts the servers of all fleets and namespaces.
    pub fn from_servers<'a>(servers: impl IntoIterator<Item = &'a GameServer>) -> Self {
        let mut occupancy = Self::default();
        servers.into_iter().for_each(|server| occupancy.add(server));
        occupancy
    }

    /// Adds a server, and makes its node known.
    pub fn add(&mut self, server: &GameServer) {
        // Servers of a node mostly have their own copy of its name, and only a new node needs to keep one.
        match self.nodes.get_mut(&server.node) {
            Some(load) => load.add(server.state),
            None => {
                let mut load = NodeLoad::default();
                load.add(server.state);
                self.nodes.insert(Arc::clone(&server.node), load);
            }
        }
    }

    /// Removes a server; its node stays known.
    pub fn remove(&mut self, server: &GameServer) {
        if let Some(load) = self.nodes.get_mut(&server.node) {
            load.remove(server.state);
        }
    }

    /// Removes a deleted node: its servers then count as being on an unknown node.
    pub fn remove_node(&mut self, node: &str) {
        self.nodes.remove(node);
        self.unneeded.remove(node);
    }

    /// Records since when a node has been unneeded; `None` for one that is needed.
    pub fn set_unneeded(&mut self, node: &str, since: Option<Timestamp>) {
        match since {
            Some(since) => drop(self.unneeded.insert(node.into(), since)),
            None => drop(self.unneeded.remove(node)),
        }
    }

    /// Returns since when a node has been unneeded.
    pub fn unneeded_since(&self, node: &str) -> Option<Timestamp> {
        self.unneeded.get(node).copied()
    }

    /// Returns the same load with every node needed, as Agones ranks nodes.
    pub fn all_needed(&self) -> Cow<'_, Self> {
        if self.unneeded.is_empty() {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self { nodes: self.nodes.clone(), unneeded: BTreeMap::new() })
    }

    /// Removes every node for which `exists` returns false.
    pub fn keep(&mut self, exists: impl Fn(&str) -> bool) {
        self.nodes.retain(|node, _| exists(node));
    }

    /// Returns the load of `node`, or `None` when it is unknown.
    pub fn load(&self, node: &str) -> Option<NodeLoad> {
        self.nodes.get(node).copied()
    }
}
