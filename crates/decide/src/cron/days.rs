//! The days that an expression matches.

use jiff::civil::{Date, Weekday};

/// The day-of-month and the day-of-week field. A day has to match both; where both are restricted, one is enough:
/// `0 0 1 * FRI` is the first of the month and every Friday.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Days {
    /// Bit 31 is the 31st.
    pub(super) of_month: u64,
    /// Whether the day-of-month field is `*` or `?`.
    pub(super) any_of_month: bool,
    /// Bit 0 is Sunday.
    pub(super) of_week: u64,
    /// Whether the day-of-week field is `*` or `?`.
    pub(super) any_of_week: bool,
    /// `L`: the last day of the month.
    pub(super) last: bool,
    /// `LW`: the last Monday to Friday of the month.
    pub(super) last_workday: bool,
    /// `15W`: the Monday to Friday nearest to the day, in the same month.
    pub(super) near: u64,
    /// `5L`: the last Friday of the month.
    pub(super) last_of_week: u64,
    /// `5#3`: the third Friday of the month; bit 7 × (3 − 1) + 5.
    pub(super) nth_of_week: u64,
}

impl Days {
    /// Returns whether a date matches.
    pub(super) fn contain(&self, date: Date) -> bool {
        let (in_month, in_week) = (self.match_month(date), self.match_week(date));
        if self.any_of_month || self.any_of_week {
            in_month && in_week
        } else {
            in_month || in_week
        }
    }

    fn match_month(&self, date: Date) -> bool {
        let day = date.day();
        self.any_of_month
            || has(self.of_month, day)
            || (self.last && day == date.days_in_month())
            || (self.last_workday && workday_near(date, date.days_in_month()) == day)
            || (1..=date.days_in_month())
                .any(|wanted| has(self.near, wanted) && workday_near(date, wanted) == day)
    }

    fn match_week(&self, date: Date) -> bool {
        let weekday = date.weekday().to_sunday_zero_offset();
        self.any_of_week
            || has(self.of_week, weekday)
            || has(self.nth_of_week, (date.day() - 1) / 7 * 7 + weekday)
            || (has(self.last_of_week, weekday) && date.day() + 7 > date.days_in_month())
    }
}

fn has(set: u64, bit: i8) -> bool {
    set & (1 << bit) != 0
}

/// Returns the Monday to Friday nearest to a day of the month of `date`, without leaving the month.
fn workday_near(date: Date, day: i8) -> i8 {
    let weekday = i32::from(date.weekday().to_sunday_zero_offset());
    let shifted = (weekday + i32::from(day) - i32::from(date.day())).rem_euclid(7);
    if shifted == i32::from(Weekday::Saturday.to_sunday_zero_offset()) {
        if day > 1 { day - 1 } else { day + 2 }
    } else if shifted == 0 {
        if day < date.days_in_month() { day + 1 } else { day - 2 }
    } else {
        day
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    #[test]
    fn the_nearest_workday_stays_in_the_month() {
        for (year, month, day, wanted) in [
            (2026, 8, 1, 3),   // a Saturday
            (2026, 5, 31, 29), // a Sunday
            (2026, 5, 30, 29),
            (2026, 5, 24, 25),
            (2026, 5, 20, 20),
        ] {
            assert_eq!(workday_near(date(year, month, 15), day), wanted, "{year}-{month}-{day}");
        }
    }

    #[test]
    fn two_restricted_fields_are_alternatives() {
        let days =
            |any| Days { of_month: 1 << 1, of_week: 1 << 5, any_of_week: any, ..Days::default() };
        let friday = date(2026, 1, 2);
        assert!(days(false).contain(friday) && !days(true).contain(friday));
    }
}
