//! The reasons of votes and decisions.

use std::fmt;

use jiff::Timestamp;

use super::vote::{Direction, Voter};
use crate::Reason;

/// The reason of one check's or rule's vote.
#[derive(Clone, Debug, PartialEq)]
pub enum VoteReason {
    /// The ratio of the newest value to its target.
    Factor { factor: f64 },
    /// Enough values are within bounds.
    InBounds { within: u64 },
    /// Too few values are within bounds.
    TooFewInBounds { within: u64, trigger: u64 },
    /// The newest value.
    Metric { value: f64 },
    /// The size is fixed.
    Fixed { value: i64 },
    /// The rule's condition held for its whole duration.
    RuleHolds,
    /// The rule's condition did not hold for its whole duration.
    RuleDoesNotHold,
    /// The series does not cover the rule's duration.
    SpanNotFull,
    /// The rule asks for the original size, which is unknown.
    NoOriginalCount,
    /// The check is outside its schedule.
    OutsideSchedule,
    /// There are no values.
    NoData,
    /// All values are older than the window.
    Stale { newest_at: Timestamp },
    /// The source failed.
    Failed { words: String },
}

impl Reason for VoteReason {
    fn code(&self) -> &'static str {
        match self {
            Self::Factor { .. } => "Factor",
            Self::InBounds { .. } => "InBounds",
            Self::TooFewInBounds { .. } => "TooFewInBounds",
            Self::Metric { .. } => "Metric",
            Self::Fixed { .. } => "Fixed",
            Self::RuleHolds => "RuleHolds",
            Self::RuleDoesNotHold => "RuleDoesNotHold",
            Self::SpanNotFull => "SpanNotFull",
            Self::NoOriginalCount => "NoOriginalCount",
            Self::OutsideSchedule => "OutsideSchedule",
            Self::NoData => "NoData",
            Self::Stale { .. } => "Stale",
            Self::Failed { .. } => "Failed",
        }
    }
}

impl fmt::Display for VoteReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Factor { factor } => write!(f, "factor is {factor:.6}"),
            Self::InBounds { within } => write!(f, "{within} points within bounds"),
            Self::TooFewInBounds { within, trigger } => {
                write!(f, "{within} points within bounds, {trigger} needed")
            }
            Self::Metric { value } => write!(f, "metric is {value}"),
            Self::Fixed { value } => write!(f, "fixed value is {value}"),
            Self::RuleHolds => f.write_str("held for its whole duration"),
            Self::RuleDoesNotHold => f.write_str("did not hold for its whole duration"),
            Self::SpanNotFull => f.write_str("the series does not cover its duration"),
            Self::NoOriginalCount => f.write_str("the original count is unknown"),
            Self::OutsideSchedule => f.write_str("outside its schedule"),
            Self::NoData => f.write_str("no data"),
            Self::Stale { newest_at } => {
                write!(f, "stale data: the newest point is of {newest_at}")
            }
            Self::Failed { words } => write!(f, "the source failed: {words}"),
        }
    }
}

/// The reason of a decision; one for each step that affected it.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The policy is disabled.
    Disabled,
    /// The policy is outside its schedule.
    OutsideSchedule,
    /// Another autoscaler sizes the target.
    TargetShared { with: String },
    /// The current size is outside the limits.
    OutsideLimits { count: i64, nearest: i64 },
    /// A check with `onError: fail` failed or had no data.
    CheckFailed { voter: Voter },
    /// A check without data holds the current size.
    HeldInDoubt { voter: Voter },
    /// No check is active.
    NoVotes,
    /// The votes resolved to no change.
    NothingWanted { voter: Voter },
    /// A vote won.
    Won { voter: Voter, direction: Direction, count: i64 },
    /// The winning vote was limited.
    Cut { voter: Voter },
    /// The change is within the tolerance.
    WithinTolerance { wanted: i64 },
    /// A size nearer to the current one was desired within the stabilization window.
    Stabilised { wanted: i64, settled: i64 },
    /// The change exceeds the rate limit.
    RateLimited { wanted: i64, allowed: i64 },
    /// The cooldown of the last action has not ended.
    CoolingDown { wanted: i64, until: Timestamp },
}

impl Outcome {
    /// Returns the check or rule that the reason is about.
    pub fn voter(&self) -> Option<Voter> {
        match self {
            Self::CheckFailed { voter }
            | Self::HeldInDoubt { voter }
            | Self::NothingWanted { voter }
            | Self::Won { voter, .. }
            | Self::Cut { voter } => Some(*voter),
            Self::Disabled
            | Self::OutsideSchedule
            | Self::TargetShared { .. }
            | Self::OutsideLimits { .. }
            | Self::NoVotes
            | Self::WithinTolerance { .. }
            | Self::Stabilised { .. }
            | Self::RateLimited { .. }
            | Self::CoolingDown { .. } => None,
        }
    }
}

impl Reason for Outcome {
    fn code(&self) -> &'static str {
        match self {
            Self::Disabled => "Disabled",
            Self::OutsideSchedule => "OutsideSchedule",
            Self::TargetShared { .. } => "TargetShared",
            Self::OutsideLimits { .. } => "OutsideLimits",
            Self::CheckFailed { .. } => "CheckFailed",
            Self::HeldInDoubt { .. } => "HeldInDoubt",
            Self::NoVotes => "NobodyVoted",
            Self::NothingWanted { .. } => "NothingWanted",
            Self::Won { .. } => "Won",
            Self::Cut { .. } => "Cut",
            Self::WithinTolerance { .. } => "WithinTolerance",
            Self::Stabilised { .. } => "Stabilised",
            Self::RateLimited { .. } => "RateLimited",
            Self::CoolingDown { .. } => "CoolingDown",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str("the policy is not enabled"),
            Self::OutsideSchedule => f.write_str("the policy is outside its schedule"),
            Self::TargetShared { with } => write!(f, "{with} sizes the same target"),
            Self::OutsideLimits { count, nearest } => {
                write!(f, "{count} is outside the limits; the nearest allowed count is {nearest}")
            }
            Self::CheckFailed { .. } => f.write_str("returned no data, and its onError is fail"),
            Self::HeldInDoubt { .. } => f.write_str("returned no data; scale-in is held"),
            Self::NoVotes => f.write_str("no check is active"),
            Self::NothingWanted { .. } => {
                f.write_str("wants no change, and no other check wants more")
            }
            Self::Won { direction, count, .. } => {
                write!(f, "votes {} to {count}", direction.name())
            }
            Self::Cut { .. } => f.write_str("its change was limited"),
            Self::WithinTolerance { wanted } => {
                write!(f, "{wanted} is within the tolerance of the current count")
            }
            Self::Stabilised { wanted, settled } => {
                write!(f, "wanted {wanted}; stabilized at {settled}")
            }
            Self::RateLimited { wanted, allowed } => {
                write!(f, "wanted {wanted}; the rate limit allows {allowed}")
            }
            Self::CoolingDown { wanted, until } => {
                write!(f, "wanted {wanted}; cooling down until {until}")
            }
        }
    }
}
