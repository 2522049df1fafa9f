//! Who has which game server, as far as this process knows?
//!
//! The books hold every server as last seen, the index to choose from, and who waits for which write. They do no I/O and
//! know no time, so that each rule below is a test:
//!
//! - A server that was chosen is projected in the index at once: a Ready one is not chosen again, and one with room for
//!   more is chosen with the room that will be left.
//! - One server has one write under way. Who chooses it meanwhile waits, and all who wait share the next write.
//! - What is older than what is known is not believed, wherever it comes from.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use decide::allocation::{Index, Request};
use decide::gameserver;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::sync::oneshot;

use super::gate::Permit;
use super::server::{Server, is_newer};

/// Everything this process knows of game servers.
#[derive(Default)]
pub(super) struct Books {
    index: Index,
    servers: HashMap<Key, Entry>,
    /// The servers that a list under way has shown so far.
    listed: Option<HashSet<Key>>,
    /// The nodes that are not ready or gone: what runs there is not chosen, whatever its state says.
    down: HashSet<Arc<str>>,
}

/// Namespace and name.
type Key = Arc<str>;

struct Entry {
    server: Arc<Server>,
    flight: Option<Flight>,
    /// A write to it failed without an answer, or was refused: it is not chosen until it is seen again.
    is_withheld: bool,
}

/// A write under way.
#[derive(Default)]
struct Flight {
    waiting: Vec<Claim>,
    /// The server was deleted meanwhile.
    is_gone: bool,
}

/// A request that chose a server, and waits to hear whether it got it.
pub(super) struct Claim {
    pub(super) request: Arc<Request>,
    pub(super) answer: oneshot::Sender<Verdict>,
    /// The caller's place among the writes under way.
    pub(super) permit: Arc<Permit>,
}

/// What a claim hears.
#[derive(Clone, Debug)]
pub(super) enum Verdict {
    /// The server is the caller's, as it is now.
    Won(Arc<Server>),
    /// Someone else was faster: choose again.
    Lost,
    /// The API refused, or did not answer.
    Failed(Arc<kube::Error>),
}

/// A write to be sent: what it is decided on, and who shares it.
pub(super) struct Flown {
    pub(super) base: Arc<Server>,
    pub(super) claims: Vec<Claim>,
}

/// What came of a write.
pub(super) enum Landing {
    /// It happened, or someone else's did: the server is now like this.
    Seen(Arc<Server>),
    /// There is no such server any more.
    Gone,
    /// It may or may not have happened, or never will.
    Unknown,
    /// It was not sent, since nobody waited for it.
    NotSent,
}

impl Books {
    /// Takes in a server that a watch or a write has shown.
    pub(super) fn see(&mut self, server: impl Into<Arc<Server>>) {
        let server = server.into();
        let key = key(server.namespace(), server.name());
        match self.servers.get_mut(&key) {
            Some(entry) if !server.is_newer_than(&entry.server) => {}
            Some(entry) => {
                entry.server = server;
                entry.is_withheld = false;
                match &mut entry.flight {
                    // The index keeps the projection until the write lands.
                    Some(flight) => flight.is_gone = false,
                    None => show(&mut self.index, &self.down, entry.server.view()),
                }
            }
            None => {
                show(&mut self.index, &self.down, server.view());
                let entry = Entry { server, flight: None, is_withheld: false };
                self.servers.insert(key, entry);
            }
        }
    }

    /// Takes out a server that a watch has shown to be gone.
    pub(super) fn see_gone(&mut self, server: Server) {
        let key = key(server.namespace(), server.name());
        let Some(entry) = self.servers.get_mut(&key) else { return };
        if entry.server.is_newer_than(&server) {
            return;
        }
        match &mut entry.flight {
            Some(flight) => {
                flight.is_gone = true;
                entry.server = Arc::new(server);
            }
            None => self.forget(&key),
        }
    }

    /// Starts to compare with a new list. Until it is complete, what was known stays known.
    pub(super) fn start_list(&mut self) {
        self.listed = Some(HashSet::new());
    }

    /// Takes in a server of the list.
    pub(super) fn see_listed(&mut self, server: Server) {
        let key = key(server.namespace(), server.name());
        if let Some(entry) = self.servers.get_mut(&key)
            && entry.is_withheld
            && !entry.server.is_newer_than(&server)
        {
            entry.is_withheld = false;
            show(&mut self.index, &self.down, entry.server.view());
        }
        if let Some(listed) = &mut self.listed {
            listed.insert(key);
        }
        self.see(server);
    }

    /// Forgets what the list did not show.
    pub(super) fn end_list(&mut self) {
        let Some(listed) = self.listed.take() else { return };
        let gone: Vec<Key> =
            self.servers.keys().filter(|key| !listed.contains(*key)).cloned().collect();
        for key in gone {
            match self.servers.get_mut(&key).and_then(|entry| entry.flight.as_mut()) {
                Some(flight) => flight.is_gone = true,
                None => self.forget(&key),
            }
        }
    }

    /// Takes note of how a node is. What runs on one that is down is not chosen until it is up again; that costs no write, so that a node
    /// that flickers changes nothing else.
    pub(super) fn see_node(&mut self, node: &str, is_up: bool) {
        let is_news = if is_up { self.down.remove(node) } else { self.down.insert(node.into()) };
        if !is_news {
            return;
        }
        if !is_up {
            self.index.forget_node(node);
        }
        let there = self.servers.values().filter(|entry| entry.server.status.node_name == *node);
        // The index keeps the projection of a server that is being written until the write lands.
        for entry in there.filter(|entry| entry.flight.is_none() && !entry.is_withheld) {
            show(&mut self.index, &self.down, entry.server.view());
        }
    }

