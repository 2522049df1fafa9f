//! Rules such as `if cpu >= 60 for 10m then scale out by 1`.
//!
//! As with alerts, the condition has to hold at every point of the duration, and the points have to cover it.

pub mod container;
pub mod service;

use jiff::{SignedDuration, Timestamp};

use crate::checks::{Ballot, Direction, Reading, VoteReason};

/// A condition and its action.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The metric.
    pub metric: Metric,
    /// The comparison.
    pub operation: Operation,
    /// The threshold.
    pub value: f64,
    /// How long the condition has to hold.
    pub span: SignedDuration,
    /// The action.
    pub action: Action,
}

/// The metric of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Percent of CPU.
    Cpu,
    /// Percent of memory.
    Memory,
    /// Requests per second and container.
    Requests,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `<=`
    AtMost,
    /// `>=`
    AtLeast,
    /// `=`, of integers
    Equal,
    /// `<`
    Below,
    /// `>`
    Above,
}

impl Operation {
    /// Evaluates the comparison.
    pub fn holds(self, number: f64, value: f64) -> bool {
        match self {
            Self::AtMost => number <= value,
            Self::AtLeast => number >= value,
            Self::Equal => number.round() == value.round(),
            Self::Below => number < value,
            Self::Above => number > value,
        }
    }
}

/// The action of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Adds units.
    ScaleOut(i64),
    /// Removes units.
    ScaleIn(i64),
    /// Restores the size that the target was created with.
    Default,
}

/// Evaluates a rule. `Ok(None)`: it does not vote yet, because the points do not cover its duration.
pub(crate) fn vote(
    rule: &Rule,
    reading: Reading<'_>,
    count: i64,
    original: Option<i64>,
    now: Timestamp,
) -> Result<Option<Ballot>, VoteReason> {
    let series = match reading {
        Reading::Series(series) => series,
        Reading::Missing => return Err(VoteReason::NoData),
        Reading::Stale(newest_at) => return Err(VoteReason::Stale { newest_at }),
        Reading::Failed(words) => return Err(VoteReason::Failed { words: words.to_owned() }),
    };
    let start = now.checked_sub(rule.span).unwrap_or(Timestamp::MIN);
    let step = series.step();
    let slack = |at: Timestamp, steps| {
        step.checked_mul(steps).and_then(|span| at.checked_add(span).ok()).unwrap_or(Timestamp::MAX)
    };
    // A series that stopped does not cover the time since.
    let newest = series.newest_at(now).filter(|newest| slack(*newest, 2) >= now);
    let values = series.between(start, now);
    if newest.is_none() || values.is_empty() {
        return Err(VoteReason::NoData);
    }
    if series.first_at().is_none_or(|first| first > slack(start, 1)) {
        return Ok(None);
    }
    if !values.iter().all(|number| rule.operation.holds(*number, rule.value)) {
        return Ok(Some(Ballot::none(VoteReason::RuleDoesNotHold)));
    }
    let wanted = match rule.action {
        Action::ScaleOut(more) => count.saturating_add(more),
        Action::ScaleIn(fewer) => count.saturating_sub(fewer).max(0),
        Action::Default => original.ok_or(VoteReason::NoOriginalCount)?,
    };
    Ok(Some(Ballot::new(Direction::between(count, wanted), wanted, VoteReason::RuleHolds)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::Series;
    use Direction::{Down, None, Up};
    use Operation::{Above, AtLeast, AtMost, Below, Equal};

    fn now() -> Timestamp {
        Timestamp::from_second(100_000).unwrap()
    }

    fn minutes(minutes: i64) -> SignedDuration {
        SignedDuration::from_mins(minutes)
    }

    fn rule(operation: Operation, value: f64, span: i64, action: Action) -> Rule {
        Rule { metric: Metric::Cpu, operation, value, span: minutes(span), action }
    }

    fn outcome(
        rule: &Rule,
        values: &[f64],
        original: Option<i64>,
    ) -> Result<(Direction, i64), String> {
        let series = Series::even(values, minutes(1), now());
        match vote(rule, Reading::Series(&series), 5, original, now()) {
            Ok(Some(ballot)) if ballot.direction == None => Ok((None, 5)),
            Ok(Some(ballot)) => Ok((ballot.direction, ballot.count)),
            Ok(Option::None) => Err("not full".to_owned()),
            Err(why) => Err(why.to_string()),
        }
    }

    #[test]
    fn all_five_operations_compare() {
        for (operation, number, holds) in [
            (AtMost, 60.0, true),
            (AtMost, 60.1, false),
            (AtLeast, 60.0, true),
            (AtLeast, 59.9, false),
            (Equal, 60.4, true),
            (Equal, 60.6, false),
            (Below, 60.0, false),
            (Below, 59.9, true),
            (Above, 60.0, false),
            (Above, 60.1, true),
        ] {
            assert_eq!(operation.holds(number, 60.0), holds, "{number} {operation:?} 60");
        }
    }

    #[test]
    fn the_condition_must_hold_at_every_point_of_the_duration() {
        let out = rule(AtLeast, 85.0, 5, Action::ScaleOut(3));
        for (values, wanted) in [
            (&[90.0; 20][..], Ok((Up, 8))),
            (&[90.0; 6], Ok((Up, 8))),
            (&[90.0; 5], Ok((Up, 8))), // within one step
            (&[90.0; 4], Err("not full")),
            (&[50.0, 90.0, 90.0, 90.0, 90.0, 90.0, 90.0], Ok((Up, 8))),
            (&[90.0, 90.0, 90.0, 90.0, 50.0, 90.0, 90.0], Ok((None, 5))),
            (&[], Err("no data")),
        ] {
            assert_eq!(
                outcome(&out, values, Option::None),
                wanted.map_err(str::to_owned),
                "{values:?}"
            );
        }
    }

    #[test]
    fn each_action_changes_the_size() {
        for (action, original, wanted) in [
            (Action::ScaleOut(1), Option::None, Ok((Up, 6))),
            (Action::ScaleIn(2), Option::None, Ok((Down, 3))),
            (Action::ScaleIn(9), Option::None, Ok((Down, 0))),
            (Action::Default, Some(3), Ok((Down, 3))),
            (Action::Default, Some(9), Ok((Up, 9))),
            (Action::Default, Some(5), Ok((None, 5))),
            (Action::Default, Option::None, Err("the original count is unknown".to_owned())),
        ] {
            assert_eq!(outcome(&rule(Below, 50.0, 5, action), &[10.0; 9], original), wanted);
        }
    }

    #[test]
    fn a_series_that_stopped_has_no_data() {
        let series = Series::even(&[10.0; 30], minutes(1), now() - minutes(3));
        let scale_in = rule(Below, 50.0, 10, Action::ScaleIn(1));
        assert_eq!(
            vote(&scale_in, Reading::Series(&series), 5, Option::None, now()),
            Err(VoteReason::NoData)
        );
        assert_eq!(
            vote(&scale_in, Reading::Missing, 5, Option::None, now()),
            Err(VoteReason::NoData)
        );
    }
}
