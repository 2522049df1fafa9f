//! The Buffer policy: a number of spare servers beyond the Allocated ones.

use super::size::PolicySize;
use super::{Amount, Buffer, Fleet, Reason};

/// Adds the buffer to the Allocated servers, within the limits. Every server that is not Allocated counts as spare, including
/// Reserved and not yet Ready ones.
pub(super) fn size(policy: &Buffer, fleet: &Fleet) -> PolicySize {
    let allocated = i64::from(fleet.status.allocated);
    let wanted = match policy.size {
        Amount::Count(size) => allocated.saturating_add(size),
        Amount::Percent(percent) => total_for(allocated, percent),
    };
    let spare = i64::from(fleet.status.replicas) - allocated;
    let mut reasons = vec![Reason::buffer(spare, wanted.saturating_sub(allocated))];
    let (min, max) = (i64::from(policy.min), i64::from(policy.max));
    let mut to = wanted;
    if to < min {
        to = min;
        reasons.push(Reason::AtMinimum { asked: wanted, min });
    }
    if to > max {
        to = max;
        reasons.push(Reason::AtMaximum { asked: wanted, max });
    }
    PolicySize { to: i32::try_from(to).unwrap_or(i32::MAX), limited: to != wanted, reasons }
}

/// Returns the total of which `used` leaves `percent` free, rounded up.
pub(super) fn total_for(used: i64, percent: i64) -> i64 {
    let left = i128::from((100 - percent).max(1));
    let total = (i128::from(used) * 100 + left - 1).div_euclid(left);
    i64::try_from(total).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::testing::fleet;

    fn check(size: Amount, min: i32, max: i32, allocated: i32) -> (i32, bool) {
        let mut fleet = fleet(3);
        fleet.status.allocated = allocated;
        let found = super::size(&Buffer { size, min, max }, &fleet);
        (found.to, found.limited)
    }

    #[test]
    fn a_count_is_added_to_the_allocated_servers() {
        for (allocated, to, limited) in
            [(0, 5, false), (3, 8, false), (15, 20, false), (16, 20, true)]
        {
            assert_eq!(check(Amount::Count(5), 0, 20, allocated), (to, limited), "{allocated}");
        }
    }

    #[test]
    fn a_percentage_is_of_the_total_and_rounds_up() {
        for (percent, allocated, to) in
            [(20, 0, 1), (20, 4, 5), (20, 5, 7), (50, 3, 6), (99, 1, 100), (1, 99, 100)]
        {
            assert_eq!(check(Amount::Percent(percent), 1, 1000, allocated).0, to, "{percent}%");
        }
    }

    #[test]
    fn limits_are_reported_when_they_apply() {
        assert_eq!(check(Amount::Count(2), 4, 10, 1), (4, true));
        assert_eq!(check(Amount::Count(2), 4, 10, 2), (4, false), "just at the minimum is free");
        assert_eq!(check(Amount::Count(2), 0, 10, 0), (2, false), "a minimum of 0 is none");
        assert_eq!(check(Amount::Count(2), 4, 10, 8), (10, false));
        assert_eq!(check(Amount::Count(2), 4, 10, 9), (10, true));
        assert_eq!(check(Amount::Count(1), 9, 3, 0), (3, true), "the maximum has the last word");
    }

    #[test]
    fn huge_numbers_do_not_overflow() {
        assert_eq!(check(Amount::Percent(99), 1, i32::MAX, 30_000_000), (i32::MAX, true));
        assert_eq!(check(Amount::Count(i64::MAX), 1, i32::MAX, i32::MAX), (i32::MAX, true));
    }
}
