//! Table tests of all steps together; property tests are in `properties`.

mod properties;

use super::strategy::{FixedValue, PassThrough, Steps};
use super::*;
use crate::Reason;
use crate::cron::{Cron, Dialect};
use crate::rules::{Action, Metric, Operation};
use jiff::tz::TimeZone;

fn now() -> Timestamp {
    "2026-01-05T12:00:00Z".parse().unwrap()
}

fn policy(min: i64, max: i64, checks: Vec<Check>) -> Policy {
    Policy {
        enabled: true,
        limits: Limits::new(min, max).unwrap(),
        schedule: None,
        cooldown: Cooldown {
            after_up: SignedDuration::from_mins(5),
            after_down: SignedDuration::from_mins(5),
        },
        checks,
        rules: vec![],
        on_rule_error: OnError::Hold,
        behavior: None,
    }
}

fn check(group: &str, strategy: Strategy) -> Check {
    let window = Window { length: None, offset: SignedDuration::ZERO };
    Check { group: group.to_owned(), window, schedule: None, on_error: OnError::Hold, strategy }
}

fn fixed(group: &str, value: i64) -> Check {
    check(group, Strategy::FixedValue(FixedValue { value }))
}

/// Returns a check whose result is the value that it reads.
fn reads(group: &str, on_error: OnError) -> Check {
    let strategy = Strategy::PassThrough(PassThrough { steps: Steps::default() });
    Check { on_error, ..check(group, strategy) }
}

fn never() -> Schedule {
    let cron = Cron::parse("0 0 31 2 *", Dialect::Nomad).unwrap();
    Schedule { start: cron.clone(), ends: Ends::At(cron), zone: TimeZone::UTC }
}

fn observed<'a>(count: i64, checks: &'a [Reading<'a>]) -> TargetObservation<'a> {
    TargetObservation {
        count,
        checks,
        rules: &[],
        last_action: None,
        original_count: None,
        history: &[],
        shared_with: None,
    }
}

fn codes(decision: &ScalingDecision) -> Vec<&'static str> {
    decision.reasons.iter().map(Reason::code).collect()
}

#[test]
fn conflicts_resolve_to_the_larger_capacity() {
    // Current size 5: 9 and 8 vote out, 3 and 2 vote in, 5 votes for no change.
    for (a, b, alone, grouped) in
        [(9, 3, 9, 9), (9, 5, 9, 9), (3, 5, 5, 3), (5, 5, 5, 5), (9, 8, 9, 9), (3, 2, 3, 3)]
    {
        for (group, wanted) in [("", alone), ("a", grouped)] {
            for pair in [[a, b], [b, a]] {
                let checks = pair.map(|value| fixed(group, value)).to_vec();
                let decision = decide(&policy(0, 20, checks), &observed(5, &[]), now());
                assert_eq!(decision.to, wanted, "{pair:?} in group `{group}`");
            }
        }
    }
}

#[test]
fn groups_are_resolved_before_their_winners() {
    for (checks, wanted) in [
        (vec![fixed("a", 5), fixed("a", 5), fixed("b", 2)], 5), // all of `a` is for no change
        (vec![fixed("a", 5), fixed("a", 3), fixed("b", 2)], 3),
        (vec![fixed("a", 5), fixed("a", 3), fixed("", 5)], 5),
        (vec![fixed("a", 5), fixed("a", 3), fixed("", 9)], 9),
        (vec![fixed("a", 3), fixed("b", 5)], 5),
        (vec![], 5),
    ] {
        let decision = decide(&policy(0, 20, checks.clone()), &observed(5, &[]), now());
        assert_eq!(decision.to, wanted, "{checks:?}");
    }
}

#[test]
fn a_check_without_data_holds_is_ignored_or_fails() {
    use OnError::{Fail, Hold, Ignore};
    let failed = Reading::Failed("timeout");
    let empty = Series::default();
    for doubt in [failed, Reading::Missing, Reading::Series(&empty)] {
        for (on_error, other, group, to, code) in [
            (Hold, 9, "", 9, "Won"),
            (Hold, 2, "", 5, "HeldInDoubt"),
            (Hold, 2, "a", 5, "HeldInDoubt"), // also in a group, where no change would not count
            (Hold, 5, "", 5, "NothingWanted"),
            (Ignore, 9, "", 9, "Won"),
            (Ignore, 2, "", 2, "Won"),
            (Fail, 9, "", 5, "CheckFailed"),
            (Fail, 2, "", 5, "CheckFailed"),
        ] {
            let checks = vec![reads(group, on_error), fixed(group, other)];
            let decision = decide(&policy(0, 20, checks), &observed(5, &[doubt]), now());
            let what = format!("{on_error:?} and {other} in `{group}`");
            assert_eq!((decision.to, codes(&decision)[0]), (to, code), "{what}");
        }
    }
}

