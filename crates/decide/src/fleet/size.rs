//! Sizes a fleet by its policy.
//!
//! A webhook or Wasm module is called only when the result depends on it: `size` returns the id whose reply is missing, and is
//! called again with that reply.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::{
    Applied, Fleet, FleetDecision, Link, Mode, Policy, Reason, Refusal, Reply, Schedule, Size,
};
use super::{buffer, capacity, schedule};
use crate::gameserver::{GameServer, Occupancy, Source};

/// The input of a decision about a fleet's size.
#[derive(Clone, Copy, Debug)]
pub struct FleetObservation<'a> {
    /// The fleet.
    pub fleet: &'a Fleet,
    /// Every server labelled with the fleet's name in its namespace, in any state.
    pub servers: &'a [GameServer],
    /// The load of the nodes, over the servers of every fleet and namespace.
    pub nodes: &'a Occupancy,
    /// The autoscaler that owns this fleet, when it is not the one whose policy is evaluated
    /// (`Autoscaler::owner`).
    pub other_owner: Option<&'a Arc<str>>,
}

/// The replies of webhooks and Wasm modules, by the id of their chain entry; outside of a chain the id is empty.
pub type Replies = BTreeMap<Arc<str>, Reply>;

/// A decision about a fleet's size, or the reply that it needs first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizing {
    /// The decision is complete.
    Decided(FleetDecision),
    /// The webhook or Wasm module of the policy, or of the chain entry with this id, has to be called.
    Ask(Arc<str>),
}

/// The result of one policy, before it is known whether it applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PolicySize {
    pub(super) to: i32,
    pub(super) limited: bool,
    pub(super) reasons: Vec<Reason>,
}

/// The reason why a policy returned no size.
enum NoSize {
    Refused(Refusal),
    /// The reply with this id is missing.
    Unasked(Arc<str>),
}

impl From<Refusal> for NoSize {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The input of all policies of one decision.
#[derive(Clone, Copy)]
struct Inputs<'a> {
    observed: FleetObservation<'a>,
    replies: &'a Replies,
    now: Timestamp,
}

/// Sizes a fleet by `policy`, with the replies that are known so far. Each reply is requested once, provided that it is among
/// `replies` in the next call.
pub fn size(
    policy: &Policy,
    observed: FleetObservation<'_>,
    replies: &Replies,
    now: Timestamp,
) -> Sizing {
    let from = observed.fleet.replicas;
    if let Some(by) = observed.other_owner {
        let outcome = Err(Refusal::Owned { by: Arc::clone(by) });
        return Sizing::Decided(FleetDecision {
            from,
            outcome,
            reasons: Vec::new(),
            wake_at: None,
        });
    }
    let (inputs, mut reasons) = (Inputs { observed, replies, now }, Vec::new());
    let answer = match policy {
        Policy::Chain(links) => chain(links, inputs, &mut reasons),
        Policy::Buffer(_)
        | Policy::Counter(_)
        | Policy::List(_)
        | Policy::Webhook
        | Policy::Wasm
        | Policy::Schedule(_) => {
            evaluate(policy, "", inputs).map(|found| (found, Applied::Policy(policy.name())))
        }
    };
    let answer = match answer {
        Err(NoSize::Unasked(id)) => return Sizing::Ask(id),
        Err(NoSize::Refused(refusal)) => idle(refusal, policy, observed.fleet),
        Ok(answer) => Ok(answer),
    };
    let outcome = answer.map(|(found, applied)| {
        reasons.extend(found.reasons);
        Size { to: found.to, limited: found.limited, applied }
    });
    Sizing::Decided(FleetDecision {
        from,
        outcome,
        reasons,
        wake_at: schedule::wake_at(policy, now),
    })
}

/// Converts an inactive schedule into keeping the size. Agones intends to, and reports an error instead.
fn idle(
    refusal: Refusal,
    policy: &Policy,
    fleet: &Fleet,
) -> Result<(PolicySize, Applied), Refusal> {
    if refusal != Refusal::Inactive || fleet.mode == Mode::Agones {
        return Err(refusal);
    }
    let found = PolicySize { to: fleet.replicas, limited: false, reasons: vec![Reason::Inactive] };
    Ok((found, Applied::Policy(policy.name())))
}

