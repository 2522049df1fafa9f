//! A constant size; with a schedule, a size by time of day.

use crate::checks::reason::VoteReason;
use crate::checks::vote::{Ballot, Direction};

/// A size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedValue {
    /// The size.
    pub value: i64,
}

impl FixedValue {
    pub(super) fn vote(self, count: i64) -> Ballot {
        let direction = Direction::between(count, self.value);
        Ballot::new(direction, self.value, VoteReason::Fixed { value: self.value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_direction_is_towards_the_value() {
        for (value, direction) in [(2, Direction::Down), (5, Direction::None), (9, Direction::Up)] {
            let ballot = FixedValue { value }.vote(5);
            assert_eq!((ballot.direction, ballot.count), (direction, value));
        }
    }
}
