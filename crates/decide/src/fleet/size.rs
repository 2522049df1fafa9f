//! How many servers a fleet should have.
//!
//! A webhook or Wasm module is asked only when the answer depends on it: `size` names the one whose reply is missing, and is
//! called again with that reply.

use std::collections::BTreeMap;
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

/// The replies of webhooks and Wasm modules, by the id of the chain entry that asks; outside of a chain the id is empty.
pub type Replies = BTreeMap<Arc<str>, Reply>;

/// A decision about a fleet's size, or the reply that it needs first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizing {
    /// Nothing is missing.
    Decided(Decision),
    /// The webhook or Wasm module of the policy, or of the chain entry with this id, has to be asked.
    Ask(Arc<str>),
}

/// What one policy found, before it is known which policy counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) to: i32,
    pub(super) limited: bool,
    pub(super) reasons: Vec<Reason>,
}

/// Why a policy has no size.
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

/// Everything that the policies of one decision read.
#[derive(Clone, Copy)]
struct Inputs<'a> {
    seen: Observation<'a>,
    replies: &'a Replies,
    now: Timestamp,
}

/// Decides a fleet's size by `policy`, with the replies that are known so far. Each reply that is asked for is asked for once,
/// provided that it is among `replies` the next time.
pub fn size(policy: &Policy, seen: Observation<'_>, replies: &Replies, now: Timestamp) -> Sizing {
    let from = seen.fleet.replicas;
    if let Some(by) = seen.rival {
        let outcome = Err(Refusal::Owned { by: Arc::clone(by) });
        return Sizing::Decided(Decision { from, outcome, reasons: Vec::new(), wake_at: None });
    }
    let (inputs, mut reasons) = (Inputs { seen, replies, now }, Vec::new());
    let answer = match policy {
        Policy::Chain(links) => chain(links, inputs, &mut reasons),
        Policy::Buffer(_)
        | Policy::Counter(_)
        | Policy::List(_)
        | Policy::Webhook
        | Policy::Wasm
        | Policy::Schedule(_) => {
            ask(policy, "", inputs).map(|found| (found, Applied::Policy(policy.name())))
        }
    };
    let answer = match answer {
        Err(NoSize::Unasked(id)) => return Sizing::Ask(id),
        Err(NoSize::Refused(refusal)) => idle(refusal, policy, seen.fleet),
        Ok(answer) => Ok(answer),
    };
    let outcome = answer.map(|(found, applied)| {
        reasons.extend(found.reasons);
        Size { to: found.to, limited: found.limited, applied }
    });
    Sizing::Decided(Decision { from, outcome, reasons, wake_at: schedule::wake_at(policy, now) })
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
    inputs: Inputs<'_>,
    reasons: &mut Vec<Reason>,
) -> Result<(Found, Applied), NoSize> {
    let mut last = Refusal::EmptyChain;
    for link in links {
        match ask(&link.policy, &link.id, inputs) {
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

/// Asks one policy; `id` is that of its chain entry.
fn ask(policy: &Policy, id: &str, inputs: Inputs<'_>) -> Result<Found, NoSize> {
    let Inputs { seen, replies, now } = inputs;
    match policy {
        Policy::Buffer(policy) => Ok(buffer::size(policy, seen.fleet)),
        Policy::Counter(policy) => Ok(capacity::size(Source::Counter, policy, seen, now)?),
        Policy::List(policy) => Ok(capacity::size(Source::List, policy, seen, now)?),
        Policy::Webhook | Policy::Wasm => {
            let reply = replies.get(id).ok_or_else(|| NoSize::Unasked(id.into()))?;
            Ok(replied(policy.name(), reply, seen.fleet)?)
        }
        Policy::Schedule(inner) => scheduled(inner, id, inputs),
        Policy::Chain(links) => chain(links, inputs, &mut Vec::new()).map(|(found, _)| found),
    }
}

fn scheduled(inner: &Schedule, id: &str, inputs: Inputs<'_>) -> Result<Found, NoSize> {
    if !schedule::is_active(inner, inputs.now) {
        return Err(Refusal::Inactive.into());
    }
    let mut found = ask(&inner.policy, id, inputs)?;
    found.reasons.insert(0, Reason::Active);
    Ok(found)
}

/// Takes the size from the reply of a webhook or a Wasm module.
fn replied(policy: &'static str, reply: &Reply, fleet: &Fleet) -> Result<Found, Refusal> {
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

    /// A schedule that holds now, or ended long ago.
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
    fn a_schedule_outside_its_time_is_an_error_upstream_and_keeps_the_size_here_a1() {
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
    fn no_change_means_the_size_asked_for_and_upstream_writes_back_what_is_there_a2() {
        for policy in [Policy::Webhook, Policy::Wasm] {
            for (mode, kept) in [(Mode::Agones, 3), (Mode::Repaired, 8)] {
                let decision = decide_with(&policy, &in_mode(mode), &[], &reply(Reply::Keep));
                assert_eq!(answer(&decision), Some((kept, false)));
            }
        }
    }

    #[test]
    fn a_reply_is_taken_as_it_is() {
        let fleet = in_mode(Mode::Repaired);
        let told = |said| decide_with(&Policy::Webhook, &fleet, &[], &reply(said)).outcome;
        assert_eq!(told(Reply::Scale(0)).map(|s| s.to), Ok(0), "only a reply may ask for none");
        assert_eq!(told(Reply::Scale(250)).map(|s| s.to), Ok(250));
        assert_eq!(told(Reply::None), Err(Refusal::NoReply { policy: "Webhook" }));
        assert!(matches!(told(Reply::Failed("500".into())), Err(Refusal::ReplyFailed { .. })));
        assert!(matches!(told(Reply::Scale(-1)), Err(Refusal::ReplyFailed { .. })));
    }

    #[test]
    fn the_first_entry_with_an_answer_wins_a_chain() {
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
    fn a_chain_without_an_answer_gives_its_last_reason() {
        let none = chain(vec![("a", scheduled(false, buffer(1))), ("b", failing())]);
        let decision = decide(&none, &fleet(3), &[]);
        let missing = Refusal::NotInTemplate { policy: "Counter", key: "nokey".into() };
        assert_eq!(decision.outcome, Err(missing));
        assert_eq!(decision.reasons.len(), 2, "each entry says why it had none");
        let empty = decide(&chain(vec![]), &fleet(3), &[]);
        assert_eq!(empty.outcome, Err(Refusal::EmptyChain), "upstream panics: a8");
    }

    #[test]
    fn a_nested_policys_failure_is_the_schedules() {
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
            let rival = Some(&owner.name);
            let seen = Observation { fleet: &fleet, servers: &[], nodes: &nodes, rival };
            // Nobody is asked in vain.
            for policy in [buffer(1), Policy::Webhook] {
                let sizing = size(&policy, seen, &Replies::new(), NOW);
                let Sizing::Decided(decision) = sizing else { panic!("{sizing:?}") };
                assert_eq!(decision.outcome, Err(Refusal::Owned { by: "a".into() }));
            }
        }
    }

    #[test]
    fn only_a_reply_that_matters_is_asked_for_and_only_once() {
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
            let seen = Observation { fleet: &fleet, servers: &[], nodes: &nodes, rival: None };
            let sizing = size(&policy, seen, &replies, NOW);
            let missing = if let Sizing::Ask(id) = &sizing { Some(&**id) } else { None };
            assert_eq!(missing, asked, "{policy:?} with {replies:?}");
        }
    }

    #[test]
    fn a_decision_says_when_to_look_again() {
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
