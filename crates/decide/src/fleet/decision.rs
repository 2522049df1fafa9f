//! What was decided about a fleet's size, and why.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

/// What to do about a fleet's size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// `spec.replicas` before.
    pub from: i32,
    /// The size to have, or why the fleet is left as it is.
    pub outcome: Result<Size, Refusal>,
    /// Why the size is what it is, in the order in which it was found.
    pub reasons: Vec<Reason>,
    /// The moment at which time alone could change the answer.
    pub wake_at: Option<Timestamp>,
}

/// A size, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// The new `spec.replicas`.
    pub to: i32,
    /// Whether a limit kept the answer from what was wanted.
    pub limited: bool,
    /// Which policy gave the answer: `status.lastAppliedPolicy`.
    pub applied: Applied,
}

/// Which policy gave an answer. `Display` gives the text of `status.lastAppliedPolicy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The autoscaler's own policy, of this type.
    Policy(&'static str),
    /// An entry of the autoscaler's chain.
    Link {
        /// The entry's id.
        id: Arc<str>,
        /// The entry's own type.
        policy: &'static str,
    },
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(name) => f.write_str(name),
            Self::Link { id, policy } => write!(f, "Chain:{id}:{policy}"),
        }
    }
}

/// Why a policy has no answer. The fleet is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An older autoscaler moves this fleet already.
    Owned {
        /// That autoscaler's name.
        by: Arc<str>,
    },
    /// It is not time for the schedule.
    Inactive,
    /// The fleet's template lacks the counter or list.
    NotInTemplate {
        /// `Counter` or `List`.
        policy: &'static str,
        /// The name that was looked for.
        key: Arc<str>,
    },
    /// The fleet's status does not have the counter or list yet.
    NotInStatus {
        /// `Counter` or `List`.
        policy: &'static str,
        /// The name that was looked for.
        key: Arc<str>,
    },
    /// A new server would bring no room, so no number of servers is enough.
    NoRoomPerServer {
        /// `Counter` or `List`.
        policy: &'static str,
        /// The counter's or list's name.
        key: Arc<str>,
    },
    /// There is no reply from the webhook or Wasm module.
    NoReply {
        /// `Webhook` or `Wasm`.
        policy: &'static str,
    },
    /// The webhook or Wasm module gave no usable answer.
    ReplyFailed {
        /// `Webhook` or `Wasm`.
        policy: &'static str,
        /// What went wrong.
        why: Arc<str>,
    },
    /// The chain has no entry.
    EmptyChain,
    /// The autoscaler cannot be read, which only one can be that was stored before it was checked.
    Unreadable {
        /// The fields that cannot be read, and what was expected there.
        why: Arc<str>,
    },
}

impl crate::Reason for Refusal {
    fn code(&self) -> &'static str {
        match self {
            Self::Owned { .. } => "OwnedByAnother",
            Self::Inactive => "ScheduleInactive",
            Self::NotInTemplate { .. } => "KeyNotInTemplate",
            Self::NotInStatus { .. } => "KeyNotInStatus",
            Self::NoRoomPerServer { .. } => "NoRoomPerServer",
            Self::NoReply { .. } => "NoReply",
            Self::ReplyFailed { .. } => "ReplyFailed",
            Self::EmptyChain => "EmptyChain",
            Self::Unreadable { .. } => "Unreadable",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owned { by } => write!(f, "the older autoscaler `{by}` moves this fleet"),
            Self::Inactive => f.write_str("it is not time for the schedule"),
            Self::NotInTemplate { policy, key } => {
                write!(f, "{} `{key}` is not in the fleet's template", policy.to_lowercase())
            }
            Self::NotInStatus { policy, key } => {
                write!(f, "{} `{key}` is not in the fleet's status yet", policy.to_lowercase())
            }
            Self::NoRoomPerServer { policy, key } => {
                write!(f, "a new server brings no room in {} `{key}`", policy.to_lowercase())
            }
            Self::NoReply { policy } => write!(f, "no reply from the {}", called(policy)),
            Self::ReplyFailed { policy, why } => write!(f, "the {} failed: {why}", called(policy)),
            Self::EmptyChain => f.write_str("the chain has no entry"),
            Self::Unreadable { why } => write!(f, "the autoscaler cannot be read: {why}"),
        }
    }
}

fn called(policy: &str) -> &'static str {
    if policy == "Wasm" { "Wasm module" } else { "webhook" }
}

