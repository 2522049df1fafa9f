//! Game servers as all decisions about fleets, sets and allocations see them.
//!
//! Cheap to keep by the hundred thousand: names are shared, and an empty map allocates nothing.

pub mod counter;
mod lifecycle;
pub mod list;
mod need;
mod occupancy;
pub mod players;
pub mod ports;
mod priority;
pub mod sdk;
mod state;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

pub use counter::Counter;
pub use lifecycle::Event;
pub use list::List;
pub use need::{GameServerObservation, Need, Pod, PodHealth, PodPlacement, next};
pub use occupancy::{NodeLoad, Occupancy};
pub use priority::{First, Measure, Missing, Priority, Rank, Source};
pub use state::State;

/// Labels or annotations.
pub type StringMap = BTreeMap<Arc<str>, Arc<str>>;

/// One game server, as last observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GameServer {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name, unique in the namespace.
    pub name: Arc<str>,
    /// `status.state`.
    pub state: State,
    /// `status.nodeName`; empty until it is scheduled. The empty name is treated like any other.
    pub node: Arc<str>,
    /// `metadata.labels`.
    pub labels: StringMap,
    /// `metadata.annotations`.
    pub annotations: StringMap,
    /// `status.counters`.
    pub counters: BTreeMap<Arc<str>, Counter>,
    /// `status.lists`.
    pub lists: BTreeMap<Arc<str>, List>,
    /// `metadata.creationTimestamp`; the epoch when it has none.
    pub created_at: Timestamp,
    /// Whether `metadata.deletionTimestamp` is set.
    pub has_deletion_timestamp: bool,
    /// The annotation `agones.dev/errored-at`, if it is a valid time.
    pub errored_at: Option<Timestamp>,
    /// The annotation `plimsoll.dev/failed-before`: how many servers failed early in a row before this one replaced them.
    pub failed_before: u32,
    /// Whether it has the annotation `plimsoll.dev/leaving`: its pod is terminating, and it gets no more players.
    pub is_leaving: bool,
    /// Whether it has the annotation `plimsoll.dev/evacuate`: its node is being emptied, so its set replaces it, and it is allocated last.
    pub is_evacuating: bool,
}

impl GameServer {
    /// Creates a server in `state` with defaults for everything else.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>, state: State) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            state,
            node: Arc::from(""),
            labels: StringMap::new(),
            annotations: StringMap::new(),
            counters: BTreeMap::new(),
            lists: BTreeMap::new(),
            created_at: Timestamp::UNIX_EPOCH,
            has_deletion_timestamp: false,
            errored_at: None,
            failed_before: 0,
            is_leaving: false,
            is_evacuating: false,
        }
    }

    /// Returns whether it is terminating: marked for deletion, or in state Shutdown.
    pub fn is_being_deleted(&self) -> bool {
        self.has_deletion_timestamp || self.state == State::Shutdown
    }

    /// Returns whether scale-down may delete it: an Allocated or Reserved one is kept, unless it is being deleted already.
    pub fn is_deletable(&self) -> bool {
        self.has_deletion_timestamp || !self.state.is_in_use()
    }
}
