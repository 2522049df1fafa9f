//! Parses the five fields of an expression, in either dialect.

use std::ops::RangeInclusive;

use jiff::SignedDuration;

use super::days::Days;
use super::{Calendar, Times};
use crate::duration;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [&str; 7] =
    ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

/// One of the five fields: its range and the names of its values.
struct Field {
    name: &'static str,
    range: RangeInclusive<u32>,
    names: &'static [&'static str],
}

const MINUTE: Field = Field { name: "minute", range: 0..=59, names: &[] };
const HOUR: Field = Field { name: "hour", range: 0..=23, names: &[] };
const DAY: Field = Field { name: "day of month", range: 1..=31, names: &[] };
const MONTH: Field = Field { name: "month", range: 1..=12, names: &MONTHS };
const WEEKDAY: Field = Field { name: "day of week", range: 0..=6, names: &WEEKDAYS };

/// The numbers that a field matches.
#[derive(Clone, Copy, Default)]
struct Set {
    bits: u64,
    /// Whether it is unrestricted, written as `*` or `?`.
    any: bool,
}

/// Parses Agones' dialect.
pub(super) fn agones(text: &str) -> Result<Times, String> {
    let text = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => match text.strip_prefix("@every ") {
            Some(pause) => return every(pause),
            None if text.starts_with('@') => {
                return Err(
                    "not one of @yearly, @monthly, @weekly, @daily, @hourly, @every".to_owned()
                );
            }
            None => text,
        },
    };
    let [minute, hour, day, month, weekday] = five(text)?;
    let (day, weekday) = (DAY.plain(day)?, WEEKDAY.plain(weekday)?);
    let days = Days {
        of_month: day.bits,
        any_of_month: day.any,
        of_week: weekday.bits,
        any_of_week: weekday.any,
        ..Days::default()
    };
    Ok(Times::Calendar(Calendar {
        minutes: MINUTE.plain(minute)?.bits,
        hours: HOUR.plain(hour)?.bits,
        months: MONTH.plain(month)?.bits,
        days,
    }))
}

/// Parses Nomad Autoscaler's dialect.
pub(super) fn nomad(text: &str) -> Result<Times, String> {
    let [minute, hour, day, month, weekday] = five(text)?;
    let mut days = Days::default();
    let lower = day.to_lowercase();
    for entry in entries(&lower) {
        match (entry, entry.strip_suffix('w')) {
            ("l", _) => days.last = true,
            ("lw", _) => days.last_workday = true,
            (_, Some(number)) => days.near |= 1 << DAY.short_number(number)?,
            (_, None) => DAY.add(entry, &mut days.of_month, &mut days.any_of_month)?,
        }
    }
    let lower = weekday.to_lowercase();
    for entry in entries(&lower) {
        let last = entry.strip_suffix('l').and_then(|name| WEEKDAY.short_number(name).ok());
        match (last, entry.split_once('#')) {
            (Some(number), _) => days.last_of_week |= 1 << number,
            (None, Some((name, week @ ("1" | "2" | "3" | "4" | "5")))) => {
                let week: u32 = week.parse().map_err(|_| "not a week".to_owned())?;
                days.nth_of_week |= 1 << ((week - 1) * 7 + WEEKDAY.short_number(name)?);
            }
            (None, _) => WEEKDAY.add(entry, &mut days.of_week, &mut days.any_of_week)?,
        }
    }
    Ok(Times::Calendar(Calendar {
        minutes: MINUTE.listed(minute)?,
        hours: HOUR.listed(hour)?,
        months: MONTH.listed(month)?,
        days,
    }))
}

/// Parses the interval of `@every`: whole seconds, at least one.
fn every(pause: &str) -> Result<Times, String> {
    let seconds = duration::parse(pause)?.as_secs();
    Ok(Times::Every(SignedDuration::from_secs(seconds.max(1))))
}

