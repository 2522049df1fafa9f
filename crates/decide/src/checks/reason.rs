//! Why a vote and a decision are what they are.

use std::fmt;

use jiff::Timestamp;

use super::vote::{Direction, Voter};
use crate::Reason;

/// Why one check or rule says what it says.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// How the newest number stands to its target.
    Factor { factor: f64 },
    /// Enough numbers are within bounds.
    InBounds { within: u64 },
    /// Too few numbers are within bounds.
    TooFewInBounds { within: u64, trigger: u64 },
    /// The newest number.
    Metric { value: f64 },
    /// The size is fixed.
    Fixed { value: i64 },
    /// The condition of a rule held all through its span.
    RuleHolds,
    /// The condition of a rule did not hold all through its span.
    RuleDoesNotHold,
    /// The numbers do not reach back over the whole span of a rule.
    SpanNotFull,
    /// A rule asks for the original size, which is not known.
    NoOriginalCount,
    /// A check is outside its schedule.
    OutsideSchedule,
    /// There are no numbers, or only old ones.
    NoData,
    /// The source failed.
    Failed { words: String },
}

impl Reason for Why {
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
            Self::Failed { .. } => "Failed",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Factor { factor } => write!(f, "factor is {factor:.6}"),
            Self::InBounds { within } => write!(f, "{within} points within bounds"),
            Self::TooFewInBounds { within, trigger } => {
                write!(f, "{within} points within bounds, {trigger} needed")
            }
            Self::Metric { value } => write!(f, "metric is {value}"),
            Self::Fixed { value } => write!(f, "fixed value is {value}"),
            Self::RuleHolds => f.write_str("held all through its span"),
            Self::RuleDoesNotHold => f.write_str("did not hold all through its span"),
            Self::SpanNotFull => f.write_str("the series does not reach back over its span"),
            Self::NoOriginalCount => f.write_str("the original count is not known"),
            Self::OutsideSchedule => f.write_str("outside its schedule"),
            Self::NoData => f.write_str("no data"),
            Self::Failed { words } => write!(f, "the source failed: {words}"),
        }
    }
}

/// Why a decision is what it is; one for each step that had a say.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The policy is off.
    Disabled,
    /// The policy is outside its schedule.
    OutsideSchedule,
    /// The present size is not allowed.
    OutsideLimits { count: i64, nearest: i64 },
    /// A check that must not fail did, or had no data.
    CheckFailed { voter: Voter },
    /// A check without an answer keeps what is there.
    HeldInDoubt { voter: Voter },
    /// No check takes part now.
    NobodyVoted,
    /// The votes settled on no change.
    NothingWanted { voter: Voter },
    /// A vote won.
    Won { voter: Voter, direction: Direction, count: i64 },
    /// The vote that won had been cut to the limits.
    Cut { voter: Voter },
    /// The change is too small to be made.
    WithinTolerance { wanted: i64 },
    /// Something nearer to the present size was wanted a short while ago.
    Stabilised { wanted: i64, settled: i64 },
    /// So much may not change at once.
    RateLimited { wanted: i64, allowed: i64 },
    /// The last action was a short while ago.
    CoolingDown { wanted: i64, until: Timestamp },
}

impl Outcome {
    /// Tells whom it is about, for those who know the names.
    pub fn voter(&self) -> Option<Voter> {
        match self {
            Self::CheckFailed { voter }
            | Self::HeldInDoubt { voter }
            | Self::NothingWanted { voter }
            | Self::Won { voter, .. }
            | Self::Cut { voter } => Some(*voter),
            Self::Disabled
            | Self::OutsideSchedule
            | Self::OutsideLimits { .. }
            | Self::NobodyVoted
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
            Self::OutsideLimits { .. } => "OutsideLimits",
            Self::CheckFailed { .. } => "CheckFailed",
            Self::HeldInDoubt { .. } => "HeldInDoubt",
            Self::NobodyVoted => "NobodyVoted",
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
            Self::OutsideLimits { count, nearest } => {
                write!(f, "{count} is not allowed, {nearest} is the nearest that is")
            }
            Self::CheckFailed { .. } => f.write_str("it has no answer and must not fail"),
            Self::HeldInDoubt { .. } => {
                f.write_str("it has no answer, so nothing that is there goes")
            }
            Self::NobodyVoted => f.write_str("no check takes part now"),
            Self::NothingWanted { .. } => f.write_str("it wants no change, and nobody wants more"),
            Self::Won { direction, count, .. } => {
                write!(f, "votes {} to {count}", direction.name())
            }
            Self::Cut { .. } => f.write_str("it wanted to go further than it may"),
            Self::WithinTolerance { wanted } => {
                write!(f, "{wanted} is within the tolerance of the present size")
            }
            Self::Stabilised { wanted, settled } => {
                write!(f, "{wanted} is wanted, {settled} was wanted all through the window")
            }
            Self::RateLimited { wanted, allowed } => {
                write!(f, "{wanted} is wanted, the rate allows {allowed}")
            }
            Self::CoolingDown { wanted, until } => {
                write!(f, "{wanted} is wanted, the last action holds until {until}")
            }
        }
    }
}
