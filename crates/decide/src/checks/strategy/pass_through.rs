//! Uses the newest value as the size.

use super::Steps;
use crate::checks::reason::VoteReason;
use crate::checks::vote::{Ballot, Direction};

/// Uses the newest value as the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassThrough {
    /// Limits on one action.
    pub steps: Steps,
}

impl PassThrough {
    /// Votes. The value is compared before it is truncated: 5.5 with 5 units is a vote to scale up, though not beyond 5, and
    /// thereby outweighs votes to scale down.
    pub(super) fn vote(self, newest: f64, count: i64) -> Ballot {
        let present = count as f64;
        let direction = if newest > present {
            Direction::Up
        } else if newest < present {
            Direction::Down
        } else {
            Direction::None
        };
        let wanted = newest as i64;
        let allowed = self.steps.limit(wanted, count);
        Ballot::new(direction, allowed, VoteReason::Metric { value: newest })
            .cut_if(allowed != wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Down, None, Up};

    #[test]
    fn the_newest_value_is_the_size() {
        for (newest, count, max_up, max_down, direction, to, cut) in [
            (7.0, 3, Option::None, Option::None, Up, 7, false),
            (7.9, 3, Option::None, Option::None, Up, 7, false),
            (3.9, 7, Option::None, Option::None, Down, 3, false),
            (5.5, 5, Option::None, Option::None, Up, 5, false),
            (5.0, 5, Option::None, Option::None, None, 5, false),
            (-0.5, 0, Option::None, Option::None, Down, 0, false),
            (12.0, 5, Some(3), Option::None, Up, 8, true),
            (1.0, 5, Some(3), Some(2), Down, 3, true),
            (1e300, 5, Option::None, Option::None, Up, i64::MAX, false),
            (-1e300, 5, Option::None, Option::None, Down, i64::MIN, false),
        ] {
            let steps = Steps { max_up, max_down };
            let ballot = PassThrough { steps }.vote(newest, count);
            let found = (ballot.direction, ballot.count, ballot.cut);
            assert_eq!(found, (direction, to, cut), "{newest} with {count}");
        }
    }
}
