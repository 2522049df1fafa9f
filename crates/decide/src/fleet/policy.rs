//! Policies for a fleet's size.
//!
//! Values are validated on admission: a percentage is from 1 to 99, a minimum is at most its maximum.

use std::sync::Arc;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::cron::Cron;

/// How a fleet's size is determined.
#[derive(Clone, Debug, PartialEq)]
pub enum Policy {
    /// Spare servers beyond the Allocated ones.
    Buffer(Buffer),
    /// Free capacity in a counter, over all servers.
    Counter(Capacity),
    /// Free capacity in a list, over all servers.
    List(Capacity),
    /// The reply of a webhook.
    Webhook,
    /// The reply of a Wasm module.
    Wasm,
    /// Another policy, while a schedule is active.
    Schedule(Box<Schedule>),
    /// The first of several policies that returns a size.
    Chain(Vec<Link>),
}

impl Policy {
    /// Returns the value of `policy.type`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Buffer(_) => "Buffer",
            Self::Counter(_) => "Counter",
            Self::List(_) => "List",
            Self::Webhook => "Webhook",
            Self::Wasm => "Wasm",
            Self::Schedule(_) => "Schedule",
            Self::Chain(_) => "Chain",
        }
    }

    /// Returns whether a decision may need the reply of a webhook or Wasm module.
    pub fn may_ask(&self) -> bool {
        match self {
            Self::Webhook | Self::Wasm => true,
            Self::Buffer(_) | Self::Counter(_) | Self::List(_) => false,
            Self::Schedule(schedule) => schedule.policy.may_ask(),
            Self::Chain(links) => links.iter().any(|link| link.policy.may_ask()),
        }
    }

    /// Returns whether a decision depends on the time.
    pub fn has_schedule(&self) -> bool {
        match self {
            Self::Schedule(_) => true,
            Self::Buffer(_) | Self::Counter(_) | Self::List(_) | Self::Webhook | Self::Wasm => {
                false
            }
            Self::Chain(links) => links.iter().any(|link| link.policy.has_schedule()),
        }
    }

    /// Returns whether a decision may depend on single servers, and not only on the fleet's status.
    pub fn reads_servers(&self) -> bool {
        match self {
            Self::Counter(_) | Self::List(_) => true,
            Self::Buffer(_) | Self::Webhook | Self::Wasm => false,
            Self::Schedule(schedule) => schedule.policy.reads_servers(),
            Self::Chain(links) => links.iter().any(|link| link.policy.reads_servers()),
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
    /// `bufferSize`: the capacity that should be free.
    pub size: Amount,
    /// `minCapacity`; 0 is none.
    pub min: i64,
    /// `maxCapacity`.
    pub max: i64,
}

/// A number, or a percentage of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A number.
    Count(i64),
    /// A percentage.
    Percent(i64),
}

/// The reply of a webhook or a Wasm module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// There is none and none is expected, as in files without a review.
    None,
    /// It returned no usable reply, with the error.
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
    /// The policy that applies while the schedule is active.
    pub policy: Policy,
}

/// The times outside of which a schedule is never active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Between {
    /// `start`.
    pub start: Option<Timestamp>,
    /// `end`.
    pub end: Option<Timestamp>,
}

/// The recurring period in which a schedule is active.
#[derive(Clone, Debug, PartialEq)]
pub struct Period {
    /// `startCron`, in Agones' dialect.
    pub start: Cron,
    /// `timezone`; UTC when it is empty.
    pub zone: TimeZone,
    /// `duration`; `None` is forever.
    pub duration: Option<SignedDuration>,
}

/// One entry of `policy.chain`.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// `id`.
    pub id: Arc<str>,
    /// Its policy.
    pub policy: Policy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_needs_the_inputs_of_nested_policies() {
        let buffer = || Policy::Buffer(Buffer { size: Amount::Count(1), min: 0, max: 9 });
        let (size, key) = (Amount::Count(1), "rooms".into());
        let list = || Policy::List(Capacity { key: Arc::clone(&key), size, min: 0, max: 9 });
        let scheduled = |policy| {
            let between = Between::default();
            Policy::Schedule(Box::new(Schedule { between, period: None, policy }))
        };
        let chain = |all: Vec<Policy>| {
            let link = |policy| Link { id: "".into(), policy };
            Policy::Chain(all.into_iter().map(link).collect())
        };
        for (policy, may_ask, reads_servers) in [
            (buffer(), false, false),
            (list(), false, true),
            (Policy::Webhook, true, false),
            (scheduled(Policy::Wasm), true, false),
            (scheduled(list()), false, true),
            (chain(vec![]), false, false),
            (chain(vec![buffer(), scheduled(buffer())]), false, false),
            (chain(vec![buffer(), scheduled(Policy::Webhook), list()]), true, true),
        ] {
            let needs = (policy.may_ask(), policy.reads_servers());
            assert_eq!(needs, (may_ask, reads_servers), "{policy:?}");
        }
    }
}
