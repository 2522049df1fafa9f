//! Sizes a target by metrics.
//!
//! Each check evaluates one metric series and votes, and so does each rule. Votes are resolved within groups and then among
//! groups, in favour of the larger capacity. Later steps may only hold the result back.

mod behavior;
mod cooldown;
mod history;
mod limits;
mod reason;
mod resolve;
mod schedule;
mod series;
pub mod strategy;
mod vote;

use jiff::{SignedDuration, Timestamp};

use crate::rules::Rule;
pub use behavior::{Behavior, Change, Direction as Scaling, PastDecision, Select, Step};
pub use cooldown::{Cooldown, LastAction};
pub use history::{PendingAction, just_after, pending_action, remember};
pub use limits::Limits;
pub use reason::{Outcome, VoteReason};
pub use schedule::{Ends, Schedule};
pub use series::{Reading, Series, Window};
pub use strategy::Strategy;
pub use vote::{Ballot, Direction, Vote, Voter};

/// The scaling policy of one target.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Whether the policy is enabled.
    pub enabled: bool,
    /// The allowed sizes.
    pub limits: Limits,
    /// When the policy is active; `None`: always.
    pub schedule: Option<Schedule>,
    /// How long to wait after an action.
    pub cooldown: Cooldown,
    /// The checks, in the order of the policy.
    pub checks: Vec<Check>,
    /// The rules, in the order of the policy.
    pub rules: Vec<Rule>,
    /// How a rule that fails or has no data is treated.
    pub on_rule_error: OnError,
    /// Stabilization and rate limits; `None`: none.
    pub behavior: Option<Behavior>,
}

/// A strategy applied to one metric series.
#[derive(Clone, Debug)]
pub struct Check {
    /// Checks of one group are resolved among themselves first; empty: no group.
    pub group: String,
    /// The evaluated part of the series.
    pub window: Window,
    /// When the check is active; `None`: always.
    pub schedule: Option<Schedule>,
    /// How an unavailable or empty series is treated.
    pub on_error: OnError,
    /// How the values determine the size.
    pub strategy: Strategy,
}

/// How a check that fails or has no data is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// It votes for the current size: other checks may still scale out, but not in.
    #[default]
    Hold,
    /// It is ignored.
    Ignore,
    /// The whole evaluation holds the current size.
    Fail,
}

/// The observed state of a target.
#[derive(Clone, Copy, Debug)]
pub struct TargetObservation<'a> {
    /// Its current desired size.
    pub count: i64,
    /// The metric reading of each check, in the order of the checks.
    pub checks: &'a [Reading<'a>],
    /// The metric reading of each rule.
    pub rules: &'a [Reading<'a>],
    /// The most recent action on the target.
    pub last_action: Option<LastAction>,
    /// The size that it was created with.
    pub original_count: Option<i64>,
    /// Past decisions, oldest first.
    pub history: &'a [PastDecision],
    /// The other autoscaler that sizes the target, if any.
    pub shared_with: Option<&'a str>,
}

/// A decision about a target's size, with its reasons.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingDecision {
    /// The current size.
    pub from: i64,
    /// The new size.
    pub to: i64,
    /// The size that the votes resolved to, before stabilization, rate limits and cooldown.
    pub wanted: i64,
    /// Whether a limit changed the desired size.
    pub limited: bool,
    /// The reasons, step by step.
    pub reasons: Vec<Outcome>,
    /// One vote for each check and then for each rule.
    pub votes: Vec<Vote>,
}

/// Decides the size of one target.
pub fn decide(
    policy: &Policy,
    observed: &TargetObservation<'_>,
    now: Timestamp,
) -> ScalingDecision {
    let keep = |outcome| ScalingDecision::new(observed.count, observed.count, vec![outcome]);
    if !policy.enabled {
        return keep(Outcome::Disabled);
    }
    if policy.schedule.as_ref().is_some_and(|s| !s.is_active(now)) {
        return keep(Outcome::OutsideSchedule);
    }
    if let Some(with) = observed.shared_with {
        return keep(Outcome::TargetShared { with: with.to_owned() });
    }
    if let Some(nearest) = policy.limits.nearest(observed.count) {
        let outcome = Outcome::OutsideLimits { count: observed.count, nearest };
        return ScalingDecision {
            limited: true,
            ..ScalingDecision::new(observed.count, nearest, vec![outcome])
        };
    }
    let votes = vote::all(policy, observed, now);
    let mut decision = resolve::resolve(&votes, policy, observed.count);
    if let Some(behavior) = &policy.behavior {
        decision = behavior::hold(decision, behavior, observed.history, now);
    }
    decision = cooldown::hold(decision, &policy.cooldown, observed.last_action, now);
    ScalingDecision { votes, ..decision }
}

impl ScalingDecision {
    fn new(from: i64, to: i64, reasons: Vec<Outcome>) -> Self {
        Self { from, to, wanted: to, limited: false, reasons, votes: Vec::new() }
    }

    /// Changes the result to `to` because of `outcome`.
    fn held(mut self, to: i64, outcome: Outcome) -> Self {
        self.to = to;
        self.limited = true;
        self.reasons.push(outcome);
        self
    }
}

/// Returns the time `span` before `at`, saturating.
fn before(at: Timestamp, span: SignedDuration) -> Timestamp {
    at.checked_sub(span).unwrap_or(Timestamp::MIN)
}

/// Returns the time `span` after `at`, saturating.
fn after(at: Timestamp, span: SignedDuration) -> Timestamp {
    at.checked_add(span).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
