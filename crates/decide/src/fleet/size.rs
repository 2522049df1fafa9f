//! How many servers a fleet should have.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Applied, Decision, Fleet, Link, Mode, Policy, Reason, Refusal, Reply, Schedule, Size};
use super::{buffer, capacity, schedule};
use crate::gameserver::{GameServer, Occupancy, Source};

/// What a decision about a fleet's size looks at.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// The fleet.
    pub fleet: &'a Fleet,
    /// Every server labelled with the fleet's name in its namespace, in any state.
    pub servers: &'a [GameServer],
    /// The load of the nodes, counted over the servers of every fleet and namespace.
    pub nodes: &'a Occupancy,
    /// The autoscaler that moves this fleet, when it is another than the one whose policy is asked about
    /// (`Autoscaler::owner`).
    pub rival: Option<&'a Arc<str>>,
}

/// What one policy found, before it is known which policy counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) to: i32,
    pub(super) limited: bool,
    pub(super) reasons: Vec<Reason>,
}

/// Decides a fleet's size by `policy`.
pub fn size(policy: &Policy, seen: Observation<'_>, now: Timestamp) -> Decision {
    let from = seen.fleet.replicas;
    if let Some(by) = seen.rival {
        let outcome = Err(Refusal::Owned { by: Arc::clone(by) });
        return Decision { from, outcome, reasons: Vec::new(), wake_at: None };
    }
    let mut reasons = Vec::new();
    let answer = match policy {
        Policy::Chain(links) => chain(links, seen, now, &mut reasons),
        Policy::Buffer(_)
        | Policy::Counter(_)
        | Policy::List(_)
        | Policy::Webhook(_)
        | Policy::Wasm(_)
        | Policy::Schedule(_) => {
            ask(policy, seen, now).map(|found| (found, Applied::Policy(policy.name())))
        }
    };
    let outcome =
        answer.or_else(|refusal| idle(refusal, policy, seen.fleet)).map(|(found, applied)| {
            reasons.extend(found.reasons);
            Size { to: found.to, limited: found.limited, applied }
        });
    Decision { from, outcome, reasons, wake_at: schedule::wake_at(policy, now) }
}

/// Turns "not the time" into keeping the size. Upstream means to, and reports an error instead.
fn idle(refusal: Refusal, policy: &Policy, fleet: &Fleet) -> Result<(Found, Applied), Refusal> {
    if refusal != Refusal::Inactive || fleet.mode == Mode::Agones {
        return Err(refusal);
    }
    let found = Found { to: fleet.replicas, limited: false, reasons: vec![Reason::Inactive] };
    Ok((found, Applied::Policy(policy.name())))
}

/// Asks the entries one after the other; the first with an answer wins, and a failure is as good as being inactive.
fn chain(
    links: &[Link],
    seen: Observation<'_>,
    now: Timestamp,
    reasons: &mut Vec<Reason>,
) -> Result<(Found, Applied), Refusal> {
    let mut last = Refusal::EmptyChain;
    for link in links {
        match ask(&link.policy, seen, now) {
            Ok(found) => {
                let id = Arc::clone(&link.id);
                return Ok((found, Applied::Link { id, policy: link.policy.name() }));
            }
            Err(refusal) => {
                let because = Box::new(refusal.clone());
                reasons.push(Reason::Skipped { id: Arc::clone(&link.id), because });
                last = refusal;
            }
        }
    }
    Err(last)
}

fn ask(policy: &Policy, seen: Observation<'_>, now: Timestamp) -> Result<Found, Refusal> {
    match policy {
        Policy::Buffer(policy) => Ok(buffer::size(policy, seen.fleet)),
        Policy::Counter(policy) => capacity::size(Source::Counter, policy, seen, now),
        Policy::List(policy) => capacity::size(Source::List, policy, seen, now),
        Policy::Webhook(reply) | Policy::Wasm(reply) => told(policy.name(), reply, seen.fleet),
        Policy::Schedule(inner) => scheduled(inner, seen, now),
        Policy::Chain(links) => chain(links, seen, now, &mut Vec::new()).map(|(found, _)| found),
    }
}

fn scheduled(inner: &Schedule, seen: Observation<'_>, now: Timestamp) -> Result<Found, Refusal> {
    if !schedule::is_active(inner, now) {
        return Err(Refusal::Inactive);
    }
    let mut found = ask(&inner.policy, seen, now)?;
    found.reasons.insert(0, Reason::Active);
    Ok(found)
}

/// Takes the size from a webhook or a Wasm module.
fn told(policy: &'static str, reply: &Reply, fleet: &Fleet) -> Result<Found, Refusal> {
    let (to, reason) = match reply {
        Reply::None => return Err(Refusal::NoReply { policy }),
        Reply::Failed(why) => return Err(Refusal::ReplyFailed { policy, why: Arc::clone(why) }),
        Reply::Scale(to) if *to < 0 && fleet.mode == Mode::Repaired => {
            let why = format!("it asked for {to} replicas").into();
            return Err(Refusal::ReplyFailed { policy, why });
        }
        Reply::Scale(to) => (*to, Reason::Replied { policy }),
        Reply::Keep => (fleet.kept(), Reason::RepliedKeep { policy }),
    };
    Ok(Found { to, limited: false, reasons: vec![reason] })
}

impl Fleet {
    /// Gives the size that "no change" stands for. Upstream writes back what it counts, and so cuts short a scale-up that
    /// is under way.
    pub(super) fn kept(&self) -> i32 {
        match self.mode {
            Mode::Repaired => self.replicas,
            Mode::Agones => self.status.replicas,
        }
    }
}