#[test]
fn a_check_outside_its_schedule_does_not_vote() {
    let asleep = Check { schedule: Some(never()), ..reads("", OnError::Fail) };
    let decision = decide(
        &policy(0, 20, vec![asleep.clone(), fixed("", 2)]),
        &observed(5, &[Reading::Failed("timeout")]),
        now(),
    );
    assert_eq!(decision.to, 2);
    assert_eq!(decision.votes[0], Vote::Absent(Voter::Check(0), VoteReason::OutsideSchedule));
    let unvoted = decide(&policy(0, 20, vec![asleep]), &observed(5, &[]), now());
    assert_eq!((unvoted.to, codes(&unvoted)), (5, vec!["NobodyVoted"]));
}

#[test]
fn the_steps_are_applied_in_order() {
    let just_now = Some(LastAction { at: now(), from: 1, to: 5 });
    let out = || policy(2, 8, vec![fixed("", 30)]);
    for (policy, count, last_action, to, wanted) in [
        (Policy { enabled: false, ..out() }, 30, None, 30, &["Disabled"][..]),
        (Policy { schedule: Some(never()), ..out() }, 30, None, 30, &["OutsideSchedule"]),
        (out(), 30, just_now, 8, &["OutsideLimits"]), // whatever cooldown says
        (out(), 1, None, 2, &["OutsideLimits"]),      // to the nearest, whatever checks say
        (out(), 5, None, 8, &["Won", "Cut"]),
        (out(), 5, just_now, 5, &["Won", "Cut", "CoolingDown"]),
    ] {
        let decision =
            decide(&policy, &TargetObservation { last_action, ..observed(count, &[]) }, now());
        assert_eq!((decision.to, codes(&decision).as_slice()), (to, wanted));
        assert_eq!(decision.limited, count != to && to != 30 || wanted.len() > 1, "{wanted:?}");
    }
}

#[test]
fn a_target_that_another_autoscaler_sizes_is_left_alone_whatever_its_size() {
    let out = policy(2, 8, vec![fixed("", 6)]);
    for count in [1, 5, 30] {
        let shared = TargetObservation { shared_with: Some("HPA web"), ..observed(count, &[]) };
        let decision = decide(&out, &shared, now());
        assert_eq!((decision.to, codes(&decision).as_slice()), (count, &["TargetShared"][..]));
        assert_eq!(decision.reasons[0].to_string(), "HPA web sizes the same target");
    }
}

#[test]
fn stale_data_is_doubt_and_says_so() {
    for (on_error, wanted) in [(OnError::Hold, 5), (OnError::Ignore, 2), (OnError::Fail, 5)] {
        let policy = policy(1, 9, vec![reads("", on_error), fixed("", 2)]);
        let readings = [Reading::Stale(now()), Reading::Missing];
        let decision = decide(&policy, &observed(5, &readings), now());
        assert_eq!(decision.to, wanted, "{on_error:?}");
        assert_eq!(decision.votes[0].why().code(), "Stale");
    }
}

#[test]
fn rules_about_one_metric_are_one_group() {
    let rule = |metric, operation, value, action| Rule {
        metric,
        operation,
        value,
        span: SignedDuration::from_mins(5),
        action,
    };
    let rules = vec![
        rule(Metric::Cpu, Operation::AtLeast, 60.0, Action::ScaleOut(1)),
        rule(Metric::Cpu, Operation::AtLeast, 85.0, Action::ScaleOut(3)),
        rule(Metric::Cpu, Operation::AtMost, 40.0, Action::ScaleIn(2)),
        rule(Metric::Memory, Operation::AtMost, 30.0, Action::ScaleIn(1)),
    ];
    let policy = Policy { rules, ..policy(0, 20, vec![]) };
    for (cpu, memory, to) in
        [(90.0, 10.0, 8), (70.0, 10.0, 6), (10.0, 10.0, 4), (10.0, 50.0, 5), (50.0, 10.0, 5)]
    {
        let minute = SignedDuration::from_mins(1);
        let cpu_series = Series::even(&[cpu; 20], minute, now());
        let memory_series = Series::even(&[memory; 20], minute, now());
        let (c, m) = (Reading::Series(&cpu_series), Reading::Series(&memory_series));
        let decision =
            decide(&policy, &TargetObservation { rules: &[c, c, c, m], ..observed(5, &[]) }, now());
        assert_eq!(decision.to, to, "cpu {cpu}, memory {memory}");
    }
}
