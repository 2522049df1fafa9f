//! How busy each node is with game servers: what packing sorts by.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{GameServer, State};

/// How many servers of every fleet and namespace one node carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLoad {
    /// Those in state Ready.
    pub ready: u32,
    /// Those in state Allocated.
    pub allocated: u32,
}

impl NodeLoad {
    /// Counts both.
    pub fn total(self) -> u32 {
        self.ready + self.allocated
    }

    /// Counts one more server in `state`.
    pub(crate) fn add(&mut self, state: State) {
        self.ready += u32::from(state == State::Ready);
        self.allocated += u32::from(state == State::Allocated);
    }

    /// Counts one server less.
    pub(crate) fn remove(&mut self, state: State) {
        self.ready = self.ready.saturating_sub(u32::from(state == State::Ready));
        self.allocated = self.allocated.saturating_sub(u32::from(state == State::Allocated));
    }
}

/// The load of every known node. A node is known once a server was seen on it, in whatever state, until it is deleted;
/// the empty node name of servers without a node is a node too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    nodes: BTreeMap<Arc<str>, NodeLoad>,
}

impl Occupancy {
    /// Counts the servers of every fleet and namespace.
    pub fn of<'a>(servers: impl IntoIterator<Item = &'a GameServer>) -> Self {
        let mut seen = Self::default();
        servers.into_iter().for_each(|server| seen.add(server));
        seen
    }

    /// Counts one more server, and makes its node known.
    pub fn add(&mut self, server: &GameServer) {
        // Servers of a node mostly come with a name of their own, and only a new node needs to keep one.
        match self.nodes.get_mut(&server.node) {
            Some(load) => load.add(server.state),
            None => {
                let mut load = NodeLoad::default();
                load.add(server.state);
                self.nodes.insert(Arc::clone(&server.node), load);
            }
        }
    }

    /// Counts one server less; its node stays known.
    pub fn remove(&mut self, server: &GameServer) {
        if let Some(load) = self.nodes.get_mut(&server.node) {
            load.remove(server.state);
        }
    }

    /// Forgets a node that was deleted: its servers then count as being nowhere.
    pub fn forget(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    /// Forgets every node that `exists` does not vouch for.
    pub fn keep(&mut self, exists: impl Fn(&str) -> bool) {
        self.nodes.retain(|node, _| exists(node));
    }

    /// Gives the load of `node`, or nothing when it is not known.
    pub fn load(&self, node: &str) -> Option<NodeLoad> {
        self.nodes.get(node).copied()
    }
}
