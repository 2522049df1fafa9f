//! The quick way to choose: servers are kept in the order in which requests try them, and each change moves one server.
//!
//! Requests come in few shapes, again and again. For each selector that was asked for twice there is a view: the servers that
//! meet it, in order. A choice is then the first of a view, whatever bounds the selector has, and costs O(log n); a change to
//! a server is looked at by each view once. A selector seen for the first time is answered by the plain scan.

mod sorted;
mod view;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;

use super::scan::best;
use super::{Request, Warning, apply};
use crate::gameserver::{GameServer, NodeLoad};
use view::{Place, Shape, View};

/// The most views kept; the one not used for longest makes room. Membership is one bit each of a `u64`.
const MOST_VIEWS: usize = 64;

/// How many shapes are remembered to tell which come again.
const REMEMBERED: usize = 256;

/// Every game server, ready to be chosen from.
#[derive(Debug, Default)]
pub struct Index {
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    names: BTreeMap<Arc<str>, BTreeMap<Arc<str>, usize>>,
    nodes: BTreeMap<Arc<str>, usize>,
    /// What packing sorts by; a node that was forgotten has no load until a server is seen on it again.
    loads: Vec<Option<NodeLoad>>,
    views: Vec<View>,
    seen_once: VecDeque<u64>,
    turn: u64,
}

#[derive(Debug)]
struct Slot {
    server: GameServer,
    node: usize,
    /// Which views the server is in.
    views: u64,
}

/// A server that was chosen, as it is after the allocation.
#[derive(Debug)]
pub struct Picked<'a> {
    /// The server, in the index.
    pub server: &'a GameServer,
    /// Which selector it met.
    pub selector: usize,
    /// Actions that did not apply; the allocation stands all the same.
    pub warnings: Vec<Warning>,
}

impl Index {
    /// Counts the servers.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is no server.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives a server by name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&GameServer> {
        let slot = self.find(namespace, name)?;
        self.slots[slot].as_ref().map(|slot| &slot.server)
    }

    /// Takes in a server that is new or has changed. Servers in every state belong here: they make their node known.
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
                self.lift(node);
                self.loads[node].get_or_insert_default().add(server.state);
                self.slots[slot] = Some(Slot { server, node, views: 0 });
                self.enter(slot);
                self.settle(node);
            }
        }
    }

    /// Takes out a server that is gone.
    pub fn remove(&mut self, namespace: &str, name: &str) -> Option<GameServer> {
        let slot = self.names.get_mut(namespace)?.remove(name)?;
        let node = self.slots[slot].as_ref()?.node;
        self.lift(node);
        self.leave(slot);
        let gone = self.slots[slot].take()?;
        if let Some(load) = &mut self.loads[node] {
            load.remove(gone.server.state);
        }
        self.settle(node);
        self.free.push(slot);
        Some(gone.server)
    }

    /// Forgets a node that was deleted: its servers are tried last.
    pub fn forget_node(&mut self, node: &str) {
        if let Some(node) = self.nodes.get(node).copied() {
            self.lift(node);
            self.loads[node] = None;
            self.settle(node);
        }
    }

    /// Gives a request its server and makes the request's changes to it; nothing when no server will do.
    pub fn allocate(&mut self, request: &Request, now: Timestamp) -> Option<Picked<'_>> {
        let (slot, selector) = self.choose(request)?;
        let node = self.slots[slot].as_ref()?.node;
        let mut warnings = Vec::new();
        self.change(slot, node, |server| warnings = apply(request, server, now));
        let server = &self.slots[slot].as_ref()?.server;
        Some(Picked { server, selector, warnings })
    }

    /// Gives the server that a request would get, and the selector that it meets.
    pub fn peek(&mut self, request: &Request) -> Option<(&GameServer, usize)> {
        let (slot, selector) = self.choose(request)?;
        Some((&self.slots[slot].as_ref()?.server, selector))
    }

    fn choose(&mut self, request: &Request) -> Option<(usize, usize)> {
        (0..request.selectors.len()).find_map(|i| Some((self.first(request, i)?, i)))
    }

    /// Finds the first server for one of the selectors: in its view if there is one.
    fn first(&mut self, request: &Request, selector: usize) -> Option<usize> {
        let shape = Shape::of(request, selector);
        let known = self.views.iter().position(|view| view.is(&shape));
        let view = match known {
            Some(view) => view,
            None if self.comes_again(shape.hash) => self.build(&shape),
            None => return self.scan(request, selector),
        };
        self.turn += 1;
        self.views[view].used_at = self.turn;
        self.views[view].first(request.seed)
    }

    fn scan(&self, request: &Request, selector: usize) -> Option<usize> {
        let seen = self.slots.iter().enumerate();
        let seen = seen.filter_map(|(index, slot)| Some((index, &slot.as_ref()?.server)));
        let load = |index: usize, _: &GameServer| {
            self.slots[index].as_ref().and_then(|slot| self.loads[slot.node])
        };
        best(request, &request.selectors[selector], seen, load)
    }

    /// Whether a shape was seen before; it is remembered if not.
    fn comes_again(&mut self, hash: u64) -> bool {
        if let Some(place) = self.seen_once.iter().position(|seen| *seen == hash) {
            self.seen_once.remove(place);
            return true;
        }
        if self.seen_once.len() == REMEMBERED {
            self.seen_once.pop_front();
        }
        self.seen_once.push_back(hash);
        false
    }

    /// Makes a view for a shape, in place of the one not used for longest if there are too many.
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
                view.insert(&slot.server, Place { slot: index, node: slot.node });
            }
        }
        (0..self.loads.len()).for_each(|node| view.settle(node, self.loads[node]));
        match place {
            Some(place) => self.views[place] = view,
            None => self.views.push(view),
        }
        place.unwrap_or(self.views.len() - 1)
    }

    /// Changes a server, which is on `node` afterwards, and moves it to where it then belongs.
    fn change(&mut self, slot: usize, node: usize, change: impl FnOnce(&mut GameServer)) {
        let Some(was) = self.slots[slot].as_ref().map(|slot| slot.node) else { return };
        self.lift(was);
        if node != was {
            self.lift(node);
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
            self.settle(was);
        }
        self.settle(node);
    }

    /// Puts a server into every view whose selector it meets.
    fn enter(&mut self, slot: usize) {
        let Some(held) = &mut self.slots[slot] else { return };
        for (bit, view) in self.views.iter_mut().enumerate() {
            if view.takes(&held.server) {
                held.views |= 1 << bit;
                view.insert(&held.server, Place { slot, node: held.node });
            }
        }
    }

    /// Takes a server out of every view that it is in.
    fn leave(&mut self, slot: usize) {
        let Some(held) = &mut self.slots[slot] else { return };
        while held.views != 0 {
            let bit = held.views.trailing_zeros();
            held.views &= held.views - 1;
            self.views[bit as usize].remove(&held.server, Place { slot, node: held.node });
        }
    }

    /// Takes a node out of the order of nodes, while its load or its servers change.
    fn lift(&mut self, node: usize) {
        self.views.iter_mut().for_each(|view| view.lift(node));
    }

    /// Puts a node back to where it belongs.
    fn settle(&mut self, node: usize) {
        let load = self.loads[node];
        self.views.iter_mut().for_each(|view| view.settle(node, load));
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
