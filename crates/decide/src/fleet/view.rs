//! What a fleet looks like to the decisions about it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::SetCounts;
use crate::gameserver::{Counter, List, Priority};

/// A fleet, as last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fleet {
    /// The namespace it lives in.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// `spec.replicas`.
    pub replicas: i32,
    /// `spec.scheduling`.
    pub scheduling: Scheduling,
    /// `spec.priorities`: which servers are deleted first.
    pub priorities: Vec<Priority>,
    /// What a new server starts with.
    pub template: Template,
    /// `status`, as given.
    pub status: FleetStatus,
    /// Whose results are wanted.
    pub mode: Mode,
}

/// What a new server of a fleet starts with: `spec.template.spec`.
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
    /// The count of all.
    pub count: i64,
    /// The capacity of all.
    pub capacity: i64,
}

/// How servers are spread over nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheduling {
    /// On as few nodes as can be.
    #[default]
    Packed,
    /// Over as many nodes as there are; also what an empty `scheduling` sorts as.
    Distributed,
}

/// Whose results a fleet gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Ours: caps that cap, no flapping, the buffer kept whenever the limits allow, the whole excess removed.
    #[default]
    Repaired,
    /// Upstream's to the letter: the annotation `plimsoll.dev/compat: agones`.
    Agones,
}

/// An autoscaler that names a fleet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Autoscaler {
    /// `metadata.creationTimestamp`; the latest moment there is when it has none.
    pub created_at: Timestamp,
    /// Its name.
    pub name: Arc<str>,
}

impl Autoscaler {
    /// Gives the one of several autoscalers that moves a fleet they all name: the oldest, then the first by name. The others
    /// are refused, so that two never fight.
    pub fn owner<'a>(all: impl IntoIterator<Item = &'a Self>) -> Option<&'a Self> {
        all.into_iter().min()
    }
}
