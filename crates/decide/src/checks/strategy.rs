//! What do the numbers of a check mean for the size?

mod fixed_value;
mod pass_through;
mod target_value;
mod threshold;

use super::vote::Ballot;
pub use fixed_value::FixedValue;
pub use pass_through::PassThrough;
pub use target_value::TargetValue;
pub use threshold::{Bounds, Threshold, To};

/// One way of turning numbers into a size.
#[derive(Clone, Debug, PartialEq)]
pub enum Strategy {
    /// Keeps the newest number near a target, as if every unit carried its share of it.
    TargetValue(TargetValue),
    /// Moves when enough numbers are within bounds.
    Threshold(Threshold),
    /// The newest number is the size.
    PassThrough(PassThrough),
    /// The size is always the same; no number is needed.
    FixedValue(FixedValue),
}

impl Strategy {
    /// Tells whether there is anything to measure.
    pub fn needs_numbers(&self) -> bool {
        !matches!(self, Self::FixedValue(_))
    }

    /// Votes, given the numbers in the window, oldest first; `None` when they are needed and there are none.
    pub fn vote(&self, values: &[f64], count: i64) -> Option<Ballot> {
        if let Self::FixedValue(fixed) = self {
            return Some(fixed.vote(count));
        }
        let newest = *values.last()?;
        Some(match self {
            Self::TargetValue(strategy) => strategy.vote(newest, count),
            Self::Threshold(strategy) => strategy.vote(values, count),
            Self::PassThrough(strategy) => strategy.vote(newest, count),
            Self::FixedValue(strategy) => strategy.vote(count),
        })
    }
}

/// How far one action may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// At most so many more at once.
    pub max_up: Option<i64>,
    /// At most so many fewer at once.
    pub max_down: Option<i64>,
}

impl Steps {
    /// Moves `wanted` to where one action may go from `count`.
    fn limit(self, wanted: i64, count: i64) -> i64 {
        let lowest = self.max_down.map_or(i64::MIN, |step| count.saturating_sub(step));
        let highest = self.max_up.map_or(i64::MAX, |step| count.saturating_add(step));
        wanted.max(lowest).min(highest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_limit_each_direction_alone() {
        for (max_up, max_down, wanted, allowed) in [
            (None, None, 90, 90),
            (Some(2), None, 90, 7),
            (Some(2), None, 0, 0),
            (None, Some(2), 0, 3),
            (None, Some(2), 90, 90),
            (Some(0), Some(0), 90, 5),
            (Some(i64::MAX), Some(i64::MAX), i64::MAX, i64::MAX),
        ] {
            let steps = Steps { max_up, max_down };
            assert_eq!(steps.limit(wanted, 5), allowed, "{steps:?} {wanted}");
        }
    }

    #[test]
    fn no_numbers_is_no_vote_but_for_a_fixed_value() {
        let strategies = [
            Strategy::TargetValue(TargetValue {
                target: 1.0,
                threshold: 0.0,
                steps: Steps::default(),
            }),
            Strategy::PassThrough(PassThrough { steps: Steps::default() }),
            Strategy::Threshold(Threshold {
                bounds: Bounds { lower: 0.0, upper: 1.0 },
                trigger: 0,
                to: To::Delta(1),
            }),
        ];
        for strategy in strategies {
            assert!(strategy.needs_numbers() && strategy.vote(&[], 3).is_none());
        }
        let fixed = Strategy::FixedValue(FixedValue { value: 3 });
        assert!(!fixed.needs_numbers() && fixed.vote(&[], 3).is_some());
    }
}