fn five(text: &str) -> Result<[&str; 5], String> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let count = fields.len();
    fields.try_into().map_err(|_| {
        format!("{count} fields; write five: minute, hour, day of month, month, day of week")
    })
}

/// Returns the entries between commas; empty ones are skipped, as in both originals.
fn entries(field: &str) -> impl Iterator<Item = &str> {
    field.split(',').filter(|entry| !entry.is_empty())
}

impl Field {
    /// Parses a field as Agones does.
    fn plain(&self, text: &str) -> Result<Set, String> {
        let mut set = Set::default();
        for entry in entries(text) {
            let (span, step) = match entry.split_once('/') {
                Some((span, step)) => (span, Some(self.plain_number(step, &[])?)),
                None => (entry, None),
            };
            let (first, last) = match span.split_once('-') {
                _ if span.starts_with(['*', '?']) && span[1..].split('-').next() == Some("") => {
                    set.any |= step.is_none_or(|step| step <= 1);
                    (*self.range.start(), *self.range.end())
                }
                Some((first, last)) => {
                    (self.plain_number(first, self.names)?, self.plain_number(last, self.names)?)
                }
                None => {
                    let only = self.plain_number(span, self.names)?;
                    (only, if step.is_some() { *self.range.end() } else { only })
                }
            };
            self.check(first, last)?;
            if first > last {
                return Err(format!("{} runs backwards in `{entry}`", self.name));
            }
            if step == Some(0) {
                return Err(format!("{} has a step of 0 in `{entry}`", self.name));
            }
            set.bits |= span_bits(first, last, step.unwrap_or(1));
        }
        Ok(set)
    }

    /// Parses a field of Nomad's dialect that has no special letters.
    fn listed(&self, text: &str) -> Result<u64, String> {
        let (mut bits, mut any) = (0, false);
        for entry in entries(&text.to_lowercase()) {
            self.add(entry, &mut bits, &mut any)?;
        }
        // Nomad Autoscaler crashes on an empty list, such as `30-10`.
        if bits == 0 { Err(format!("{} matches nothing in `{text}`", self.name)) } else { Ok(bits) }
    }

    /// Adds one entry in Nomad's dialect: a backwards range is empty.
    fn add(&self, entry: &str, bits: &mut u64, any: &mut bool) -> Result<(), String> {
        let (min, max) = (*self.range.start(), *self.range.end());
        if matches!(entry, "*" | "?") {
            *any = true;
            *bits |= span_bits(min, max, 1);
            return Ok(());
        }
        let (span, step) = match entry.split_once('/') {
            None => (entry, None),
            Some((span, step)) => {
                let step = self.plain_number(step, &[])?;
                if !(1..=max).contains(&step) {
                    return Err(format!(
                        "{} has a step outside 1 to {max} in `{entry}`",
                        self.name
                    ));
                }
                (span, Some(step))
            }
        };
        let (first, last) = match span.split_once('-') {
            None if span == "*" => (min, max),
            None => {
                let only = self.short_number(span)?;
                (only, if step.is_some() { max } else { only })
            }
            Some((first, last)) => match (self.short_number(first)?, self.short_number(last)?) {
                // Sunday at the end of a range is Saturday: `5-7` is Friday and Saturday.
                (first, 0) if max == 6 => (first, 6),
                both => both,
            },
        };
        *bits |= span_bits(first, last, step.unwrap_or(1));
        Ok(())
    }

    /// Parses a number or a name as Agones does: any number of digits, names of three letters.
    fn plain_number(&self, text: &str, names: &[&str]) -> Result<u32, String> {
        let lower = text.to_lowercase();
        if let Some(index) = names.iter().position(|name| lower == name[..3]) {
            return Ok(index as u32 + *self.range.start());
        }
        text.parse().map_err(|_| format!("{} cannot be `{text}`", self.name))
    }

