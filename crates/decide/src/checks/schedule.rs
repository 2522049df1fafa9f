//! The schedule of a policy or a check.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::before;
use crate::cron::Cron;

/// A recurring period. Its start is inclusive, its end exclusive.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// When a period starts.
    pub start: Cron,
    /// When a period ends.
    pub ends: Ends,
    /// The time zone.
    pub zone: TimeZone,
}

/// When a period ends.
#[derive(Clone, Debug)]
pub enum Ends {
    /// At the next of these times.
    At(Cron),
    /// After a duration.
    After(SignedDuration),
}

impl Schedule {
    /// Returns whether a period is active.
    pub fn is_active(&self, now: Timestamp) -> bool {
        let Some(started) = self.start.last_at_or_before(now, &self.zone) else { return false };
        match &self.ends {
            // Where start and end coincide, the end wins: the period is empty.
            Ends::At(end) => {
                end.last_at_or_before(now, &self.zone).is_none_or(|ended| started > ended)
            }
            Ends::After(lasting) => started > before(now, *lasting),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cron::Dialect;

    fn cron(text: &str) -> Cron {
        Cron::parse(text, Dialect::Nomad).unwrap()
    }

    #[test]
    fn a_span_begins_inclusive_and_ends_exclusive() {
        // 2026-01-05 is a Monday.
        for (start, end, at, active) in [
            ("0 8 * * 1-5", "0 20 * * 1-5", "2026-01-05T07:59:59Z", false),
            ("0 8 * * 1-5", "0 20 * * 1-5", "2026-01-05T08:00:00Z", true),
            ("0 8 * * 1-5", "0 20 * * 1-5", "2026-01-05T19:59:59Z", true),
            ("0 8 * * 1-5", "0 20 * * 1-5", "2026-01-05T20:00:00Z", false),
            ("0 22 * * *", "0 6 * * *", "2026-01-05T03:00:00Z", true),
            ("0 22 * * *", "0 6 * * *", "2026-01-05T06:00:00Z", false),
            ("0 8 * * *", "0 8 * * *", "2026-01-05T12:00:00Z", false),
            ("0 0 * * 1", "0 12 * * *", "2026-01-07T08:00:00Z", false),
            ("0 0 31 2 *", "0 12 * * *", "2026-01-07T08:00:00Z", false),
            ("0 8 * * *", "0 0 31 2 *", "2026-01-07T01:00:00Z", true),
        ] {
            let ends = Ends::At(cron(end));
            let schedule = Schedule { start: cron(start), ends, zone: TimeZone::UTC };
            assert_eq!(schedule.is_active(at.parse().unwrap()), active, "{start} to {end} at {at}");
        }
    }

    #[test]
    fn a_period_with_a_duration_is_half_open() {
        for (start, minutes, at, active) in [
            ("*/30 * * * *", 10, "2026-01-05T10:09:59Z", true),
            ("*/30 * * * *", 10, "2026-01-05T10:10:00Z", false),
            ("*/30 * * * *", 45, "2026-01-05T10:29:59Z", true),
            ("0 23 * * *", 180, "2026-01-05T01:59:59Z", true),
            ("0 23 * * *", 180, "2026-01-05T02:00:00Z", false),
            ("0 0 31 2 *", 180, "2026-01-05T02:00:00Z", false),
        ] {
            let ends = Ends::After(SignedDuration::from_mins(minutes));
            let schedule = Schedule { start: cron(start), ends, zone: TimeZone::UTC };
            assert_eq!(schedule.is_active(at.parse().unwrap()), active, "{start} at {at}");
        }
    }

    #[test]
    fn a_schedule_uses_its_own_time_zone() {
        let zone = TimeZone::get("America/New_York").unwrap();
        let ends = Ends::After(SignedDuration::from_hours(1));
        let schedule = Schedule { start: cron("0 8 * * *"), ends, zone };
        assert!(schedule.is_active("2026-01-05T13:30:00Z".parse().unwrap()));
        assert!(!schedule.is_active("2026-01-05T08:30:00Z".parse().unwrap()));
    }
}
