//! What a game server looks like to every decision about fleets, sets and allocations.
//!
//! A view is cheap to keep by the hundred thousand: names are shared, and an absent map costs nothing.

pub mod counter;
mod lifecycle;
pub mod list;
mod occupancy;
pub mod players;
pub mod ports;
mod priority;
pub mod sdk;
mod state;
mod turn;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

pub use counter::Counter;
pub use lifecycle::Event;
pub use list::List;
pub use occupancy::{NodeLoad, Occupancy};
pub use priority::{First, Measure, Missing, Priority, Rank, Source};
pub use state::State;
pub use turn::{Need, Place, Pod, PodHealth, Seen, next};

/// Labels or annotations.
pub type Texts = BTreeMap<Arc<str>, Arc<str>>;

/// One game server, as last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GameServer {
    /// The namespace it lives in.
    pub namespace: Arc<str>,
    /// Its name, unique in the namespace.
    pub name: Arc<str>,
    /// `status.state`.
    pub state: State,
    /// `status.nodeName`; empty until it is scheduled, and the empty name is a node like any other.
    pub node: Arc<str>,
    /// `metadata.labels`.
    pub labels: Texts,
    /// `metadata.annotations`.
    pub annotations: Texts,
    /// `status.counters`.
    pub counters: BTreeMap<Arc<str>, Counter>,
    /// `status.lists`.
    pub lists: BTreeMap<Arc<str>, List>,
    /// `metadata.creationTimestamp`; the epoch when it has none.
    pub created_at: Timestamp,
    /// Whether `metadata.deletionTimestamp` is set.
    pub has_deletion_mark: bool,
    /// The annotation `agones.dev/errored-at`, when it is there and is a moment.
    pub errored_at: Option<Timestamp>,
    /// The annotation `plimsoll.dev/failed-before`: how many in a row failed soon after they were made, before this one took their place.
    pub failed_before: u32,
    /// Whether it has the annotation `plimsoll.dev/leaving`: its pod is going, and no more players are sent to it.
    pub is_leaving: bool,
}

impl GameServer {
    /// Makes a server in `state` with nothing else known about it.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>, state: State) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            state,
            node: Arc::from(""),
            labels: Texts::new(),
            annotations: Texts::new(),
            counters: BTreeMap::new(),
            lists: BTreeMap::new(),
            created_at: Timestamp::UNIX_EPOCH,
            has_deletion_mark: false,
            errored_at: None,
            failed_before: 0,
            is_leaving: false,
        }
    }

    /// Whether it is on its way out: marked for deletion, or told to shut down.
    pub fn is_being_deleted(&self) -> bool {
        self.has_deletion_mark || self.state == State::Shutdown
    }

    /// Whether scaling down may name it: players may be on an Allocated or Reserved one, until someone deletes it by hand.
    pub fn is_deletable(&self) -> bool {
        self.has_deletion_mark || !self.state.is_in_use()
    }
}