    /// Parses a number or a name as Nomad does: one or two digits, short or full names, Sunday also as 7.
    fn short_number(&self, text: &str) -> Result<u32, String> {
        let is_named = |name: &&&str| text == **name || text == &name[..3];
        if let Some(index) = self.names.iter().position(|name| is_named(&name)) {
            return Ok(index as u32 + *self.range.start());
        }
        let is_short = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        match text.parse() {
            Ok(7) if is_short && self.names == WEEKDAYS => Ok(0),
            Ok(number) if is_short => self.check(number, number).map(|()| number),
            _ => Err(format!("{} cannot be `{text}`", self.name)),
        }
    }

    fn check(&self, first: u32, last: u32) -> Result<(), String> {
        match [first, last].into_iter().find(|number| !self.range.contains(number)) {
            None => Ok(()),
            Some(number) => Err(format!(
                "{} {number} is outside {} to {}",
                self.name,
                self.range.start(),
                self.range.end()
            )),
        }
    }
}

fn span_bits(first: u32, last: u32, step: u32) -> u64 {
    (first..=last).step_by(step.max(1) as usize).fold(0, |bits, number| bits | 1 << number)
}

#[cfg(test)]
mod tests {
    use super::super::{Cron, Dialect};

    #[test]
    fn errors_name_the_field() {
        use Dialect::{Agones, Nomad};
        for (text, dialect, wanted) in [
            ("", Agones, "0 fields"),
            ("* * * *", Agones, "4 fields"),
            ("0 0 8 * * *", Agones, "6 fields"),
            ("0 0 * * 7", Agones, "day of week 7 is outside 0 to 6"),
            ("0 25 * * *", Agones, "hour 25 is outside 0 to 23"),
            ("0 0 L * *", Agones, "day of month cannot be `L`"),
            ("0 0 0 * *", Agones, "day of month 0"),
            ("0 0 * januar *", Agones, "month cannot be `januar`"),
            ("30-10 * * * *", Agones, "runs backwards"),
            ("*/0 * * * *", Agones, "step of 0"),
            ("1-2-3 * * * *", Agones, "minute cannot be `2-3`"),
            ("@fortnightly", Agones, "not one of"),
            ("@every", Agones, "not one of"),
            ("@every soon", Agones, "not a duration"),
            ("TZ=UTC 0 0 * * *", Agones, "6 fields"),
            ("0 0 8 * * *", Nomad, "6 fields"),
            ("@daily", Nomad, "1 fields"),
            ("60 * * * *", Nomad, "minute 60"),
            ("0 0 32 * *", Nomad, "day of month 32"),
            ("0 0 * * 8", Nomad, "day of week 8"),
            ("0 0 * * 5#6", Nomad, "day of week cannot be `5#6`"),
            ("*/60 * * * *", Nomad, "step outside 1 to 59"),
            ("30-10 * * * *", Nomad, "minute matches nothing"),
            (", * * * *", Nomad, "minute matches nothing"),
            ("001 * * * *", Nomad, "minute cannot be `001`"),
            ("0 0 é * *", Nomad, "day of month cannot be `é`"),
        ] {
            let message = Cron::parse(text, dialect).unwrap_err();
            assert!(
                message.starts_with(&format!("`{text}`: ")) && message.contains(wanted),
                "{message}"
            );
        }
    }

    #[test]
    fn entries_that_both_originals_accept_are_accepted() {
        for text in ["0,,30 * * * *", "?  * * * *", "0 0 1-31/2 JAN-dec Mon", "*/5 0-23 * * SUN"] {
            for dialect in [Dialect::Agones, Dialect::Nomad] {
                assert!(Cron::parse(text, dialect).is_ok(), "{text}");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn parsing_never_panics(text in "[@*?/,#LWlw0-9a-zéß \\-]{0,24}") {
            for dialect in [Dialect::Agones, Dialect::Nomad] {
                let _ = Cron::parse(&text, dialect);
            }
        }
    }
}
