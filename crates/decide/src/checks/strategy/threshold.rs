//! Acts when enough values are within bounds.

use crate::checks::reason::VoteReason;
use crate::checks::vote::{Ballot, Direction};

/// An action that is triggered when enough values are within bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// The bounds.
    pub bounds: Bounds,
    /// The number of values that must be within them; not necessarily consecutive.
    pub trigger: u64,
    /// The resulting size.
    pub to: To,
}

/// A half-open range: `lower` inclusive, `upper` exclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The lower bound, inclusive.
    pub lower: f64,
    /// The upper bound, exclusive.
    pub upper: f64,
}

/// How the size changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum To {
    /// By a number of units.
    Delta(i64),
    /// By a percentage of the current size.
    Percentage(f64),
    /// To this size.
    Value(i64),
}

impl Threshold {
    pub(super) fn vote(&self, values: &[f64], count: i64) -> Ballot {
        let Bounds { lower, upper } = self.bounds;
        let within = values.iter().filter(|value| (lower..upper).contains(*value)).count() as u64;
        if within < self.trigger {
            return Ballot::none(VoteReason::TooFewInBounds { within, trigger: self.trigger });
        }
        let wanted = match self.to {
            To::Delta(delta) => count.saturating_add(delta),
            // Rounded like the original: 100 units plus 10 percent are 111.
            To::Percentage(percent) => (count as f64 * (1.0 + percent / 100.0)).ceil() as i64,
            To::Value(value) => value,
        };
        let wanted = wanted.max(0);
        Ballot::new(Direction::between(count, wanted), wanted, VoteReason::InBounds { within })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Down, None, Up};

    const ANY: Bounds = Bounds { lower: f64::NEG_INFINITY, upper: f64::INFINITY };

    fn vote(bounds: Bounds, trigger: u64, to: To, values: &[f64], count: i64) -> (Direction, i64) {
        let ballot = Threshold { bounds, trigger, to }.vote(values, count);
        (ballot.direction, ballot.count)
    }

    #[test]
    fn the_lower_bound_is_inclusive_and_the_upper_one_exclusive() {
        let bounds = Bounds { lower: 75.0, upper: 100.0 };
        for (value, fires) in [(74.9, false), (75.0, true), (99.9, true), (100.0, false)] {
            let found = vote(bounds, 1, To::Delta(1), &[value], 3);
            assert_eq!(found.0 == Up, fires, "{value}");
        }
        let reversed = Bounds { lower: 100.0, upper: 75.0 };
        assert_eq!(vote(reversed, 1, To::Delta(1), &[80.0, 110.0], 3).0, None);
    }

    #[test]
    fn enough_values_anywhere_in_the_window_trigger() {
        let bounds = Bounds { lower: 75.0, ..ANY };
        for (values, trigger, fires) in [
            (&[80.0, 1.0, 80.0, 1.0, 80.0][..], 3, true),
            (&[80.0, 1.0, 80.0], 3, false),
            (&[1.0], 0, true),
        ] {
            assert_eq!(vote(bounds, trigger, To::Delta(2), values, 3).0 == Up, fires);
        }
    }

    #[test]
    fn the_size_is_added_to_multiplied_or_set() {
        for (to, count, direction, wanted) in [
            (To::Delta(2), 3, Up, 5),
            (To::Delta(-2), 3, Down, 1),
            (To::Delta(-9), 3, Down, 0),
            (To::Delta(i64::MAX), 3, Up, i64::MAX),
            (To::Percentage(10.0), 3, Up, 4),
            (To::Percentage(10.0), 100, Up, 111),
            (To::Percentage(-50.0), 1, None, 1),
            (To::Percentage(-100.0), 1, Down, 0),
            (To::Percentage(-200.0), 5, Down, 0),
            (To::Percentage(50.0), 0, None, 0),
            (To::Value(7), 3, Up, 7),
            (To::Value(7), 7, None, 7),
            (To::Value(0), 7, Down, 0),
        ] {
            assert_eq!(vote(ANY, 1, to, &[1.0], count), (direction, wanted), "{to:?} of {count}");
        }
    }
}
