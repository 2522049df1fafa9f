//! What an operator asks of a fleet's size.
//!
//! Values were checked at the door: a percentage is from 1 to 99, a minimum is at most its maximum.

use std::sync::Arc;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::cron::Cron;

/// How a fleet's size is found.
#[derive(Clone, Debug, PartialEq)]
pub enum Policy {
    /// Spare servers beyond the Allocated ones.
    Buffer(Buffer),
    /// Spare room in a counter, over all servers.
    Counter(Capacity),
    /// Spare room in a list, over all servers.
    List(Capacity),
    /// What a webhook answered.
    Webhook(Reply),
    /// What a Wasm module answered.
    Wasm(Reply),
    /// Another policy, while it is time for it.
    Schedule(Box<Schedule>),
    /// The first of several policies that has an answer.
    Chain(Vec<Link>),
}

impl Policy {
    /// Gives the word in `policy.type`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Buffer(_) => "Buffer",
            Self::Counter(_) => "Counter",
            Self::List(_) => "List",
            Self::Webhook(_) => "Webhook",
            Self::Wasm(_) => "Wasm",
            Self::Schedule(_) => "Schedule",
            Self::Chain(_) => "Chain",
        }
    }
}

/// `policy.buffer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// `bufferSize`.
    pub size: Amount,
    /// `minReplicas`; 0 is none.
    pub min: i32,
    /// `maxReplicas`.
    pub max: i32,
}

/// `policy.counter` or `policy.list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The counter's or list's name.
    pub key: Arc<str>,
    /// `bufferSize`: room that should be free.
    pub size: Amount,
    /// `minCapacity`; 0 is none.
    pub min: i64,
    /// `maxCapacity`.
    pub max: i64,
}

/// A number, or a percentage of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many.
    Count(i64),
    /// So many of a hundred.
    Percent(i64),
}

/// What a webhook or a Wasm module said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nobody has asked it yet: there is no answer to decide on.
    None,
    /// It was asked and did not give a usable answer, for the reason given.
    Failed(Arc<str>),
    /// `scale: false`.
    Keep,
    /// `scale: true`, with the number of replicas.
    Scale(i32),
}

/// `policy.schedule`.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// `between`.
    pub between: Between,
    /// `activePeriod`, when it has a `startCron`.
    pub period: Option<Period>,
    /// The policy that holds while it is time.
    pub policy: Policy,
}

/// The moments outside of which a schedule never holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Between {
    /// `start`.
    pub start: Option<Timestamp>,
    /// `end`.
    pub end: Option<Timestamp>,
}

/// When, again and again, a schedule holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Period {
    /// `startCron`, in Agones' dialect.
    pub start: Cron,
    /// `timezone`; UTC when it is empty.
    pub zone: TimeZone,
    /// `duration`; nothing is for ever.
    pub duration: Option<SignedDuration>,
}

/// One entry of `policy.chain`.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// `id`.
    pub id: Arc<str>,
    /// What it asks for.
    pub policy: Policy,
}
