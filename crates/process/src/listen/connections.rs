//! Which connections are there, and which one goes when there is no room?

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::{Known, Limits};

/// All connections of a listener.
pub(super) struct Connections {
    limits: Limits,
    state: Mutex<State>,
    /// Tells that a connection has ended.
    freed: Notify,
}

#[derive(Default)]
struct State {
    last_number: u64,
    /// Every connection, by its number.
    standings: HashMap<u64, Standing>,
    /// Clients that are not known yet: the longest silent first.
    strangers: BTreeMap<u64, Arc<Notify>>,
    /// Clients known by their requests alone that have none under way: the longest silent first.
    idle: BTreeMap<u64, Arc<Notify>>,
}

/// What a client may ask of us.
#[derive(Clone, Copy)]
enum Standing {
    /// Nothing: it is not known yet.
    Stranger { since: u64 },
    /// To be answered.
    Busy { requests: usize },
    /// A place for as long as there is room.
    Idle { since: u64 },
    /// A place: who it is, is known; or its stream is no longer served by the listener.
    Settled,
}

/// The client of a connection.
#[derive(Clone)]
pub struct Peer {
    one: Arc<One>,
}

struct One {
    all: Arc<Connections>,
    number: u64,
    /// Tells that the connection has to make room.
    close: Arc<Notify>,
    /// Tells that the client is no stranger any more.
    known: Notify,
}

/// The place of a connection, until this is dropped.
pub(super) struct Place(Peer);

/// A request that is under way, until this is dropped.
pub(super) struct UnderWay(Option<Peer>);

impl Connections {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, state: Mutex::default(), freed: Notify::new() })
    }

    /// Waits until there is room for one more connection; silent ones have to make it.
    pub(super) async fn has_room(&self) {
        while !self.state().makes_room(&self.limits) {
            self.freed.notified().await;
        }
    }

    /// Gives a place to a connection.
    pub(super) fn add(self: &Arc<Self>) -> Place {
        let mut state = self.state();
        let (number, close) = (state.number(), Arc::new(Notify::new()));
        state.standings.insert(number, Standing::Stranger { since: number });
        state.strangers.insert(number, Arc::clone(&close));
        drop(state);
        let all = Arc::clone(self);
        Place(Peer { one: Arc::new(One { all, number, close, known: Notify::new() }) })
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

    /// Tells whether there is room. Where there is none, the client that has been silent for longest has to go: a stranger, or one
    /// that could be anyone.
    fn makes_room(&mut self, limits: &Limits) -> bool {
        let is_full = self.standings.len() >= limits.connections;
        if is_full || self.strangers.len() >= limits.strangers {
            let stranger = self.strangers.pop_first();
            let silent = stranger.or_else(|| self.idle.pop_first().filter(|_| is_full));
            if let Some((_, close)) = silent {
                close.notify_one();
            }
        }
        // The place of who has to go is free once it has gone.
        !is_full
    }

    /// Gives a connection another standing.
    fn change(&mut self, one: &One, to: impl FnOnce(&mut Self, Standing) -> Standing) {
        let Some(from) = self.standings.get(&one.number).copied() else { return };
        match from {
            Standing::Stranger { since } => drop(self.strangers.remove(&since)),
            Standing::Idle { since } => drop(self.idle.remove(&since)),
            Standing::Busy { .. } | Standing::Settled => {}
        }
        let to = to(self, from);
        if let Standing::Idle { since } = to {
            self.idle.insert(since, Arc::clone(&one.close));
        }
        self.standings.insert(one.number, to);
    }
}

impl Peer {
    /// Notes that the service knows who this is: the connection never has to make room for another.
    pub fn is_known(&self) {
        self.settle();
        self.one.known.notify_one();
    }

    /// Notes that the listener has no more to do with the connection.
    pub(super) fn settle(&self) {
        self.one.all.state().change(&self.one, |_, _| Standing::Settled);
    }

    /// Waits until the connection has to go: to make room, or because the client remained a stranger for too long.
    pub(super) async fn closed(&self, stranger_for: Duration) {
        tokio::select! {
            () = self.one.close.notified() => return,
            () = tokio::time::sleep(stranger_for) => return,
            () = self.one.known.notified() => {}
        }
        self.one.close.notified().await;
    }

    /// Notes a request, until what this returns is dropped.
    pub(super) fn begin_request(&self, known: Known) -> UnderWay {
        if known == Known::ByService {
            return UnderWay(None);
        }
        self.one.all.state().change(&self.one, |_, standing| match standing {
            Standing::Stranger { .. } | Standing::Idle { .. } => Standing::Busy { requests: 1 },
            Standing::Busy { requests } => Standing::Busy { requests: requests + 1 },
            Standing::Settled => Standing::Settled,
        });
        self.one.known.notify_one();
        UnderWay(Some(self.clone()))
    }

    fn end_request(&self) {
        self.one.all.state().change(&self.one, |state, standing| match standing {
            Standing::Busy { requests: 0 | 1 } => Standing::Idle { since: state.number() },
            Standing::Busy { requests } => Standing::Busy { requests: requests - 1 },
            Standing::Stranger { .. } | Standing::Idle { .. } | Standing::Settled => standing,
        });
    }
}

impl Place {
    pub(super) fn peer(&self) -> Peer {
        self.0.clone()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let one = &self.0.one;
        // Out of the order of who goes first, and then out of everything.
        let mut state = one.all.state();
        state.change(one, |_, _| Standing::Settled);
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
