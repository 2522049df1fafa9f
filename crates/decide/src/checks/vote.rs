//! The votes of checks and rules.

use jiff::Timestamp;

use super::reason::VoteReason;
use super::{OnError, Policy, Reading, TargetObservation};
use crate::rules;

/// The direction of a vote, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Fewer.
    Down,
    /// No change.
    None,
    /// More.
    Up,
}

impl Direction {
    /// Returns the direction from one size to another.
    pub fn between(from: i64, to: i64) -> Self {
        match to.cmp(&from) {
            std::cmp::Ordering::Less => Self::Down,
            std::cmp::Ordering::Equal => Self::None,
            std::cmp::Ordering::Greater => Self::Up,
        }
    }

    /// Returns its name: `up`, `down`, `none`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::None => "none",
            Self::Up => "up",
        }
    }
}

/// The vote of a strategy or a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Ballot {
    /// The direction, before rounding and limits.
    pub direction: Direction,
    /// The desired size; meaningless when the direction is `None`.
    pub count: i64,
    /// Whether a limit changed the size.
    pub cut: bool,
    /// The reason.
    pub why: VoteReason,
}

impl Ballot {
    pub(crate) fn new(direction: Direction, count: i64, why: VoteReason) -> Self {
        Self { direction, count, cut: false, why }
    }

    pub(crate) fn none(why: VoteReason) -> Self {
        Self::new(Direction::None, 0, why)
    }

    pub(crate) fn cut_if(self, cut: bool) -> Self {
        Self { cut: self.cut || cut, ..self }
    }
}

/// A voter: the index of a check or of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voter {
    /// A check.
    Check(usize),
    /// A rule.
    Rule(usize),
}

/// The result of one check or rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Vote {
    /// It voted.
    Cast(Voter, Ballot),
    /// It does not vote: outside its schedule, or its series is too short.
    Absent(Voter, VoteReason),
    /// It failed or had no data.
    Doubt(Voter, VoteReason, OnError),
}

impl Vote {
    /// Returns the voter.
    pub fn voter(&self) -> Voter {
        match self {
            Self::Cast(voter, _) | Self::Absent(voter, _) | Self::Doubt(voter, ..) => *voter,
        }
    }

    /// Returns the reason.
    pub fn why(&self) -> &VoteReason {
        match self {
            Self::Cast(_, ballot) => &ballot.why,
            Self::Absent(_, why) | Self::Doubt(_, why, _) => why,
        }
    }
}

/// Evaluates every check and every rule. Votes are limited before they are compared.
pub(super) fn all(policy: &Policy, observed: &TargetObservation<'_>, now: Timestamp) -> Vec<Vote> {
    let mut votes = Vec::with_capacity(policy.checks.len() + policy.rules.len());
    for index in 0..policy.checks.len() {
        votes.push(within(policy, check(policy, observed, index, now)));
    }
    for (index, rule) in policy.rules.iter().enumerate() {
        let reading = observed.rules.get(index).copied().unwrap_or(Reading::Missing);
        let (count, original) = (observed.count, observed.original_count);
        let vote = match rules::vote(rule, reading, count, original, now) {
            Ok(Some(ballot)) => Vote::Cast(Voter::Rule(index), ballot),
            Ok(None) => Vote::Absent(Voter::Rule(index), VoteReason::SpanNotFull),
            Err(why @ VoteReason::NoOriginalCount) => Vote::Absent(Voter::Rule(index), why),
            Err(why) => Vote::Doubt(Voter::Rule(index), why, policy.on_rule_error),
        };
        votes.push(within(policy, vote));
    }
    votes
}

fn check(policy: &Policy, observed: &TargetObservation<'_>, index: usize, now: Timestamp) -> Vote {
    let (voter, check) = (Voter::Check(index), &policy.checks[index]);
    if check.schedule.as_ref().is_some_and(|s| !s.is_active(now)) {
        return Vote::Absent(voter, VoteReason::OutsideSchedule);
    }
    let reading = observed.checks.get(index).copied().unwrap_or(Reading::Missing);
    let values = match reading {
        _ if !check.strategy.needs_numbers() => &[],
        Reading::Series(series) => series.observed(check.window, now),
        Reading::Missing => &[],
        Reading::Stale(newest_at) => {
            return Vote::Doubt(voter, VoteReason::Stale { newest_at }, check.on_error);
        }
        Reading::Failed(words) => {
            return Vote::Doubt(
                voter,
                VoteReason::Failed { words: words.to_owned() },
                check.on_error,
            );
        }
    };
    match check.strategy.vote(values, observed.count) {
        Some(ballot) => Vote::Cast(voter, ballot),
        None => Vote::Doubt(voter, VoteReason::NoData, check.on_error),
    }
}

/// Limits a vote.
fn within(policy: &Policy, vote: Vote) -> Vote {
    match vote {
        Vote::Cast(voter, ballot) if ballot.direction != Direction::None => {
            let count = policy.limits.clamp(ballot.count);
            let cut = count != ballot.count;
            Vote::Cast(voter, Ballot { count, ..ballot }.cut_if(cut))
        }
        Vote::Cast(..) | Vote::Absent(..) | Vote::Doubt(..) => vote,
    }
}
