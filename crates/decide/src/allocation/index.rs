//! An index for fast allocation: servers are kept in the order in which requests try them, and each change moves one server.
//!
//! Requests use few distinct selectors. Each selector that occurred twice gets a view: its matching servers, in order. An
//! allocation then takes the first server of a view, whatever bounds the selector has, in O(log n); each change to a server
//! updates every view once. A selector that occurs for the first time is answered by a full scan.

mod sorted;
mod view;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;

use super::scan::best;
use super::{Request, Warning, apply};
use crate::gameserver::{GameServer, NodeLoad};
use view::{Shape, SlotPosition, View};

/// The maximum number of views; the least recently used one is evicted. Membership is one bit each of a `u64`.
const MOST_VIEWS: usize = 64;

/// The number of selector hashes that are kept to detect repetitions.
const REMEMBERED: usize = 256;

/// All game servers, indexed for allocation.
#[derive(Debug, Default)]
pub struct Index {
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    names: BTreeMap<Arc<str>, BTreeMap<Arc<str>, usize>>,
    nodes: BTreeMap<Arc<str>, usize>,
    /// The load that Packed sorts by; a removed node has none until a server is observed on it again.
    loads: Vec<Option<NodeLoad>>,
    views: Vec<View>,
    used_once: VecDeque<u64>,
    clock: u64,
}

#[derive(Debug)]
struct Slot {
    server: GameServer,
    node: usize,
    /// The views that contain the server, as a bit set.
    views: u64,
}

/// The allocated server, after the allocation.
#[derive(Debug)]
pub struct Picked<'a> {
    /// The server, in the index.
    pub server: &'a GameServer,
    /// The index of the selector that it matched.
    pub selector: usize,
    /// Actions that did not apply; the allocation succeeded nevertheless.
    pub warnings: Vec<Warning>,
}

