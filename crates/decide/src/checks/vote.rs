//! What does each check and each rule say?

use jiff::Timestamp;

use super::reason::Why;
use super::{OnError, Policy, Reading, Seen};
use crate::rules;

/// Which way a vote goes; the order is that of strength.
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
    /// Gives the way from one size to another.
    pub fn between(from: i64, to: i64) -> Self {
        match to.cmp(&from) {
            std::cmp::Ordering::Less => Self::Down,
            std::cmp::Ordering::Equal => Self::None,
            std::cmp::Ordering::Greater => Self::Up,
        }
    }

    /// Names it: `up`, `down`, `none`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::None => "none",
            Self::Up => "up",
        }
    }
}

/// What a strategy or a rule wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Ballot {
    /// Which way, before rounding and limits.
    pub direction: Direction,
    /// The size it wants; without meaning when the direction is `None`.
    pub count: i64,
    /// Whether a limit made it less, or more, than what the numbers say.
    pub cut: bool,
    /// Why.
    pub why: Why,
}

impl Ballot {
    pub(crate) fn new(direction: Direction, count: i64, why: Why) -> Self {
        Self { direction, count, cut: false, why }
    }

    pub(crate) fn none(why: Why) -> Self {
        Self::new(Direction::None, 0, why)
    }

    pub(crate) fn cut_if(self, cut: bool) -> Self {
        Self { cut: self.cut || cut, ..self }
    }
}

/// Who votes: the number of a check or of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voter {
    /// A check.
    Check(usize),
    /// A rule.
    Rule(usize),
}

/// What became of one check or rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Vote {
    /// It voted.
    Cast(Voter, Ballot),
    /// It has no say: outside its schedule, or its span is not full.
    Absent(Voter, Why),
    /// It failed or had no data.
    Doubt(Voter, Why, OnError),
}

impl Vote {
    /// Tells who.
    pub fn voter(&self) -> Voter {
        match self {
            Self::Cast(voter, _) | Self::Absent(voter, _) | Self::Doubt(voter, ..) => *voter,
        }
    }

    /// Tells why.
    pub fn why(&self) -> &Why {
        match self {
            Self::Cast(_, ballot) => &ballot.why,
            Self::Absent(_, why) | Self::Doubt(_, why, _) => why,
        }
    }
}

/// Asks every check and every rule. What they want is cut to the limits before anything is compared.
pub(super) fn all(policy: &Policy, seen: &Seen<'_>, now: Timestamp) -> Vec<Vote> {
    let mut votes = Vec::with_capacity(policy.checks.len() + policy.rules.len());
    for index in 0..policy.checks.len() {
        votes.push(within(policy, check(policy, seen, index, now)));
    }
    for (index, rule) in policy.rules.iter().enumerate() {
        let reading = seen.rules.get(index).copied().unwrap_or(Reading::Missing);
        let (count, original) = (seen.count, seen.original_count);
        let vote = match rules::vote(rule, reading, count, original, now) {
            Ok(Some(ballot)) => Vote::Cast(Voter::Rule(index), ballot),
            Ok(None) => Vote::Absent(Voter::Rule(index), Why::SpanNotFull),
            Err(why @ Why::NoOriginalCount) => Vote::Absent(Voter::Rule(index), why),
            Err(why) => Vote::Doubt(Voter::Rule(index), why, policy.on_rule_error),
        };
        votes.push(within(policy, vote));
    }
    votes
}

fn check(policy: &Policy, seen: &Seen<'_>, index: usize, now: Timestamp) -> Vote {
    let (voter, check) = (Voter::Check(index), &policy.checks[index]);
    if check.schedule.as_ref().is_some_and(|s| !s.is_active(now)) {
        return Vote::Absent(voter, Why::OutsideSchedule);
    }
    let reading = seen.checks.get(index).copied().unwrap_or(Reading::Missing);
    let values = match reading {
        _ if !check.strategy.needs_numbers() => &[],
        Reading::Series(series) => series.seen(check.window, now),
        Reading::Missing => &[],
        Reading::Failed(words) => {
            return Vote::Doubt(voter, Why::Failed { words: words.to_owned() }, check.on_error);
        }
    };
    match check.strategy.vote(values, seen.count) {
        Some(ballot) => Vote::Cast(voter, ballot),
        None => Vote::Doubt(voter, Why::NoData, check.on_error),
    }
}

/// Cuts what a vote wants to the limits.
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
