//! The observed state of a fleet.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::SetCounts;
use crate::gameserver::{Counter, List, Occupancy, Priority};

/// A fleet, as last observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fleet {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// `spec.replicas`.
    pub replicas: i32,
    /// `spec.scheduling`.
    pub scheduling: Scheduling,
    /// `spec.priorities`: which servers are deleted first.
    pub priorities: Vec<Priority>,
    /// The initial values of a new server.
    pub template: Template,
    /// Its `status`.
    pub status: FleetStatus,
    /// The compatibility mode.
    pub mode: Mode,
}

/// The initial values of a fleet's new servers: `spec.template.spec`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    /// Its counters.
    pub counters: BTreeMap<Arc<str>, Counter>,
    /// Its lists.
    pub lists: BTreeMap<Arc<str>, List>,
}

/// `status` of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetStatus {
    /// Servers that are not being deleted.
    pub replicas: i32,
    /// Those in state Ready.
    pub ready: i32,
    /// Those in state Reserved.
    pub reserved: i32,
    /// Those in state Allocated.
    pub allocated: i32,
    /// Counters, summed over the servers.
    pub counters: BTreeMap<Arc<str>, Aggregate>,
    /// Lists, summed over the servers.
    pub lists: BTreeMap<Arc<str>, Aggregate>,
}

/// `status` of a GameServerSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetStatus {
    /// Its servers by state.
    pub counts: SetCounts,
    /// Counters, summed over the servers.
    pub counters: BTreeMap<Arc<str>, Aggregate>,
    /// Lists, summed over the servers.
    pub lists: BTreeMap<Arc<str>, Aggregate>,
}

/// One counter or list, summed over servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aggregate {
    /// The count of Allocated servers only.
    pub allocated_count: i64,
    /// The capacity of Allocated servers only.
    pub allocated_capacity: i64,
    /// The count of all servers.
    pub count: i64,
    /// The capacity of all servers.
    pub capacity: i64,
}

/// How servers are distributed over nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheduling {
    /// On as few nodes as possible.
    #[default]
    Packed,
    /// Over as many nodes as possible; also the meaning of an empty `scheduling`.
    Distributed,
}

/// The compatibility mode of a fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Ours: maximums hold, sizes do not flap, the buffer is kept whenever the limits allow, the whole excess is removed.
    #[default]
    Repaired,
    /// Exactly as Agones: the annotation `plimsoll.dev/compat: agones`.
    Agones,
}

impl Mode {
    /// Returns the load of nodes as deletions are ordered by it: Agones knows no unneeded nodes.
    pub(super) fn ranking(self, nodes: &Occupancy) -> Cow<'_, Occupancy> {
        match self {
            Self::Repaired => Cow::Borrowed(nodes),
            Self::Agones => nodes.all_needed(),
        }
    }
}

/// An autoscaler that targets a fleet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Autoscaler {
    /// `metadata.creationTimestamp`; the latest possible time when it has none.
    pub created_at: Timestamp,
    /// Its name.
    pub name: Arc<str>,
}

impl Autoscaler {
    /// Returns the owner of a fleet among several autoscalers: the oldest, then the first by name. The others are refused, so that
    /// two never compete.
    pub fn owner<'a>(all: impl IntoIterator<Item = &'a Self>) -> Option<&'a Self> {
        all.into_iter().min()
    }
}
