//! Decisions about a fleet's size, and their reasons.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

/// A decision about a fleet's size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetDecision {
    /// The current `spec.replicas`.
    pub from: i32,
    /// The new size, or the reason why the fleet is left unchanged.
    pub outcome: Result<Size, Refusal>,
    /// The reasons for the size, in the order in which they were found.
    pub reasons: Vec<Reason>,
    /// The time at which the decision could change without any other change.
    pub wake_at: Option<Timestamp>,
}

/// A size and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// The new `spec.replicas`.
    pub to: i32,
    /// Whether a limit changed the desired size.
    pub limited: bool,
    /// The policy that determined the size: `status.lastAppliedPolicy`.
    pub applied: Applied,
}

/// The policy that determined a size. `Display` returns the text of `status.lastAppliedPolicy`.
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

/// The reason why a policy returns no size. The fleet is left unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An older autoscaler scales this fleet already.
    Owned {
        /// That autoscaler's name.
        by: Arc<str>,
    },
    /// The schedule is inactive.
    Inactive,
    /// The fleet's template has no such counter or list.
    NotInTemplate {
        /// `Counter` or `List`.
        policy: &'static str,
        /// The name of the counter or list.
        key: Arc<str>,
    },
    /// The fleet's status has no such counter or list yet.
    NotInStatus {
        /// `Counter` or `List`.
        policy: &'static str,
        /// The name of the counter or list.
        key: Arc<str>,
    },
    /// A new server adds no free capacity, so no number of servers is enough.
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
    /// The webhook or Wasm module returned no usable reply.
    ReplyFailed {
        /// `Webhook` or `Wasm`.
        policy: &'static str,
        /// The error.
        why: Arc<str>,
    },
    /// The chain is empty.
    EmptyChain,
    /// The autoscaler is invalid, which is only possible if it was stored before it was validated.
    Unreadable {
        /// The invalid fields, with their errors.
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
            Self::Owned { by } => write!(f, "the older autoscaler `{by}` scales this fleet"),
            Self::Inactive => f.write_str("the schedule is inactive"),
            Self::NotInTemplate { policy, key } => {
                write!(f, "{} `{key}` is not in the fleet's template", policy.to_lowercase())
            }
            Self::NotInStatus { policy, key } => {
                write!(f, "{} `{key}` is not in the fleet's status yet", policy.to_lowercase())
            }
            Self::NoRoomPerServer { policy, key } => {
                write!(f, "a new server adds no free capacity in {} `{key}`", policy.to_lowercase())
            }
            Self::NoReply { policy } => write!(f, "no reply from the {}", called(policy)),
            Self::ReplyFailed { policy, why } => write!(f, "the {} failed: {why}", called(policy)),
            Self::EmptyChain => f.write_str("the chain has no entries"),
            Self::Unreadable { why } => write!(f, "the autoscaler is invalid: {why}"),
        }
    }
}

fn called(policy: &str) -> &'static str {
    if policy == "Wasm" { "Wasm module" } else { "webhook" }
}

/// The reason for a size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Fewer spare servers, or less free capacity, than desired.
    BufferShort {
        /// What is free now.
        spare: i64,
        /// What should be free.
        wanted: i64,
    },
    /// Exactly the desired buffer is free.
    BufferKept {
        /// What is free now.
        spare: i64,
    },
    /// More than the desired buffer is free.
    BufferAmple {
        /// What is free now.
        spare: i64,
        /// What should be free.
        wanted: i64,
    },
    /// The size was raised to the policy's minimum.
    AtMinimum {
        /// The desired size.
        asked: i64,
        /// The minimum.
        min: i64,
    },
    /// The size was lowered to the policy's maximum.
    AtMaximum {
        /// The desired size.
        asked: i64,
        /// The maximum.
        max: i64,
    },
    /// One server exceeds the policy's maximum, but one is always allowed.
    OneServer {
        /// The capacity of one server.
        capacity: i64,
        /// The maximum.
        max: i64,
    },
    /// Servers that are Allocated or Reserved prevent a smaller size.
    InUse {
        /// The number of such servers.
        servers: i32,
    },
    /// A percentage of nothing: one server, as in Agones.
    NothingAllocated,
    /// The webhook or Wasm module returned the size.
    Replied {
        /// `Webhook` or `Wasm`.
        policy: &'static str,
    },
    /// The webhook or Wasm module requested no change.
    RepliedKeep {
        /// `Webhook` or `Wasm`.
        policy: &'static str,
    },
    /// An earlier entry of the chain returned no size.
    Skipped {
        /// The entry's id.
        id: Arc<str>,
        /// The reason.
        because: Box<Refusal>,
    },
    /// The schedule is active.
    Active,
    /// No schedule is active, so the size is kept.
    Inactive,
    /// A larger size was desired recently, so the fleet does not scale down yet.
    Settling {
        /// The size desired now.
        asked: i32,
        /// The time from which the fleet may scale down.
        until: Timestamp,
    },
}

impl Reason {
    /// Compares the free buffer with the desired one.
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
            Self::AtMinimum { asked, min } => write!(f, "wanted {asked}, the minimum is {min}"),
            Self::AtMaximum { asked, max } => write!(f, "wanted {asked}, the maximum is {max}"),
            Self::OneServer { capacity, max } => {
                write!(
                    f,
                    "one server has a capacity of {capacity}, above the maximum of {max}; one server is always allowed"
                )
            }
            Self::InUse { servers } => write!(f, "{servers} servers are Allocated or Reserved"),
            Self::NothingAllocated => {
                f.write_str("no server is Allocated, so a percentage is one server")
            }
            Self::Replied { policy } => write!(f, "the {} returned the size", called(policy)),
            Self::RepliedKeep { policy } => write!(f, "the {} requested no change", called(policy)),
            Self::Skipped { id, because } => write!(f, "entry `{id}` returned no size: {because}"),
            Self::Active => f.write_str("the schedule is active"),
            Self::Inactive => f.write_str("no schedule is active, so the size is kept"),
            Self::Settling { asked, until } => {
                write!(
                    f,
                    "{asked} would be enough, but more was wanted recently; scale-down is held until {until:.0}"
                )
            }
        }
    }
}
