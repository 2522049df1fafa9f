//! The index that requests choose from, and the claims on game servers whose writes are in flight.
//!
//! The table follows the cache of game servers and adds what only the allocator knows: the projection of each choice, and the callers
//! that wait for each write. It does no I/O and reads no clock, so that each rule below is a test:
//!
//! - A server that was chosen is projected in the index at once: a Ready one is not chosen again, and one with room for
//!   more is chosen with the room that will be left.
//! - One server has one write in flight. Claims on it that come meanwhile wait, and all that wait share the next write.
//! - An object older than the known one is ignored, wherever it comes from.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cluster::{CachedGameServer, Key, resource_version};
use decide::allocation::{Index, Request};
use decide::gameserver::{GameServer, State};
use jiff::Timestamp;
use tokio::sync::oneshot;

use super::concurrency::Permit;

/// Every game server as it can be chosen, and the claims on them.
#[derive(Default)]
pub(super) struct ClaimTable {
    index: Index,
    servers: HashMap<Key, Entry>,
    /// The nodes that are not ready or gone: their game servers are not chosen, whatever their state.
    unready_nodes: HashSet<Arc<str>>,
}

struct Entry {
    server: Arc<CachedGameServer>,
    in_flight: Option<InFlightWrite>,
    /// A write to it failed without an answer, or was refused: it is not chosen until it is observed again.
    is_withheld: bool,
}

/// A write in flight.
#[derive(Default)]
struct InFlightWrite {
    waiting: Vec<Claim>,
    /// The server was deleted meanwhile.
    is_deleted: bool,
}

/// A request that chose a server, and waits for the outcome.
pub(super) struct Claim {
    pub(super) request: Arc<Request>,
    pub(super) answer: oneshot::Sender<ClaimOutcome>,
    /// The caller's permit to write.
    pub(super) permit: Arc<Permit>,
}

/// The outcome of a claim.
#[derive(Clone, Debug)]
pub(super) enum ClaimOutcome {
    /// The server is allocated to the caller, and is now like this.
    Won(Arc<CachedGameServer>),
    /// Another write was faster: choose again.
    Lost,
    /// The API refused, or did not answer.
    Failed(Arc<kube::Error>),
}

/// A write to be sent: the object that it is decided on, and the claims that share it.
pub(super) struct PendingWrite {
    pub(super) base: Arc<CachedGameServer>,
    pub(super) claims: Vec<Claim>,
}

/// The outcome of a write.
pub(super) enum WriteOutcome {
    /// It succeeded, or another one came first: the server is now like this, and the cache has been told.
    Observed(Arc<CachedGameServer>),
    /// The server no longer exists.
    Gone,
    /// It may have succeeded or not, or never will.
    Unknown,
    /// It was not sent, since no claim was left.
    NotSent,
}

impl ClaimTable {
    /// Takes in a server that the cache or the answer to a write has.
    pub(super) fn observe(&mut self, server: Arc<CachedGameServer>) {
        let key = key(&server.view);
        match self.servers.get_mut(&key) {
            Some(entry) if !is_newer(&server, &entry.server) => {}
            Some(entry) => {
                entry.server = server;
                entry.is_withheld = false;
                match &mut entry.in_flight {
                    // The index keeps the projection until the write is complete.
                    Some(write) => write.is_deleted = false,
                    None => show(&mut self.index, &self.unready_nodes, &entry.server.view),
                }
            }
            None => {
                show(&mut self.index, &self.unready_nodes, &server.view);
                let entry = Entry { server, in_flight: None, is_withheld: false };
                self.servers.insert(key, entry);
            }
        }
    }

    /// Removes a server that is deleted, unless a newer one is known.
    pub(super) fn remove(&mut self, server: &CachedGameServer) {
        let key = key(&server.view);
        let Some(entry) = self.servers.get_mut(&key) else { return };
        if is_newer(&entry.server, server) {
            return;
        }
        match &mut entry.in_flight {
            Some(write) => write.is_deleted = true,
            None => self.forget(&key),
        }
    }

    /// Lets servers be chosen again whose writes had an unknown outcome: a list has shown that they are as they were.
    pub(super) fn restore_withheld(&mut self) {
        for entry in self.servers.values_mut().filter(|entry| entry.is_withheld) {
            entry.is_withheld = false;
            show(&mut self.index, &self.unready_nodes, &entry.server.view);
        }
    }

    /// Notes whether a node is ready. The game servers of one that is not are not chosen until it is ready again; that costs no write, so
    /// that a node that flickers changes nothing else.
    pub(super) fn set_node_ready(&mut self, node: &str, is_ready: bool) {
        let nodes = &mut self.unready_nodes;
        let is_news = if is_ready { nodes.remove(node) } else { nodes.insert(node.into()) };
        if !is_news {
            return;
        }
        if !is_ready {
            self.index.forget_node(node);
        }
        let there = self.servers.values().filter(|entry| *entry.server.view.node == *node);
        // The index keeps the projection of a server that is being written until the write is complete.
        for entry in there.filter(|entry| entry.in_flight.is_none() && !entry.is_withheld) {
            show(&mut self.index, &self.unready_nodes, &entry.server.view);
        }
    }

    /// Finds a server for a claim, passing over the first `skip` that match. Returns the write to send if none is in flight to that
    /// server; otherwise the claim waits for the one that is.
    ///
    /// # Errors
    /// The claim is returned when no server matches.
    pub(super) fn claim(
        &mut self,
        claim: Claim,
        skip: usize,
        now: Timestamp,
    ) -> Result<Option<PendingWrite>, Claim> {
        let Some(key) = self.pick(&claim.request, skip, now) else { return Err(claim) };
        let Some(entry) = self.servers.get_mut(&key) else { return Err(claim) };
        if let Some(write) = &mut entry.in_flight {
            write.waiting.push(claim);
            return Ok(None);
        }
        entry.in_flight = Some(InFlightWrite::default());
        Ok(Some(PendingWrite { base: Arc::clone(&entry.server), claims: vec![claim] }))
    }

