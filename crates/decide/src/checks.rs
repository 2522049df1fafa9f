//! How many units should a target have, by the numbers that were measured about it?
//!
//! Each check looks at one series of numbers and votes; each rule too. Votes are settled within groups and then among
//! them, always for the larger capacity in doubt. What comes after may only hold the answer back.

mod behavior;
mod cooldown;
mod limits;
mod reason;
mod resolve;
mod schedule;
mod series;
pub mod strategy;
mod vote;

use jiff::{SignedDuration, Timestamp};

use crate::rules::Rule;
pub use behavior::{Behavior, Change, Direction as Scaling, Past, Select, Step};
pub use cooldown::{Cooldown, LastAction};
pub use limits::Limits;
pub use reason::{Outcome, Why};
pub use schedule::{Ends, Schedule};
pub use series::{Reading, Series, Window};
pub use strategy::Strategy;
pub use vote::{Ballot, Direction, Vote, Voter};

/// What a user asks for about one target.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Whether anything is decided at all.
    pub enabled: bool,
    /// The sizes that are allowed.
    pub limits: Limits,
    /// When decisions are made; absent: always.
    pub schedule: Option<Schedule>,
    /// How long nothing moves after an action.
    pub cooldown: Cooldown,
    /// The checks, in the order of the policy.
    pub checks: Vec<Check>,
    /// The rules, in the order of the policy.
    pub rules: Vec<Rule>,
    /// What a rule that fails or has no data means.
    pub on_rule_error: OnError,
    /// Stabilisation and rate limits; absent: none.
    pub behavior: Option<Behavior>,
}

/// One question to one series.
#[derive(Clone, Debug)]
pub struct Check {
    /// Checks of one group settle among themselves first; empty: no group.
    pub group: String,
    /// Which part of the series is looked at.
    pub window: Window,
    /// When the check takes part; absent: always.
    pub schedule: Option<Schedule>,
    /// What it means when the series cannot be had, or is empty.
    pub on_error: OnError,
    /// What the numbers mean for the size.
    pub strategy: Strategy,
}

/// What it means when a check fails or has no data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// It is a vote for the present size: others may still scale out, never in.
    #[default]
    Hold,
    /// As if the check were not there.
    Ignore,
    /// The whole evaluation keeps the present size.
    Fail,
}

/// What was seen of a target.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The size it has been asked to have.
    pub count: i64,
    /// What the source of each check answered, in the order of the checks.
    pub checks: &'a [Reading<'a>],
    /// The same for each rule.
    pub rules: &'a [Reading<'a>],
    /// The newest action on the target.
    pub last_action: Option<LastAction>,
    /// The size that it was created with.
    pub original_count: Option<i64>,
    /// Earlier decisions, oldest first.
    pub history: &'a [Past],
}

/// What to do about a target, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The present size.
    pub from: i64,
    /// The size it should have.
    pub to: i64,
    /// Whether something kept the answer from what was wanted.
    pub limited: bool,
    /// Why, step by step.
    pub reasons: Vec<Outcome>,
    /// One for each check and then for each rule.
    pub votes: Vec<Vote>,
}

/// Decides the size of one target.
pub fn decide(policy: &Policy, seen: &Seen<'_>, now: Timestamp) -> Decision {
    let keep = |outcome| Decision::new(seen.count, seen.count, vec![outcome]);
    if !policy.enabled {
        return keep(Outcome::Disabled);
    }
    if policy.schedule.as_ref().is_some_and(|s| !s.is_active(now)) {
        return keep(Outcome::OutsideSchedule);
    }
    if let Some(nearest) = policy.limits.nearest(seen.count) {
        let outcome = Outcome::OutsideLimits { count: seen.count, nearest };
        return Decision { limited: true, ..Decision::new(seen.count, nearest, vec![outcome]) };
    }
    let votes = vote::all(policy, seen, now);
    let mut decision = resolve::settle(&votes, policy, seen.count);
    if let Some(behavior) = &policy.behavior {
        decision = behavior::hold(decision, behavior, seen.history, now);
    }
    decision = cooldown::hold(decision, &policy.cooldown, seen.last_action, now);
    Decision { votes, ..decision }
}

impl Decision {
    fn new(from: i64, to: i64, reasons: Vec<Outcome>) -> Self {
        Self { from, to, limited: false, reasons, votes: Vec::new() }
    }

    /// Moves the answer to `to`, which is not what was wanted, because of `outcome`.
    fn held(mut self, to: i64, outcome: Outcome) -> Self {
        self.to = to;
        self.limited = true;
        self.reasons.push(outcome);
        self
    }
}

/// Gives the moment so long before `at`, or the earliest there is.
fn before(at: Timestamp, span: SignedDuration) -> Timestamp {
    at.checked_sub(span).unwrap_or(Timestamp::MIN)
}

/// Gives the moment so long after `at`, or the latest there is.
fn after(at: Timestamp, span: SignedDuration) -> Timestamp {
    at.checked_add(span).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
