//! Cron expressions.
//!
//! There are two dialects, since Agones and Nomad Autoscaler interpret the same five fields differently. Times are local times
//! in some time zone: one that is skipped in spring does not occur that day, one that is repeated in autumn occurs twice.

mod days;
mod fields;

use jiff::civil::{Date, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use days::Days;

/// The interpretation of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Five fields or a word such as `@daily` or `@every 1h30m`; Sunday is only 0.
    Agones,
    /// Exactly five fields; Sunday is 0 or 7, and `L`, `W` and `#` pick days.
    Nomad,
}

/// A parsed expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    times: Times,
    dialect: Dialect,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Times {
    /// A fixed duration after any given time.
    Every(SignedDuration),
    Calendar(Calendar),
}

/// Sets of numbers as bits: bit 5 of `hours` is five o'clock.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Calendar {
    minutes: u64,
    hours: u64,
    months: u64,
    days: Days,
}

impl Cron {
    /// Parses an expression.
    pub fn parse(text: &str, dialect: Dialect) -> Result<Self, String> {
        let times = match dialect {
            Dialect::Agones => fields::agones(text),
            Dialect::Nomad => fields::nomad(text),
        };
        times.map(|times| Self { times, dialect }).map_err(|err| format!("`{text}`: {err}"))
    }

