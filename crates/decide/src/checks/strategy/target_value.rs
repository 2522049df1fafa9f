//! Keeps the newest value near a target, assuming that it is proportional to the load per unit.

use super::Steps;
use crate::checks::reason::VoteReason;
use crate::checks::vote::{Ballot, Direction};

/// A target value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TargetValue {
    /// The target.
    pub target: f64,
    /// The relative deviation from the target that causes no vote.
    pub threshold: f64,
    /// Limits on one action.
    pub steps: Steps,
}

impl TargetValue {
    /// Votes for the size that brings the value to the target. With a target of 0 the value itself is the factor.
    pub(super) fn vote(self, newest: f64, count: i64) -> Ballot {
        let factor = if self.target == 0.0 { newest } else { newest / self.target };
        let why = VoteReason::Factor { factor };
        let direction = self.direction(factor, count);
        if direction == Direction::None {
            return Ballot::none(why);
        }
        // Rounds up in favour of capacity, including floating-point errors of the product.
        let exact = if count == 0 { factor } else { count as f64 * factor };
        let wanted = exact.ceil() as i64;
        let allowed = self.steps.limit(wanted, count);
        if allowed == count {
            return Ballot::none(why).cut_if(allowed != wanted);
        }
        Ballot::new(direction, allowed, why).cut_if(allowed != wanted)
    }

    fn direction(self, factor: f64, count: i64) -> Direction {
        if count == 0 {
            if factor > 0.0 { Direction::Up } else { Direction::None }
        } else if factor < 1.0 - self.threshold {
            Direction::Down
        } else if factor > 1.0 + self.threshold {
            Direction::Up
        } else {
            Direction::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Down, None, Up};

    #[test]
    fn the_size_is_proportional_to_the_value() {
        for (newest, target, threshold, count, direction, to) in [
            (105.0, 70.0, 0.01, 4, Up, 6),
            (30.0, 70.0, 0.01, 4, Down, 2),
            (70.2, 70.0, 0.01, 4, None, 0),
            (110.0, 100.0, 0.1, 4, None, 0),
            (90.0, 100.0, 0.1, 4, None, 0),
            (50.0, 100.0, 0.5, 4, None, 0),
            (150.0, 100.0, 0.5, 4, None, 0),
            (90.0, 100.0, 0.01, 4, None, 0), // ceil(3.6) is the present size
            (0.0, 70.0, 0.01, 4, Down, 0),
            (-70.0, 70.0, 0.01, 4, Down, -4),
            (105.0, 70.0, 0.01, 0, Up, 2),
            (0.0, 70.0, 0.01, 0, None, 0),
            (-5.0, 70.0, 0.01, 0, None, 0),
            (25.0, 0.0, 0.01, 4, Up, 100),
            (0.0, 0.0, 0.01, 4, Down, 0),
            (1e300, 1e-300, 0.01, 4, Up, i64::MAX),
        ] {
            let strategy = TargetValue { target, threshold, steps: Steps::default() };
            let ballot = strategy.vote(newest, count);
            let what = format!("{newest} of {target} with {count}");
            assert_eq!((ballot.direction, ballot.count), (direction, to), "{what}");
        }
    }

    #[test]
    fn steps_limit_the_change() {
        for (newest, max_up, max_down, direction, to) in [
            (700.0, Some(1), Option::None, Up, 5),
            (7.0, Option::None, Some(1), Down, 3),
            (700.0, Some(0), Option::None, None, 0),
        ] {
            let steps = Steps { max_up, max_down };
            let ballot = TargetValue { target: 70.0, threshold: 0.01, steps }.vote(newest, 4);
            assert_eq!((ballot.direction, ballot.count, ballot.cut), (direction, to, true));
        }
    }
}