    /// Returns the server that a request would get, as it is now.
    pub(super) fn peek(&mut self, request: &Request) -> Option<Arc<CachedGameServer>> {
        let (chosen, _) = self.index.peek(request)?;
        let entry = self.servers.get(&key(chosen))?;
        Some(Arc::clone(&entry.server))
    }

    /// Counts the servers that are not allocated.
    pub(super) fn ready_servers(&self) -> usize {
        let is_ready = |e: &&Entry| e.in_flight.is_none() && e.server.view.state == State::Ready;
        self.servers.values().filter(is_ready).count()
    }

    /// Whether the table has a newer version of a server, or the server is gone.
    pub(super) fn knows_newer(&self, server: &CachedGameServer) -> bool {
        let known = self.servers.get(&key(&server.view));
        known.is_none_or(|known| is_newer(&known.server, server))
    }

    /// Takes in the outcome of a write. Returns the claims that have to choose again, and the next write for those that may stay.
    pub(super) fn complete_write(
        &mut self,
        base: &CachedGameServer,
        outcome: WriteOutcome,
        now: Timestamp,
    ) -> (Vec<Claim>, Option<PendingWrite>) {
        let key = key(&base.view);
        let is_unknown = matches!(outcome, WriteOutcome::Unknown);
        let is_gone = matches!(outcome, WriteOutcome::Gone);
        if let WriteOutcome::Observed(server) = outcome
            && !self.is_deleted(&key)
        {
            self.observe(server);
        }
        let Some(entry) = self.servers.get_mut(&key) else { return (Vec::new(), None) };
        let Some(write) = entry.in_flight.take() else { return (Vec::new(), None) };
        let waiting = write.waiting.into_iter().filter(|claim| !claim.answer.is_closed());
        let is_changed = is_newer(&entry.server, base);
        if write.is_deleted || (is_gone && !is_changed) {
            let waiting = waiting.collect();
            self.forget(&key);
            return (waiting, None);
        }
        if is_unknown && !is_changed {
            entry.is_withheld = true;
            self.index.remove(&key.namespace, &key.name);
            return (waiting.collect(), None);
        }
        let mut view = GameServer::clone(&entry.server.view);
        let (stay, leave): (Vec<_>, Vec<_>) =
            waiting.partition(|claim| join(&claim.request, &mut view, now));
        show(&mut self.index, &self.unready_nodes, &view);
        if stay.is_empty() {
            return (leave, None);
        }
        entry.in_flight = Some(InFlightWrite::default());
        (leave, Some(PendingWrite { base: Arc::clone(&entry.server), claims: stay }))
    }

    /// Whether a server was deleted while it is written.
    fn is_deleted(&self, key: &Key) -> bool {
        let write = self.servers.get(key).and_then(|entry| entry.in_flight.as_ref());
        write.is_some_and(|write| write.is_deleted)
    }

    /// Chooses a server and projects what the request does to it.
    fn pick(&mut self, request: &Request, skip: usize, now: Timestamp) -> Option<Key> {
        let passed = self.pass_over(request, skip);
        let picked = self.index.allocate(request, now);
        let picked = picked.map(|picked| key(picked.server));
        passed.into_iter().for_each(|server| self.index.put(server));
        picked
    }

    /// Takes the first few servers out of the index that a request would get, as long as another that is as good is left.
    fn pass_over(&mut self, request: &Request, skip: usize) -> Vec<GameServer> {
        let mut passed: Vec<GameServer> = Vec::new();
        let mut by = None;
        while passed.len() < skip {
            let found = self.index.peek(request);
            let found = found.map(|(s, by)| (Arc::clone(&s.namespace), Arc::clone(&s.name), by));
            match found {
                Some((namespace, name, selector)) if *by.get_or_insert(selector) == selector => {
                    passed.extend(self.index.remove(&namespace, &name));
                }
                Some(_) | None => break,
            }
        }
        if skip > 0 && self.index.peek(request).map(|(_, selector)| selector) != by {
            passed.pop().into_iter().for_each(|last| self.index.put(last));
        }
        passed
    }

    fn forget(&mut self, key: &Key) {
        self.servers.remove(key);
        self.index.remove(&key.namespace, &key.name);
    }
}

/// Puts a server where it can be chosen, unless its node is not ready.
fn show(index: &mut Index, unready_nodes: &HashSet<Arc<str>>, view: &GameServer) {
    if unready_nodes.contains(&view.node) {
        index.remove(&view.namespace, &view.name);
    } else {
        index.put(view.clone());
    }
}

/// Lets a request join the next write to a server, if the server still matches.
fn join(request: &Request, server: &mut GameServer, now: Timestamp) -> bool {
    let will_do = request.selectors.iter().any(|s| s.takes(&request.namespace, server));
    if will_do {
        decide::allocation::apply(request, server, now);
    }
    will_do
}

fn key(server: &GameServer) -> Key {
    Key { namespace: Arc::clone(&server.namespace), name: Arc::clone(&server.name) }
}

/// Whether `this` was stored after `that`.
fn is_newer(this: &CachedGameServer, that: &CachedGameServer) -> bool {
    resource_version(&this.object.metadata) > resource_version(&that.object.metadata)
}

#[cfg(test)]
mod tests;
