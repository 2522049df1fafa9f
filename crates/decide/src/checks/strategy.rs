//! Strategies: how the values of a check determine the size.

mod fixed_value;
mod pass_through;
mod target_value;
mod threshold;

use super::vote::Ballot;
pub use fixed_value::FixedValue;
pub use pass_through::PassThrough;
pub use target_value::TargetValue;
pub use threshold::{Bounds, Threshold, To};

/// How values determine the size.
#[derive(Clone, Debug, PartialEq)]
pub enum Strategy {
    /// Keeps the newest value near a target, assuming that it is proportional to the load per unit.
    TargetValue(TargetValue),
    /// Acts when enough values are within bounds.
    Threshold(Threshold),
    /// Uses the newest value as the size.
    PassThrough(PassThrough),
    /// Uses a constant size; needs no values.
    FixedValue(FixedValue),
}

impl Strategy {
    /// Returns whether the strategy reads a metric.
    pub fn needs_numbers(&self) -> bool {
        !matches!(self, Self::FixedValue(_))
    }

    /// Votes on the values in the window, oldest first; `None` when values are needed and there are none.
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

/// Limits on one action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// The largest increase.
    pub max_up: Option<i64>,
    /// The largest decrease.
    pub max_down: Option<i64>,
}

impl Steps {
    /// Limits `wanted` to what one action may reach from `count`.
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
    fn steps_limit_each_direction_separately() {
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
    fn only_a_fixed_value_votes_without_values() {
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
