//! The servers that match one selector, in the order in which they are tried.
//!
//! Packed compares nodes first, and an allocation changes the load of a node and thereby the position of all its servers. So each
//! node keeps its own servers in order, and only the first of each is in the order over all nodes.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::sorted::Sorted;
use crate::allocation::order::{NodeRank, is_random, node_rank};
use crate::allocation::{Request, Selector};
use crate::fleet::Scheduling;
use crate::gameserver::{GameServer, NodeLoad, Priority, Rank};
use crate::random::SeededRandom;

/// The part of a request's selector that determines its view.
#[derive(Hash)]
pub(super) struct Shape<'a> {
    namespace: &'a Arc<str>,
    selector: &'a Selector,
    priorities: &'a [Priority],
    scheduling: Scheduling,
    pub(super) hash: u64,
}

impl<'a> Shape<'a> {
    pub(super) fn from_selector(request: &'a Request, selector: usize) -> Self {
        let mut shape = Self {
            namespace: &request.namespace,
            selector: &request.selectors[selector],
            priorities: &request.priorities,
            scheduling: request.scheduling,
            hash: 0,
        };
        // The keys of this hasher are fixed, so a selector has the same hash in every process.
        let mut hasher = DefaultHasher::new();
        shape.hash(&mut hasher);
        shape.hash = hasher.finish();
        shape
    }
}

/// A server's position in the index.
#[derive(Clone, Copy)]
pub(super) struct SlotPosition {
    pub(super) slot: usize,
    pub(super) node: usize,
}

/// The servers that match one selector.
#[derive(Debug)]
pub(super) struct View {
    namespace: Arc<str>,
    selector: Selector,
    priorities: Vec<Priority>,
    scheduling: Scheduling,
    hash: u64,
    pub(super) used_at: u64,
    order: Order,
}

#[derive(Debug)]
enum Order {
    /// Randomly, but those on nodes that are being emptied last.
    Random { staying: Sorted, evacuating: Sorted },
    /// By node and then by priority, or by priority alone: then all servers are in one bucket.
    Ranked { nodes: Vec<Node>, heads: BTreeSet<Head> },
}

/// The servers of one node.
#[derive(Debug, Default)]
struct Node {
    servers: BTreeSet<Entry>,
    /// The node's entry in the order over all nodes.
    head: Option<Head>,
}

/// The sort key of a server within its node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    is_evacuating: bool,
    ranks: Box<[Rank]>,
    name: Arc<str>,
    slot: usize,
}

/// The first server of a node, with the node's load.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    is_evacuating: bool,
    node_rank: NodeRank,
    first: Entry,
}

impl View {
    pub(super) fn new(shape: &Shape<'_>) -> Self {
        let order = if is_random(shape.scheduling, shape.priorities) {
            Order::Random { staying: Sorted::default(), evacuating: Sorted::default() }
        } else {
            Order::Ranked { nodes: Vec::new(), heads: BTreeSet::new() }
        };
        Self {
            namespace: Arc::clone(shape.namespace),
            selector: shape.selector.clone(),
            priorities: shape.priorities.to_vec(),
            scheduling: shape.scheduling,
            hash: shape.hash,
            used_at: 0,
            order,
        }
    }

    /// Returns whether this is the view of a selector.
    pub(super) fn is(&self, shape: &Shape<'_>) -> bool {
        self.hash == shape.hash
            && self.namespace == *shape.namespace
            && self.selector == *shape.selector
            && self.priorities == shape.priorities
            && self.scheduling == shape.scheduling
    }

    /// Returns whether a server matches.
    pub(super) fn takes(&self, server: &GameServer) -> bool {
        self.selector.takes(&self.namespace, server)
    }

    /// Returns the server to try first.
    pub(super) fn first(&self, seed: u64) -> Option<usize> {
        match &self.order {
            Order::Random { staying, evacuating } => {
                let sorted = if staying.len() > 0 { staying } else { evacuating };
                sorted.get(SeededRandom::new(seed).below(sorted.len())?)
            }
            Order::Ranked { heads, .. } => heads.first().map(|head| head.first.slot),
        }
    }

    /// Inserts a server. Its node must be detached, and attached again afterwards.
    pub(super) fn insert(&mut self, server: &GameServer, place: SlotPosition) {
        let entry = self.entry(server, place.slot);
        let node = self.bucket(place.node);
        match &mut self.order {
            Order::Random { staying, evacuating } => {
                let sorted = if entry.is_evacuating { evacuating } else { staying };
                sorted.insert(&entry.name, place.slot);
            }
            Order::Ranked { nodes, .. } => {
                if nodes.len() <= node {
                    nodes.resize_with(node + 1, Node::default);
                }
                nodes[node].servers.insert(entry);
            }
        }
    }

    /// Removes a server that was inserted as it is now. Its node must be detached, and attached again afterwards.
    pub(super) fn remove(&mut self, server: &GameServer, place: SlotPosition) {
        let entry = self.entry(server, place.slot);
        let node = self.bucket(place.node);
        match &mut self.order {
            Order::Random { staying, evacuating } => {
                let sorted = if entry.is_evacuating { evacuating } else { staying };
                sorted.remove(&entry.name, place.slot);
            }
            Order::Ranked { nodes, .. } => {
                if let Some(node) = nodes.get_mut(node) {
                    node.servers.remove(&entry);
                }
            }
        }
    }

    /// Detaches a node from the order of nodes.
    pub(super) fn detach_node(&mut self, node: usize) {
        let node = self.bucket(node);
        if let Order::Ranked { nodes, heads } = &mut self.order
            && let Some(head) = nodes.get_mut(node).and_then(|node| node.head.take())
        {
            heads.remove(&head);
        }
    }

    /// Attaches a node at the position of its load and its first server.
    pub(super) fn attach_node(&mut self, node: usize, load: Option<NodeLoad>) {
        let packed = self.scheduling == Scheduling::Packed;
        let node = self.bucket(node);
        let Order::Ranked { nodes, heads } = &mut self.order else { return };
        let Some(node) = nodes.get_mut(node) else { return };
        if node.head.is_none()
            && let Some(first) = node.servers.first()
        {
            let node_rank = node_rank(load.filter(|_| packed));
            let is_evacuating = first.is_evacuating;
            let head = Head { is_evacuating, node_rank, first: first.clone() };
            node.head = Some(head.clone());
            heads.insert(head);
        }
    }

    fn bucket(&self, node: usize) -> usize {
        if self.scheduling == Scheduling::Packed { node } else { 0 }
    }

    fn entry(&self, server: &GameServer, slot: usize) -> Entry {
        let ranks = self.priorities.iter().map(|p| p.rank(server)).collect();
        let (is_evacuating, name) = (server.is_evacuating, Arc::clone(&server.name));
        Entry { is_evacuating, ranks, name, slot }
    }
}