impl Index {
    /// Returns the number of servers.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns whether there are no servers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a server by name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&GameServer> {
        let slot = self.find(namespace, name)?;
        self.slots[slot].as_ref().map(|slot| &slot.server)
    }

    /// Inserts or updates a server. Servers in every state belong here: each makes its node known.
    pub fn put(&mut self, server: GameServer) {
        let node = self.node(&server.node);
        match self.find(&server.namespace, &server.name) {
            Some(slot) => self.change(slot, node, |old| *old = server),
            None => {
                let slot = self.free.pop().unwrap_or_else(|| {
                    self.slots.push(None);
                    self.slots.len() - 1
                });
                let names = self.names.entry(Arc::clone(&server.namespace)).or_default();
                names.insert(Arc::clone(&server.name), slot);
                self.detach_node(node);
                self.loads[node].get_or_insert_default().add(server.state);
                self.slots[slot] = Some(Slot { server, node, views: 0 });
                self.enter(slot);
                self.attach_node(node);
            }
        }
    }

    /// Removes a deleted server.
    pub fn remove(&mut self, namespace: &str, name: &str) -> Option<GameServer> {
        let slot = self.names.get_mut(namespace)?.remove(name)?;
        let node = self.slots[slot].as_ref()?.node;
        self.detach_node(node);
        self.leave(slot);
        let gone = self.slots[slot].take()?;
        if let Some(load) = &mut self.loads[node] {
            load.remove(gone.server.state);
        }
        self.attach_node(node);
        self.free.push(slot);
        Some(gone.server)
    }

    /// Removes a deleted node: its servers are tried last.
    pub fn forget_node(&mut self, node: &str) {
        if let Some(node) = self.nodes.get(node).copied() {
            self.detach_node(node);
            self.loads[node] = None;
            self.attach_node(node);
        }
    }

    /// Allocates a server for a request and applies the request to it; `None` when no server matches.
    pub fn allocate(&mut self, request: &Request, now: Timestamp) -> Option<Picked<'_>> {
        let (slot, selector) = self.choose(request)?;
        let node = self.slots[slot].as_ref()?.node;
        let mut warnings = Vec::new();
        self.change(slot, node, |server| warnings = apply(request, server, now));
        let server = &self.slots[slot].as_ref()?.server;
        Some(Picked { server, selector, warnings })
    }

    /// Returns the server that a request would get, and the index of the selector that it matches.
    pub fn peek(&mut self, request: &Request) -> Option<(&GameServer, usize)> {
        let (slot, selector) = self.choose(request)?;
        Some((&self.slots[slot].as_ref()?.server, selector))
    }

    fn choose(&mut self, request: &Request) -> Option<(usize, usize)> {
        (0..request.selectors.len()).find_map(|i| Some((self.first(request, i)?, i)))
    }

    /// Returns the first server for one of the selectors, from its view if there is one.
    fn first(&mut self, request: &Request, selector: usize) -> Option<usize> {
        let shape = Shape::from_selector(request, selector);
        let known = self.views.iter().position(|view| view.is(&shape));
        let view = match known {
            Some(view) => view,
            None if self.comes_again(shape.hash) => self.build(&shape),
            None => return self.scan(request, selector),
        };
        self.clock += 1;
        self.views[view].used_at = self.clock;
        self.views[view].first(request.seed)
    }

    fn scan(&self, request: &Request, selector: usize) -> Option<usize> {
        let candidates = self.slots.iter().enumerate();
        let candidates =
            candidates.filter_map(|(index, slot)| Some((index, &slot.as_ref()?.server)));
        let load = |index: usize, _: &GameServer| {
            self.slots[index].as_ref().and_then(|slot| self.loads[slot.node])
        };
        best(request, &request.selectors[selector], candidates, load)
    }

    /// Returns whether a selector occurred before, and records it.
    fn comes_again(&mut self, hash: u64) -> bool {
        if let Some(place) = self.used_once.iter().position(|known| *known == hash) {
            self.used_once.remove(place);
            return true;
        }
        if self.used_once.len() == REMEMBERED {
            self.used_once.pop_front();
        }
        self.used_once.push_back(hash);
        false
    }

    /// Builds a view, evicting the least recently used one if there are too many.
    fn build(&mut self, shape: &Shape<'_>) -> usize {
        let mut view = View::new(shape);
        let oldest = || (0..self.views.len()).min_by_key(|i| self.views[*i].used_at);
        let place = if self.views.len() < MOST_VIEWS { None } else { oldest() };
        let bit = 1 << place.unwrap_or(self.views.len());
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let Some(slot) = slot else { continue };
            slot.views &= !bit;
            if view.takes(&slot.server) {
                slot.views |= bit;
                view.insert(&slot.server, SlotPosition { slot: index, node: slot.node });
            }
        }
        (0..self.loads.len()).for_each(|node| view.attach_node(node, self.loads[node]));
        match place {
            Some(place) => self.views[place] = view,
            None => self.views.push(view),
        }
        place.unwrap_or(self.views.len() - 1)
    }

    /// Changes a server, which is on `node` afterwards, and reindexes it.
    fn change(&mut self, slot: usize, node: usize, change: impl FnOnce(&mut GameServer)) {
        let Some(was) = self.slots[slot].as_ref().map(|slot| slot.node) else { return };
        self.detach_node(was);
        if node != was {
            self.detach_node(node);
        }
        self.leave(slot);
        if let Some(held) = &mut self.slots[slot] {
            if let Some(load) = &mut self.loads[was] {
                load.remove(held.server.state);
            }
            change(&mut held.server);
            held.node = node;
            self.loads[node].get_or_insert_default().add(held.server.state);
        }
        self.enter(slot);
        if node != was {
            self.attach_node(was);
        }
        self.attach_node(node);
    }

    /// Adds a server to every view whose selector it matches.
    fn enter(&mut self, slot: usize) {
        let Some(held) = &mut self.slots[slot] else { return };
        for (bit, view) in self.views.iter_mut().enumerate() {
            if view.takes(&held.server) {
                held.views |= 1 << bit;
                view.insert(&held.server, SlotPosition { slot, node: held.node });
            }
        }
    }

    /// Removes a server from every view that contains it.
    fn leave(&mut self, slot: usize) {
        let Some(held) = &mut self.slots[slot] else { return };
        while held.views != 0 {
            let bit = held.views.trailing_zeros();
            held.views &= held.views - 1;
            self.views[bit as usize].remove(&held.server, SlotPosition { slot, node: held.node });
        }
    }

    /// Detaches a node from the order of nodes, while its load or its servers change.
    fn detach_node(&mut self, node: usize) {
        self.views.iter_mut().for_each(|view| view.detach_node(node));
    }

    /// Attaches a node again at its current position.
    fn attach_node(&mut self, node: usize) {
        let load = self.loads[node];
        self.views.iter_mut().for_each(|view| view.attach_node(node, load));
    }

    fn find(&self, namespace: &str, name: &str) -> Option<usize> {
        self.names.get(namespace)?.get(name).copied()
    }

    fn node(&mut self, name: &Arc<str>) -> usize {
        if let Some(node) = self.nodes.get(name) {
            return *node;
        }
        self.loads.push(None);
        self.nodes.insert(Arc::clone(name), self.loads.len() - 1);
        self.loads.len() - 1
    }
}
