//! An allocation request and its result.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::fleet::Scheduling;
use crate::gameserver::{GameServer, Priority, State, StringMap};

/// A validated GameServerAllocation with its defaults filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The namespace to allocate from.
    pub namespace: Arc<str>,
    /// Alternatives: the first selector that any server matches takes precedence over the order of the servers.
    /// `preferred` and `required` are converted to this list in that order when `selectors` is empty.
    pub selectors: Vec<Selector>,
    /// The order in which matching servers are tried.
    pub priorities: Vec<Priority>,
    /// How servers are distributed over nodes.
    pub scheduling: Scheduling,
    /// Labels to set on the server.
    pub labels: StringMap,
    /// Annotations to set on the server.
    pub annotations: StringMap,
    /// Actions on its counters.
    pub counters: BTreeMap<Arc<str>, CounterAction>,
    /// Actions on its lists.
    pub lists: BTreeMap<Arc<str>, ListAction>,
    /// The seed of the random choice, for Distributed without priorities.
    pub seed: u64,
}

/// One of a request's selectors: a server must meet all of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selector {
    /// `matchLabels`.
    pub labels: StringMap,
    /// `matchExpressions`.
    pub expressions: Vec<Requirement>,
    /// `gameServerState`: Ready or Allocated.
    pub state: State,
    /// Bounds of counters, which must exist.
    pub counters: BTreeMap<Arc<str>, CounterBounds>,
    /// Bounds of lists, which must exist.
    pub lists: BTreeMap<Arc<str>, ListBounds>,
}

impl Default for Selector {
    /// Matches every Ready server.
    fn default() -> Self {
        Self {
            labels: StringMap::new(),
            expressions: Vec::new(),
            state: State::Ready,
            counters: BTreeMap::new(),
            lists: BTreeMap::new(),
        }
    }
}

/// One of a selector's `matchExpressions`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Requirement {
    /// The label exists with one of the values.
    In(Arc<str>, Vec<Arc<str>>),
    /// The label does not exist, or has another value.
    NotIn(Arc<str>, Vec<Arc<str>>),
    /// The label exists.
    Exists(Arc<str>),
    /// The label does not exist.
    DoesNotExist(Arc<str>),
}

/// Bounds of one counter. A maximum of 0 in the API means no maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CounterBounds {
    /// `minCount`.
    pub min_count: i64,
    /// `maxCount`.
    pub max_count: Option<i64>,
    /// `minAvailable`.
    pub min_available: i64,
    /// `maxAvailable`.
    pub max_available: Option<i64>,
}

/// Bounds of one list. A maximum of 0 in the API means no maximum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ListBounds {
    /// `containsValue`; `None` when it is empty.
    pub contains: Option<Arc<str>>,
    /// `minAvailable`.
    pub min_available: i64,
    /// `maxAvailable`.
    pub max_available: Option<i64>,
}

/// An action on one counter; the capacity is set first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterAction {
    /// `capacity`.
    pub capacity: Option<i64>,
    /// `action` and `amount`.
    pub change: Option<(CounterVerb, i64)>,
}

/// `action` of a counter action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterVerb {
    /// Count up, to the capacity at most.
    Increment,
    /// Count down, to 0 at most.
    Decrement,
    /// An unknown action, which Agones accepts and warns about.
    Unknown(Arc<str>),
}

/// An action on one list: the capacity first, then the additions, then the deletions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListAction {
    /// `capacity`.
    pub capacity: Option<i64>,
    /// `addValues`.
    pub add: Vec<Arc<str>>,
    /// `deleteValues`.
    pub delete: Vec<Arc<str>>,
}

/// The result of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The server after the allocation: state, labels, annotations, counters and lists.
    pub server: GameServer,
    /// The index of the selector that it matched.
    pub selector: usize,
    /// Actions that did not apply; the allocation succeeded nevertheless.
    pub warnings: Vec<Warning>,
}

/// An action that did not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The server has no such counter.
    NoCounter(Arc<str>),
    /// The server has no such list.
    NoList(Arc<str>),
    /// The counter action is unknown.
    UnknownAction(Arc<str>, Arc<str>),
    /// The amount or the capacity of a counter is negative.
    NegativeCounter(Arc<str>, i64),
    /// The capacity of a list is out of range.
    ListCapacity(Arc<str>, i64),
}

impl crate::Reason for Warning {
    fn code(&self) -> &'static str {
        match self {
            Self::NoCounter(_) | Self::UnknownAction(..) | Self::NegativeCounter(..) => {
                "CounterActionError"
            }
            Self::NoList(_) | Self::ListCapacity(..) => "ListActionError",
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCounter(key) => write!(f, "the server has no counter `{key}`"),
            Self::NoList(key) => write!(f, "the server has no list `{key}`"),
            Self::UnknownAction(key, action) => {
                write!(f, "counter `{key}`: `{action}` is neither Increment nor Decrement")
            }
            Self::NegativeCounter(key, number) => {
                write!(f, "counter `{key}`: {number} is negative")
            }
            Self::ListCapacity(key, capacity) => {
                write!(f, "list `{key}`: capacity {capacity} is not between 0 and 1000")
            }
        }
    }
}
