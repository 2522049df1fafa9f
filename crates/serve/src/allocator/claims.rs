//! The index that requests choose from, and the claims on game servers whose writes are in flight.
//!
//! The table follows the cache of game servers and adds what only the allocator knows: the projection of each choice, and the callers
//! that wait for each write. It does no I/O and reads no clock, so that each rule below can be tested:
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
    /// The last write failed or has an unknown outcome: the server is not chosen until it is observed again.
    is_quarantined: bool,
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
    /// The server is allocated to the caller; this is its current state.
    Won(Arc<CachedGameServer>),
    /// Another write came first: choose again.
    Lost,
    /// The API rejected the write, or did not respond.
    Failed(Arc<kube::Error>),
}

/// A write to be sent: the object that it is decided on, and the claims that share it.
pub(super) struct PendingWrite {
    pub(super) base: Arc<CachedGameServer>,
    pub(super) claims: Vec<Claim>,
}

/// The outcome of a write.
pub(super) enum WriteOutcome {
    /// It succeeded, or another one came first: this is the current server, which the cache has as well.
    Observed(Arc<CachedGameServer>),
    /// The server no longer exists.
    Gone,
    /// It may have succeeded.
    Unknown,
    /// It was not sent, since no claim was left.
    NotSent,
}

impl ClaimTable {
    /// Updates a server from the cache or from the response to a write.
    pub(super) fn observe(&mut self, server: Arc<CachedGameServer>) {
        let key = key(&server.view);
        match self.servers.get_mut(&key) {
            Some(entry) if !is_newer(&server, &entry.server) => {}
            Some(entry) => {
                entry.server = server;
                entry.is_quarantined = false;
                match &mut entry.in_flight {
                    // The index keeps the projection until the write is complete.
                    Some(write) => write.is_deleted = false,
                    None => update_index(&mut self.index, &self.unready_nodes, &entry.server.view),
                }
            }
            None => {
                update_index(&mut self.index, &self.unready_nodes, &server.view);
                let entry = Entry { server, in_flight: None, is_quarantined: false };
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
            None => self.remove_entry(&key),
        }
    }

    /// Lets quarantined servers be chosen again: a list has shown that they are unchanged.
    pub(super) fn release_quarantined(&mut self) {
        for entry in self.servers.values_mut().filter(|entry| entry.is_quarantined) {
            entry.is_quarantined = false;
            update_index(&mut self.index, &self.unready_nodes, &entry.server.view);
        }
    }

    /// Records whether a node is ready. Game servers of an unready node are not chosen until it is ready again. That needs no write, so
    /// a flapping node has no other effect.
    pub(super) fn set_node_ready(&mut self, node: &str, is_ready: bool) {
        let nodes = &mut self.unready_nodes;
        let has_changed = if is_ready { nodes.remove(node) } else { nodes.insert(node.into()) };
        if !has_changed {
            return;
        }
        if !is_ready {
            self.index.forget_node(node);
        }
        let on_node = self.servers.values().filter(|entry| *entry.server.view.node == *node);
        // The index keeps the projection of a server that is being written until the write is complete.
        for entry in on_node.filter(|entry| entry.in_flight.is_none() && !entry.is_quarantined) {
            update_index(&mut self.index, &self.unready_nodes, &entry.server.view);
        }
    }

    /// Finds a server for a claim, skipping the first `skip` that match. Returns the write to send if none is in flight to that
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
    pub(super) fn has_newer(&self, server: &CachedGameServer) -> bool {
        let known = self.servers.get(&key(&server.view));
        known.is_none_or(|known| is_newer(&known.server, server))
    }

    /// Completes a write. Returns the claims that have to choose again, and the next write for those that still match.
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
            self.remove_entry(&key);
            return (waiting, None);
        }
        if is_unknown && !is_changed {
            entry.is_quarantined = true;
            self.index.remove(&key.namespace, &key.name);
            return (waiting.collect(), None);
        }
        let mut view = GameServer::clone(&entry.server.view);
        let (stay, leave): (Vec<_>, Vec<_>) =
            waiting.partition(|claim| join(&claim.request, &mut view, now));
        update_index(&mut self.index, &self.unready_nodes, &view);
        if stay.is_empty() {
            return (leave, None);
        }
        entry.in_flight = Some(InFlightWrite::default());
        (leave, Some(PendingWrite { base: Arc::clone(&entry.server), claims: stay }))
    }

    /// Whether a server was deleted while a write to it is in flight.
    fn is_deleted(&self, key: &Key) -> bool {
        let write = self.servers.get(key).and_then(|entry| entry.in_flight.as_ref());
        write.is_some_and(|write| write.is_deleted)
    }

    /// Chooses a server and projects what the request does to it.
    fn pick(&mut self, request: &Request, skip: usize, now: Timestamp) -> Option<Key> {
        let skipped = self.skip_first(request, skip);
        let picked = self.index.allocate(request, now);
        let picked = picked.map(|picked| key(picked.server));
        skipped.into_iter().for_each(|server| self.index.put(server));
        picked
    }

    /// Removes the first servers that match a request from the index, as long as another one matches the same selector.
    fn skip_first(&mut self, request: &Request, skip: usize) -> Vec<GameServer> {
        let mut skipped: Vec<GameServer> = Vec::new();
        let mut by = None;
        while skipped.len() < skip {
            let found = self.index.peek(request);
            let found = found.map(|(s, by)| (Arc::clone(&s.namespace), Arc::clone(&s.name), by));
            match found {
                Some((namespace, name, selector)) if *by.get_or_insert(selector) == selector => {
                    skipped.extend(self.index.remove(&namespace, &name));
                }
                Some(_) | None => break,
            }
        }
        if skip > 0 && self.index.peek(request).map(|(_, selector)| selector) != by {
            skipped.pop().into_iter().for_each(|last| self.index.put(last));
        }
        skipped
    }

    fn remove_entry(&mut self, key: &Key) {
        self.servers.remove(key);
        self.index.remove(&key.namespace, &key.name);
    }
}

/// Adds a server to the index, unless its node is not ready.
fn update_index(index: &mut Index, unready_nodes: &HashSet<Arc<str>>, view: &GameServer) {
    if unready_nodes.contains(&view.node) {
        index.remove(&view.namespace, &view.name);
    } else {
        index.put(view.clone());
    }
}

/// Lets a request join the next write to a server, if the server still matches.
fn join(request: &Request, server: &mut GameServer, now: Timestamp) -> bool {
    let matches = request.selectors.iter().any(|s| s.takes(&request.namespace, server));
    if matches {
        decide::allocation::apply(request, server, now);
    }
    matches
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