    /// Returns the first occurrence after `at`; `None` when there is none within the dialect's horizon: five years for Agones,
    /// the year 2099 for Nomad.
    pub fn next_after(&self, at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let calendar = match &self.times {
            Times::Every(pause) => return whole_seconds(at)?.checked_add(*pause).ok(),
            Times::Calendar(calendar) => calendar,
        };
        let local = zone.to_datetime(at);
        let last_year = match self.dialect {
            Dialect::Agones => local.year().checked_add(5)?,
            Dialect::Nomad => 2099,
        };
        let mut date = local.date();
        while date.year() <= last_year {
            if !calendar.has_month(date) {
                date = date.last_of_month().tomorrow().ok()?;
                continue;
            }
            if calendar.days.contain(date) {
                let from = if date == local.date() { local.time() } else { Time::midnight() };
                if let Some(found) = calendar.first_on(date, from, at, zone) {
                    return Some(found);
                }
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// Returns the last occurrence that is not after `at`, up to 32 years back as in Nomad Autoscaler. `@every` has none: it is
    /// relative to the given time.
    pub fn last_at_or_before(&self, at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let Times::Calendar(calendar) = &self.times else { return None };
        let mut date = zone.to_datetime(at).date();
        let first_year = date.year() - 32;
        while date.year() >= first_year {
            if !calendar.has_month(date) {
                date = date.first_of_month().yesterday().ok()?;
                continue;
            }
            if calendar.days.contain(date)
                && let Some(found) = calendar.last_on(date, at, zone)
            {
                return Some(found);
            }
            date = date.yesterday().ok()?;
        }
        None
    }
}

impl Calendar {
    fn has_month(&self, date: Date) -> bool {
        self.months & (1 << date.month()) != 0
    }

    /// Returns the first occurrence on `date` that is after `at`, whose time on that date is `from`.
    fn first_on(
        &self,
        date: Date,
        from: Time,
        at: Timestamp,
        zone: &TimeZone,
    ) -> Option<Timestamp> {
        if is_near_a_change(date, zone) {
            // On such a day local times are not in chronological order.
            let all = self.clock(0).flat_map(|time| moments(date, time, zone));
            return all.filter(|moment| *moment > at).min();
        }
        self.clock(from.hour())
            .flat_map(|time| moments(date, time, zone))
            .find(|moment| *moment > at)
    }

    fn last_on(&self, date: Date, at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        if is_near_a_change(date, zone) {
            let all = self.clock(0).flat_map(|time| moments(date, time, zone));
            return all.filter(|moment| *moment <= at).max();
        }
        let hours = bits(self.hours).rev();
        let clock = hours.flat_map(|hour| bits(self.minutes).rev().map(move |m| (hour, m)));
        clock.flat_map(|time| moments(date, time, zone)).find(|moment| *moment <= at)
    }

    /// Returns the hours and minutes of a day in the order of local time, from the hour `from` on.
    fn clock(&self, from: i8) -> impl Iterator<Item = (i8, i8)> {
        let hours = bits(self.hours).filter(move |hour| *hour >= from);
        hours.flat_map(|hour| bits(self.minutes).map(move |minute| (hour, minute)))
    }
}

/// Returns the indices of the set bits, smallest first.
fn bits(set: u64) -> impl DoubleEndedIterator<Item = i8> + Clone {
    (0..64_i8).filter(move |bit| set & (1 << bit) != 0)
}

/// Returns the times at which a clock shows a local time: none in a gap, two in a fold.
fn moments(date: Date, (hour, minute): (i8, i8), zone: &TimeZone) -> Vec<Timestamp> {
    let shown = date.at(hour, minute, 0, 0);
    let offsets = match zone.to_ambiguous_timestamp(shown).offset() {
        AmbiguousOffset::Unambiguous { offset } => vec![offset],
        AmbiguousOffset::Gap { .. } => vec![],
        AmbiguousOffset::Fold { before, after } => vec![before, after],
    };
    offsets.into_iter().filter_map(|offset| offset.to_timestamp(shown).ok()).collect()
}

/// Returns whether the UTC offset may change around this date.
fn is_near_a_change(date: Date, zone: &TimeZone) -> bool {
    if zone.to_fixed_offset().is_ok() {
        return false;
    }
    let offset = |date: Option<Date>| {
        let moment = zone.to_ambiguous_timestamp(date?.to_datetime(Time::midnight())).compatible();
        moment.ok().map(|moment| zone.to_offset(moment))
    };
    let before = offset(date.yesterday().ok());
    let after = offset(date.tomorrow().and_then(Date::tomorrow).ok());
    before != after
}

/// Truncates a time to whole seconds.
fn whole_seconds(at: Timestamp) -> Option<Timestamp> {
    Timestamp::from_second(at.as_nanosecond().div_euclid(1_000_000_000).try_into().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn next(cron: &str, dialect: Dialect, zone: &str, after: &str) -> Option<String> {
        let zone = TimeZone::get(zone).unwrap();
        let cron = Cron::parse(cron, dialect).unwrap();
        cron.next_after(at(after), &zone).map(|t| t.to_string())
    }

    #[test]
    fn the_next_occurrence_is_strictly_later() {
        for (cron, after, wanted) in [
            ("0 9 * * *", "2026-01-01T09:00:00Z", "2026-01-02T09:00:00Z"),
            ("0 9 * * *", "2026-01-01T08:59:59.9Z", "2026-01-01T09:00:00Z"),
            ("*/20 * * * *", "2026-01-01T09:40:00Z", "2026-01-01T10:00:00Z"),
            ("5/20 * * * *", "2026-01-01T09:40:00Z", "2026-01-01T09:45:00Z"),
            ("0 8 * * 1-5", "2026-01-02T08:00:00Z", "2026-01-05T08:00:00Z"),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 12 1 * FRI", "2026-01-01T12:00:00Z", "2026-01-02T12:00:00Z"),
            ("0 12 1,15 jan,jul ?", "2026-01-15T12:00:00Z", "2026-07-01T12:00:00Z"),
        ] {
            for dialect in [Dialect::Agones, Dialect::Nomad] {
                assert_eq!(next(cron, dialect, "UTC", after).as_deref(), Some(wanted), "{cron}");
            }
        }
    }

    #[test]
    fn agones_shortcuts_are_schedules() {
        for (cron, wanted) in [
            ("@yearly", "2027-01-01T00:00:00Z"),
            ("@annually", "2027-01-01T00:00:00Z"),
            ("@monthly", "2026-02-01T00:00:00Z"),
            ("@weekly", "2026-01-11T00:00:00Z"),
            ("@daily", "2026-01-07T00:00:00Z"),
            ("@midnight", "2026-01-07T00:00:00Z"),
            ("@hourly", "2026-01-06T06:00:00Z"),
            ("@every 1h30m", "2026-01-06T07:00:10Z"),
            ("@every 1.9s", "2026-01-06T05:30:11Z"),
            ("@every 1ms", "2026-01-06T05:30:11Z"),
            ("@every -5m", "2026-01-06T05:30:11Z"),
        ] {
            let found = next(cron, Dialect::Agones, "UTC", "2026-01-06T05:30:10.25Z");
            assert_eq!(found.as_deref(), Some(wanted), "{cron}");
        }
    }

    #[test]
    fn nomad_letters_pick_days() {
        // January 2026 begins on a Thursday and ends on a Saturday; the 10th is a Saturday, the 18th a Sunday.
        for (cron, wanted) in [
            ("0 0 L * *", "2026-01-31"),
            ("0 0 LW * *", "2026-01-30"),
            ("0 0 10W * *", "2026-01-09"),
            ("0 0 18W * *", "2026-01-19"),
            ("0 0 * * 5L", "2026-01-30"),
            ("0 0 * * MON#2", "2026-01-12"),
            ("0 0 * * 7", "2026-01-04"),
            ("0 0 * * sunday", "2026-01-04"),
            ("0 0 ? * 3", "2026-01-07"),
            ("0 0 * january 6-7", "2026-01-03"),
            ("0 0 20 * 5#3", "2026-01-16"),
        ] {
            let found = next(cron, Dialect::Nomad, "UTC", "2026-01-02T00:00:00Z").unwrap();
            assert_eq!(found, format!("{wanted}T00:00:00Z"), "{cron}");
        }
        // A range that ends in 7 does not reach Sunday.
        let after_saturday = next("0 0 * * 5-7", Dialect::Nomad, "UTC", "2026-01-03T00:00:00Z");
        assert_eq!(after_saturday.as_deref(), Some("2026-01-09T00:00:00Z"));
    }

    #[test]
    fn a_skipped_time_does_not_occur_and_a_repeated_one_occurs_twice() {
        for (cron, zone, after, wanted) in [
            // Berlin jumps from 2:00 to 3:00 on 29 March, and from 3:00 back to 2:00 on 25 October.
            ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"),
            ("30 3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:30:00Z"),
            ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"),
            ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),
            ("30 2 * * *", "Europe/Berlin", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"),
            ("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z"),
            ("0 9 * * *", "America/New_York", "2026-03-08T00:00:00Z", "2026-03-08T13:00:00Z"),
            // Beirut jumps over midnight itself.
            ("15 0 * * *", "Asia/Beirut", "2026-03-28T00:00:00Z", "2026-03-29T21:15:00Z"),
        ] {
            let found = next(cron, Dialect::Agones, zone, after);
            assert_eq!(found.as_deref(), Some(wanted), "{cron} after {after}");
        }
    }

    #[test]
    fn an_expression_that_never_matches_has_no_next_occurrence() {
        for dialect in [Dialect::Agones, Dialect::Nomad] {
            assert_eq!(next("0 0 31 2 *", dialect, "UTC", "2026-01-01T00:00:00Z"), None);
        }
        let far = Timestamp::MAX;
        assert_eq!(
            Cron::parse("@every 1h", Dialect::Agones).unwrap().next_after(far, &TimeZone::UTC),
            None
        );
        assert_eq!(
            Cron::parse("@daily", Dialect::Agones).unwrap().next_after(far, &TimeZone::UTC),
            None
        );
    }

    #[test]
    fn the_last_occurrence_includes_now_and_ends_at_the_horizon() {
        let last = |cron: &str, zone: &str, at_: &str| {
            let zone = TimeZone::get(zone).unwrap();
            let found =
                Cron::parse(cron, Dialect::Nomad).unwrap().last_at_or_before(at(at_), &zone);
            found.map(|t| t.to_string())
        };
        for (cron, zone, at, wanted) in [
            ("0 8 * * *", "UTC", "2026-01-01T08:00:00Z", Some("2026-01-01T08:00:00Z")),
            ("0 8 * * *", "UTC", "2026-01-01T07:59:59Z", Some("2025-12-31T08:00:00Z")),
            ("0 0 29 2 *", "UTC", "2027-01-01T00:00:00Z", Some("2024-02-29T00:00:00Z")),
            ("0 0 31 2 *", "UTC", "2027-01-01T00:00:00Z", None),
            ("30 2 * * *", "Europe/Berlin", "2026-10-25T12:00:00Z", Some("2026-10-25T01:30:00Z")),
            ("30 2 * * *", "Europe/Berlin", "2026-10-25T01:00:00Z", Some("2026-10-25T00:30:00Z")),
            ("30 2 * * *", "Europe/Berlin", "2026-03-29T12:00:00Z", Some("2026-03-28T01:30:00Z")),
        ] {
            assert_eq!(last(cron, zone, at).as_deref(), wanted, "{cron} at {at}");
        }
    }

    proptest! {
        #[test]
        fn next_and_last_agree(
            minute in 0..60_u8, hour in 0..24_u8, second in 0..4_000_000_000_i64,
            zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kolkata"]),
        ) {
            let zone = TimeZone::get(zone).unwrap();
            let cron = Cron::parse(&format!("{minute} {hour} * * *"), Dialect::Nomad).unwrap();
            let now = Timestamp::from_second(second).unwrap();
            let next = cron.next_after(now, &zone).unwrap();
            prop_assert!(next > now);
            prop_assert_eq!(cron.last_at_or_before(next, &zone), Some(next));
            let last = cron.last_at_or_before(now, &zone).unwrap();
            prop_assert!(last <= now);
            prop_assert_eq!(cron.next_after(last, &zone), Some(next));
        }
    }
}
