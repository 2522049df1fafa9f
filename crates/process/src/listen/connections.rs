//! The open connections of a listener, and which of them is closed to make room.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::{Known, Limits};

/// All connections of a listener.
pub(super) struct Connections {
    limits: Limits,
    state: Mutex<State>,
    /// Notifies about a connection that has ended.
    freed: Notify,
}

#[derive(Default)]
struct State {
    last_number: u64,
    /// Every connection, by its number.
    standings: HashMap<u64, Standing>,
    /// Clients that have not authenticated yet: the longest idle first.
    unauthenticated: BTreeMap<u64, Arc<Notify>>,
    /// Clients known by their requests alone, without a request in progress: the longest idle first.
    idle: BTreeMap<u64, Arc<Notify>>,
}

/// Whether a connection may be closed to make room.
#[derive(Clone, Copy)]
enum Standing {
    /// Its client has not authenticated yet.
    Unauthenticated { since: u64 },
    /// Requests are in progress.
    Busy { requests: usize },
    /// It is closed when room is needed.
    Idle { since: u64 },
    /// It stays: its client is authenticated, or its stream is no longer served by the listener.
    Permanent,
}

/// The client of a connection.
#[derive(Clone)]
pub struct Peer {
    one: Arc<One>,
}

struct One {
    all: Arc<Connections>,
    number: u64,
    /// Notifies the connection that it has to close to make room.
    close: Arc<Notify>,
    /// Notifies that the client is authenticated.
    known: Notify,
}

/// Counts as a connection until it is dropped.
pub(super) struct ConnectionGuard(Peer);

/// A request that is under way, until this is dropped.
pub(super) struct UnderWay(Option<Peer>);

impl Connections {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, state: Mutex::default(), freed: Notify::new() })
    }

    /// Waits until there is room for one more connection. Idle ones are closed to make room.
    pub(super) async fn has_room(&self) {
        while !self.state().makes_room(&self.limits) {
            self.freed.notified().await;
        }
    }

    /// Adds a connection.
    pub(super) fn add(self: &Arc<Self>) -> ConnectionGuard {
        let mut state = self.state();
        let (number, close) = (state.number(), Arc::new(Notify::new()));
        state.standings.insert(number, Standing::Unauthenticated { since: number });
        state.unauthenticated.insert(number, Arc::clone(&close));
        drop(state);
        let all = Arc::clone(self);
        ConnectionGuard(Peer { one: Arc::new(One { all, number, close, known: Notify::new() }) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Returns whether there is room. If not, the connection that has been idle for longest is closed, first among those that have not
    /// authenticated.
    fn makes_room(&mut self, limits: &Limits) -> bool {
        let is_full = self.standings.len() >= limits.connections;
        if is_full || self.unauthenticated.len() >= limits.unauthenticated {
            let first = self.unauthenticated.pop_first();
            let closed = first.or_else(|| self.idle.pop_first().filter(|_| is_full));
            if let Some((_, close)) = closed {
                close.notify_one();
            }
        }
        // There is room once that connection has ended.
        !is_full
    }

    /// Changes the standing of a connection.
    fn change(&mut self, one: &One, to: impl FnOnce(&mut Self, Standing) -> Standing) {
        let Some(from) = self.standings.get(&one.number).copied() else { return };
        match from {
            Standing::Unauthenticated { since } => drop(self.unauthenticated.remove(&since)),
            Standing::Idle { since } => drop(self.idle.remove(&since)),
            Standing::Busy { .. } | Standing::Permanent => {}
        }
        let to = to(self, from);
        if let Standing::Idle { since } = to {
            self.idle.insert(since, Arc::clone(&one.close));
        }
        self.standings.insert(one.number, to);
    }
}

impl Peer {
    /// Marks the client as authenticated: its connection is never closed to make room for another.
    pub fn is_known(&self) {
        self.make_permanent();
        self.one.known.notify_one();
    }

    /// Excludes the connection from those that are closed to make room.
    pub(super) fn make_permanent(&self) {
        self.one.all.state().change(&self.one, |_, _| Standing::Permanent);
    }

    /// Waits until the connection has to be closed: to make room, or because its client has not authenticated in time.
    pub(super) async fn closed(&self, authentication_timeout: Duration) {
        tokio::select! {
            () = self.one.close.notified() => return,
            () = tokio::time::sleep(authentication_timeout) => return,
            () = self.one.known.notified() => {}
        }
        self.one.close.notified().await;
    }

    /// Counts a request until the returned guard is dropped.
    pub(super) fn begin_request(&self, known: Known) -> UnderWay {
        if known == Known::ByService {
            return UnderWay(None);
        }
        self.one.all.state().change(&self.one, |_, standing| match standing {
            Standing::Unauthenticated { .. } | Standing::Idle { .. } => {
                Standing::Busy { requests: 1 }
            }
            Standing::Busy { requests } => Standing::Busy { requests: requests + 1 },
            Standing::Permanent => Standing::Permanent,
        });
        self.one.known.notify_one();
        UnderWay(Some(self.clone()))
    }

    fn end_request(&self) {
        self.one.all.state().change(&self.one, |state, standing| match standing {
            Standing::Busy { requests: 0 | 1 } => Standing::Idle { since: state.number() },
            Standing::Busy { requests } => Standing::Busy { requests: requests - 1 },
            Standing::Unauthenticated { .. } | Standing::Idle { .. } | Standing::Permanent => {
                standing
            }
        });
    }
}

impl ConnectionGuard {
    pub(super) fn peer(&self) -> Peer {
        self.0.clone()
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let one = &self.0.one;
        // Out of the order of who goes first, and then out of everything.
        let mut state = one.all.state();
        state.change(one, |_, _| Standing::Permanent);
        state.standings.remove(&one.number);
        drop(state);
        one.all.freed.notify_one();
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(peer) = &self.0 {
            peer.end_request();
        }
    }
}