/// Evaluates the entries of a chain in order; the first that returns a size wins, and a failure counts as inactive.
fn chain(
    links: &[Link],
    inputs: Inputs<'_>,
    reasons: &mut Vec<Reason>,
) -> Result<(PolicySize, Applied), NoSize> {
    let mut last = Refusal::EmptyChain;
    for link in links {
        match evaluate(&link.policy, &link.id, inputs) {
            Ok(found) => {
                let id = Arc::clone(&link.id);
                return Ok((found, Applied::Link { id, policy: link.policy.name() }));
            }
            Err(NoSize::Refused(refusal)) => {
                let because = Box::new(refusal.clone());
                reasons.push(Reason::Skipped { id: Arc::clone(&link.id), because });
                last = refusal;
            }
            Err(unasked @ NoSize::Unasked(_)) => return Err(unasked),
        }
    }
    Err(last.into())
}

/// Evaluates one policy; `id` is that of its chain entry.
fn evaluate(policy: &Policy, id: &str, inputs: Inputs<'_>) -> Result<PolicySize, NoSize> {
    let Inputs { observed, replies, now } = inputs;
    match policy {
        Policy::Buffer(policy) => Ok(buffer::size(policy, observed.fleet)),
        Policy::Counter(policy) => Ok(capacity::size(Source::Counter, policy, observed, now)?),
        Policy::List(policy) => Ok(capacity::size(Source::List, policy, observed, now)?),
        Policy::Webhook | Policy::Wasm => {
            let reply = replies.get(id).ok_or_else(|| NoSize::Unasked(id.into()))?;
            Ok(replied(policy.name(), reply, observed.fleet)?)
        }
        Policy::Schedule(inner) => scheduled(inner, id, inputs),
        Policy::Chain(links) => chain(links, inputs, &mut Vec::new()).map(|(found, _)| found),
    }
}

fn scheduled(inner: &Schedule, id: &str, inputs: Inputs<'_>) -> Result<PolicySize, NoSize> {
    if !schedule::is_active(inner, inputs.now) {
        return Err(Refusal::Inactive.into());
    }
    let mut found = evaluate(&inner.policy, id, inputs)?;
    found.reasons.insert(0, Reason::Active);
    Ok(found)
}

/// Returns the size in the reply of a webhook or a Wasm module.
fn replied(policy: &'static str, reply: &Reply, fleet: &Fleet) -> Result<PolicySize, Refusal> {
    let (to, reason) = match reply {
        Reply::None => return Err(Refusal::NoReply { policy }),
        Reply::Failed(why) => return Err(Refusal::ReplyFailed { policy, why: Arc::clone(why) }),
        Reply::Scale(to) if *to < 0 && fleet.mode == Mode::Repaired => {
            let why = format!("it requested {to} replicas").into();
            return Err(Refusal::ReplyFailed { policy, why });
        }
        Reply::Scale(to) => (*to, Reason::Replied { policy }),
        Reply::Keep => (fleet.kept(), Reason::RepliedKeep { policy }),
    };
    Ok(PolicySize { to, limited: false, reasons: vec![reason] })
}

