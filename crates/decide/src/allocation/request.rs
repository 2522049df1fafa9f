//! What is asked of an allocation, and what comes of it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::fleet::Scheduling;
use crate::gameserver::{GameServer, Priority, State, Texts};

/// A GameServerAllocation, checked and with its defaults filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The namespace to look in.
    pub namespace: Arc<str>,
    /// What the server must be like: the first selector that any server meets wins over the order of the servers.
    /// `preferred` and `required` arrive here in that order when `selectors` is empty.
    pub selectors: Vec<Selector>,
    /// Which servers are tried first.
    pub priorities: Vec<Priority>,
    /// How servers are chosen over nodes.
    pub scheduling: Scheduling,
    /// Labels to set on the server.
    pub labels: Texts,
    /// Annotations to set on the server.
    pub annotations: Texts,
    /// What to do to its counters.
    pub counters: BTreeMap<Arc<str>, CounterAction>,
    /// What to do to its lists.
    pub lists: BTreeMap<Arc<str>, ListAction>,
    /// Where chance comes from, for Distributed without priorities.
    pub seed: u64,
}

/// One of a request's selectors: all of it must hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selector {
    /// `matchLabels`.
    pub labels: Texts,
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
            labels: Texts::new(),
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
    /// The label is there with one of the values.
    In(Arc<str>, Vec<Arc<str>>),
    /// The label is not there, or has another value.
    NotIn(Arc<str>, Vec<Arc<str>>),
    /// The label is there.
    Exists(Arc<str>),
    /// The label is not there.
    DoesNotExist(Arc<str>),
}

/// Bounds of one counter. A maximum of 0 on the wire is no maximum here.
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

/// Bounds of one list. A maximum of 0 on the wire is no maximum here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ListBounds {
    /// `containsValue`; nothing when it is empty on the wire.
    pub contains: Option<Arc<str>>,
    /// `minAvailable`.
    pub min_available: i64,
    /// `maxAvailable`.
    pub max_available: Option<i64>,
}

/// What to do to one counter: the capacity first.
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
    /// A word that upstream lets in and then only warns about.
    Unknown(Arc<str>),
}

/// What to do to one list: the capacity first, then the additions, then the deletions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListAction {
    /// `capacity`.
    pub capacity: Option<i64>,
    /// `addValues`.
    pub add: Vec<Arc<str>>,
    /// `deleteValues`.
    pub delete: Vec<Arc<str>>,
}

/// A server that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The server after the allocation: state, labels, annotations, counters and lists.
    pub server: GameServer,
    /// Which selector it met.
    pub selector: usize,
    /// Actions that did not apply; the allocation stands all the same.
    pub warnings: Vec<Warning>,
}

/// An action that did not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The server has no such counter.
    NoCounter(Arc<str>),
    /// The server has no such list.
    NoList(Arc<str>),
    /// The counter's action has a name that means nothing.
    UnknownAction(Arc<str>, Arc<str>),
    /// The amount or the capacity of a counter is below 0.
    NegativeCounter(Arc<str>, i64),
    /// The capacity of a list is outside what lists may have.
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
                write!(f, "counter `{key}`: {number} is below 0")
            }
            Self::ListCapacity(key, capacity) => {
                write!(f, "list `{key}`: a capacity of {capacity} is not within 0 and 1000")
            }
        }
    }
}