    /// Finds a server for a claim, passing over the first `skip` that would do. Gives the write to send when none is under
    /// way to that server; otherwise the claim waits for the one that is.
    ///
    /// # Errors
    /// The claim is given back when no server will do.
    pub(super) fn claim(
        &mut self,
        claim: Claim,
        skip: usize,
        now: Timestamp,
    ) -> Result<Option<Flown>, Claim> {
        let Some(key) = self.pick(&claim.request, skip, now) else { return Err(claim) };
        let Some(entry) = self.servers.get_mut(&key) else { return Err(claim) };
        if let Some(flight) = &mut entry.flight {
            flight.waiting.push(claim);
            return Ok(None);
        }
        entry.flight = Some(Flight::default());
        Ok(Some(Flown { base: Arc::clone(&entry.server), claims: vec![claim] }))
    }

    /// Gives the server that a request would get, as it is now.
    pub(super) fn peek(&mut self, request: &Request) -> Option<Arc<Server>> {
        let (chosen, _) = self.index.peek(request)?;
        let entry = self.servers.get(&key(&chosen.namespace, &chosen.name))?;
        Some(Arc::clone(&entry.server))
    }

    /// Counts the servers that nobody has.
    pub(super) fn ready_servers(&self) -> usize {
        let is_ready = |e: &&Entry| e.flight.is_none() && e.server.status.state == "Ready";
        self.servers.values().filter(is_ready).count()
    }

    /// Whether a server is known as it is here, or newer.
    pub(super) fn knows(&self, metadata: &ObjectMeta) -> bool {
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let known = self.servers.get(&key(namespace, metadata.name.as_deref().unwrap_or_default()));
        known.is_some_and(|known| !is_newer(metadata, &known.server.metadata))
    }

    /// Whether more is known of a server than this.
    pub(super) fn knows_newer(&self, server: &Server) -> bool {
        let known = self.servers.get(&key(server.namespace(), server.name()));
        known.is_none_or(|known| known.server.is_newer_than(server))
    }

    /// Notes what came of a write. Gives those who must choose again, and the next write for those who may stay.
    pub(super) fn land(
        &mut self,
        base: &Server,
        landing: Landing,
        now: Timestamp,
    ) -> (Vec<Claim>, Option<Flown>) {
        let key = key(base.namespace(), base.name());
        let is_unknown = matches!(landing, Landing::Unknown);
        let is_gone = matches!(landing, Landing::Gone);
        if let Landing::Seen(server) = landing {
            self.see(server);
        }
        let Some(entry) = self.servers.get_mut(&key) else { return (Vec::new(), None) };
        let Some(flight) = entry.flight.take() else { return (Vec::new(), None) };
        let waiting = flight.waiting.into_iter().filter(|claim| !claim.answer.is_closed());
        let is_fresh = entry.server.is_newer_than(base);
        if flight.is_gone || (is_gone && !is_fresh) {
            let waiting = waiting.collect();
            self.forget(&key);
            return (waiting, None);
        }
        if is_unknown && !is_fresh {
            entry.is_withheld = true;
            self.index.remove(base.namespace(), base.name());
            return (waiting.collect(), None);
        }
        let mut view = entry.server.view();
        let (stay, leave): (Vec<_>, Vec<_>) =
            waiting.partition(|claim| join(&claim.request, &mut view, now));
        show(&mut self.index, &self.down, view);
        if stay.is_empty() {
            return (leave, None);
        }
        entry.flight = Some(Flight::default());
        (leave, Some(Flown { base: Arc::clone(&entry.server), claims: stay }))
    }

    /// Chooses a server and projects what the request does to it.
    fn pick(&mut self, request: &Request, skip: usize, now: Timestamp) -> Option<Key> {
        let passed = self.pass_over(request, skip);
        let picked = self.index.allocate(request, now);
        let picked = picked.map(|p| key(&p.server.namespace, &p.server.name));
        passed.into_iter().for_each(|server| self.index.put(server));
        picked
    }

    /// Takes out the first few servers that a request would get, as long as another that is as good is left.
    fn pass_over(&mut self, request: &Request, skip: usize) -> Vec<gameserver::GameServer> {
        let mut passed: Vec<gameserver::GameServer> = Vec::new();
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
        if let Some(entry) = self.servers.remove(key) {
            self.index.remove(entry.server.namespace(), entry.server.name());
        }
    }
}

/// Puts a server where it can be chosen, unless its node is down.
fn show(index: &mut Index, down: &HashSet<Arc<str>>, view: gameserver::GameServer) {
    if down.contains(&view.node) {
        index.remove(&view.namespace, &view.name);
    } else {
        index.put(view);
    }
}

/// Lets a request join the next write to a server, if the server still is what it asked for.
fn join(request: &Request, server: &mut gameserver::GameServer, now: Timestamp) -> bool {
    let will_do = request.selectors.iter().any(|s| s.takes(&request.namespace, server));
    if will_do {
        decide::allocation::apply(request, server, now);
    }
    will_do
}

fn key(namespace: &str, name: &str) -> Key {
    [namespace, "/", name].concat().into()
}

#[cfg(test)]
mod tests;