impl Fleet {
    /// Returns the size for "no change". Agones writes back the current number of servers, and thereby cancels a scale-up in
    /// progress.
    pub(super) fn kept(&self) -> i32 {
        match self.mode {
            Mode::Repaired => self.replicas,
            Mode::Agones => self.status.replicas,
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use jiff::{SignedDuration, Timestamp};

    use super::*;
    use crate::cron::{Cron, Dialect};
    use crate::fleet::testing::{NOW, answer, decide, decide_with, fleet, reply};
    use crate::fleet::{Amount, Autoscaler, Between, Buffer, Capacity, Period};

    fn buffer(size: i64) -> Policy {
        Policy::Buffer(Buffer { size: Amount::Count(size), min: 0, max: 100 })
    }

    fn failing() -> Policy {
        let key = "nokey".into();
        Policy::Counter(Capacity { key, size: Amount::Count(1), min: 0, max: 10 })
    }

    /// Returns a schedule that is active now, or ended long ago.
    fn scheduled(active: bool, policy: Policy) -> Policy {
        let end = (!active).then_some(Timestamp::UNIX_EPOCH);
        let between = Between { start: None, end };
        Policy::Schedule(Box::new(Schedule { between, period: None, policy }))
    }

    fn chain(links: Vec<(&str, Policy)>) -> Policy {
        let link = |(id, policy): (&str, Policy)| Link { id: id.into(), policy };
        Policy::Chain(links.into_iter().map(link).collect())
    }

    fn in_mode(mode: Mode) -> Fleet {
        let mut fleet = fleet(3);
        fleet.replicas = 8;
        fleet.mode = mode;
        fleet
    }

    fn applied(policy: &Policy) -> String {
        let replies = [("x".into(), Reply::None)].into();
        let decision = decide_with(policy, &fleet(3), &[], &replies);
        decision.outcome.map_or_else(|r| r.to_string(), |size| size.applied.to_string())
    }

    #[test]
    fn an_inactive_schedule_is_an_error_in_agones_and_keeps_the_size_here_a1() {
        for policy in [
            scheduled(false, buffer(5)),
            chain(vec![("a", scheduled(false, buffer(5))), ("b", scheduled(false, buffer(6)))]),
        ] {
            let upstream = decide(&policy, &in_mode(Mode::Agones), &[]);
            assert_eq!(upstream.outcome, Err(Refusal::Inactive));
            let ours = decide(&policy, &in_mode(Mode::Repaired), &[]);
            assert_eq!(answer(&ours), Some((8, false)));
            assert_eq!(ours.reasons.last(), Some(&Reason::Inactive));
        }
    }

    #[test]
    fn no_change_keeps_spec_replicas_and_agones_writes_back_the_status_a2() {
        for policy in [Policy::Webhook, Policy::Wasm] {
            for (mode, kept) in [(Mode::Agones, 3), (Mode::Repaired, 8)] {
                let decision = decide_with(&policy, &in_mode(mode), &[], &reply(Reply::Keep));
                assert_eq!(answer(&decision), Some((kept, false)));
            }
        }
    }

    #[test]
    fn a_reply_is_applied_unchanged() {
        let fleet = in_mode(Mode::Repaired);
        let outcome_of =
            |reply_value| decide_with(&Policy::Webhook, &fleet, &[], &reply(reply_value)).outcome;
        assert_eq!(
            outcome_of(Reply::Scale(0)).map(|s| s.to),
            Ok(0),
            "only a reply may ask for none"
        );
        assert_eq!(outcome_of(Reply::Scale(250)).map(|s| s.to), Ok(250));
        assert_eq!(outcome_of(Reply::None), Err(Refusal::NoReply { policy: "Webhook" }));
        assert!(matches!(
            outcome_of(Reply::Failed("500".into())),
            Err(Refusal::ReplyFailed { .. })
        ));
        assert!(matches!(outcome_of(Reply::Scale(-1)), Err(Refusal::ReplyFailed { .. })));
    }

    #[test]
    fn the_first_entry_of_a_chain_that_returns_a_size_wins() {
        for (policy, name) in [
            (buffer(1), "Buffer"),
            (scheduled(true, buffer(1)), "Schedule"),
            (chain(vec![("a", failing()), ("b", buffer(1))]), "Chain:b:Buffer"),
            (chain(vec![("", scheduled(false, buffer(1))), ("", buffer(2))]), "Chain::Buffer"),
            (chain(vec![("x", Policy::Webhook), ("y", buffer(2))]), "Chain:y:Buffer"),
            (chain(vec![("s", scheduled(true, buffer(1))), ("b", buffer(2))]), "Chain:s:Schedule"),
        ] {
            assert_eq!(applied(&policy), name);
        }
    }

    #[test]
    fn a_chain_without_a_size_returns_its_last_reason() {
        let none = chain(vec![("a", scheduled(false, buffer(1))), ("b", failing())]);
        let decision = decide(&none, &fleet(3), &[]);
        let missing = Refusal::NotInTemplate { policy: "Counter", key: "nokey".into() };
        assert_eq!(decision.outcome, Err(missing));
        assert_eq!(decision.reasons.len(), 2, "each entry says why it had none");
        let empty = decide(&chain(vec![]), &fleet(3), &[]);
        assert_eq!(empty.outcome, Err(Refusal::EmptyChain), "upstream panics: a8");
    }

    #[test]
    fn a_nested_policys_failure_is_returned() {
        let decision = decide(&scheduled(true, failing()), &fleet(3), &[]);
        assert!(matches!(decision.outcome, Err(Refusal::NotInTemplate { .. })));
    }

    #[test]
    fn the_oldest_autoscaler_owns_a_fleet_and_others_are_refused_a13() {
        let made = |second, name: &str| Autoscaler {
            created_at: Timestamp::new(second, 0).unwrap(),
            name: name.into(),
        };
        let all = [made(5, "b"), made(5, "a"), made(9, "c")];
        let owner = Autoscaler::owner(&all).unwrap();
        assert_eq!(&*owner.name, "a");
        let (fleet, nodes) = (fleet(3), Occupancy::default());
        for mode in [Mode::Agones, Mode::Repaired] {
            let fleet = Fleet { mode, ..fleet.clone() };
            let other_owner = Some(&owner.name);
            let observed =
                FleetObservation { fleet: &fleet, servers: &[], nodes: &nodes, other_owner };
            // No webhook is called in vain.
            for policy in [buffer(1), Policy::Webhook] {
                let sizing = size(&policy, observed, &Replies::new(), NOW);
                let Sizing::Decided(decision) = sizing else { panic!("{sizing:?}") };
                assert_eq!(decision.outcome, Err(Refusal::Owned { by: "a".into() }));
            }
        }
    }

    #[test]
    fn only_a_needed_reply_is_requested_and_only_once() {
        let failed = || Reply::Failed("503".into());
        let (web, wasm) = (|| Policy::Webhook, || Policy::Wasm);
        for (policy, replies, asked) in [
            (web(), vec![], Some("")),
            (web(), vec![("", Reply::None)], None),
            (scheduled(true, web()), vec![], Some("")),
            (scheduled(false, web()), vec![], None),
            (chain(vec![("a", web()), ("b", buffer(1))]), vec![], Some("a")),
            (chain(vec![("a", buffer(1)), ("b", web())]), vec![], None),
            (chain(vec![("a", failing()), ("b", wasm())]), vec![], Some("b")),
            (chain(vec![("a", web()), ("b", wasm())]), vec![("a", failed())], Some("b")),
            (chain(vec![("a", web()), ("b", wasm())]), vec![("a", Reply::Scale(2))], None),
            (
                chain(vec![("a", web()), ("b", wasm())]),
                vec![("a", failed()), ("b", failed())],
                None,
            ),
            (chain(vec![("a", scheduled(false, web())), ("b", web())]), vec![], Some("b")),
        ] {
            let replies: Replies = replies.into_iter().map(|(id, r)| (id.into(), r)).collect();
            let (fleet, nodes) = (fleet(3), Occupancy::default());
            let observed =
                FleetObservation { fleet: &fleet, servers: &[], nodes: &nodes, other_owner: None };
            let sizing = size(&policy, observed, &replies, NOW);
            let missing = if let Sizing::Ask(id) = &sizing { Some(&**id) } else { None };
            assert_eq!(missing, asked, "{policy:?} with {replies:?}");
        }
    }

    #[test]
    fn a_decision_has_the_time_of_the_next_evaluation() {
        let zone = TimeZone::UTC;
        let start = Cron::parse("0 18 * * *", Dialect::Agones).unwrap();
        let period = Some(Period { start, zone, duration: Some(SignedDuration::from_hours(1)) });
        let evening = Schedule { between: Between::default(), period, policy: buffer(9) };
        let policy = chain(vec![("evening", Policy::Schedule(Box::new(evening))), ("", buffer(1))]);
        let decision = decide(&policy, &fleet(3), &[]);
        assert!(decision.wake_at.unwrap() > "2026-03-01T17:58:30Z".parse::<Timestamp>().unwrap());
        assert_eq!(decide(&buffer(1), &fleet(3), &[]).wake_at, None);
    }
}