/// Why a size is what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Fewer spare servers, or less room, than wanted.
    BufferShort {
        /// What is spare now.
        spare: i64,
        /// What should be.
        wanted: i64,
    },
    /// Just as much to spare as wanted.
    BufferKept {
        /// What is spare now.
        spare: i64,
    },
    /// More to spare than wanted.
    BufferAmple {
        /// What is spare now.
        spare: i64,
        /// What should be.
        wanted: i64,
    },
    /// The policy's minimum held the size up.
    AtMinimum {
        /// What was wanted.
        asked: i64,
        /// The minimum.
        min: i64,
    },
    /// The policy's maximum held the size down.
    AtMaximum {
        /// What was wanted.
        asked: i64,
        /// The maximum.
        max: i64,
    },
    /// One server has more than the policy's maximum, and one is allowed all the same.
    OneServer {
        /// What one server has.
        capacity: i64,
        /// The maximum.
        max: i64,
    },
    /// Servers that are Allocated or Reserved hold the size up.
    InUse {
        /// How many there are.
        servers: i32,
    },
    /// A percentage of nothing: one server, as upstream answers.
    NothingAllocated,
    /// The webhook or Wasm module gave the size.
    Replied {
        /// `Webhook` or `Wasm`.
        policy: &'static str,
    },
    /// The webhook or Wasm module asked for no change.
    RepliedKeep {
        /// `Webhook` or `Wasm`.
        policy: &'static str,
    },
    /// An earlier entry of the chain had no answer.
    Skipped {
        /// The entry's id.
        id: Arc<str>,
        /// Why it had none.
        because: Box<Refusal>,
    },
    /// The schedule holds now.
    Active,
    /// No schedule holds now, so the size stays.
    Inactive,
    /// A larger size was wanted lately, so the fleet does not shrink yet.
    Settling {
        /// What is wanted now.
        asked: i32,
        /// The moment from which it may be smaller.
        until: Timestamp,
    },
}

impl Reason {
    /// Says how what is spare compares with what is wanted.
    pub(super) fn buffer(spare: i64, wanted: i64) -> Self {
        match spare.cmp(&wanted) {
            Ordering::Less => Self::BufferShort { spare, wanted },
            Ordering::Equal => Self::BufferKept { spare },
            Ordering::Greater => Self::BufferAmple { spare, wanted },
        }
    }
}

impl crate::Reason for Reason {
    fn code(&self) -> &'static str {
        match self {
            Self::BufferShort { .. } => "BufferShort",
            Self::BufferKept { .. } => "BufferKept",
            Self::BufferAmple { .. } => "BufferAmple",
            Self::AtMinimum { .. } => "AtMinimum",
            Self::AtMaximum { .. } => "AtMaximum",
            Self::OneServer { .. } => "OneServer",
            Self::InUse { .. } => "InUse",
            Self::NothingAllocated => "NothingAllocated",
            Self::Replied { .. } => "Replied",
            Self::RepliedKeep { .. } => "RepliedKeep",
            Self::Skipped { .. } => "Skipped",
            Self::Active => "ScheduleActive",
            Self::Inactive => "ScheduleInactive",
            Self::Settling { .. } => "Settling",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BufferShort { spare, wanted } | Self::BufferAmple { spare, wanted } => {
                write!(f, "{spare} of {wanted} wanted spare")
            }
            Self::BufferKept { spare } => write!(f, "{spare} spare, as wanted"),
            Self::AtMinimum { asked, min } => write!(f, "asked for {asked}, the minimum is {min}"),
            Self::AtMaximum { asked, max } => write!(f, "asked for {asked}, the maximum is {max}"),
            Self::OneServer { capacity, max } => {
                write!(f, "one server has {capacity}, the maximum is {max}: one is allowed")
            }
            Self::InUse { servers } => write!(f, "{servers} servers are Allocated or Reserved"),
            Self::NothingAllocated => f.write_str("nothing is allocated to take a percentage of"),
            Self::Replied { policy } => write!(f, "the {} gave the size", called(policy)),
            Self::RepliedKeep { policy } => write!(f, "the {} wants no change", called(policy)),
            Self::Skipped { id, because } => write!(f, "entry `{id}` has no answer: {because}"),
            Self::Active => f.write_str("it is time for the schedule"),
            Self::Inactive => f.write_str("it is not time for any schedule, so the size stays"),
            Self::Settling { asked, until } => {
                write!(f, "{asked} would do; more was wanted lately, so it stays until {until:.0}")
            }
        }
    }
}
