//! Whether a scheduled policy is active, and when that changes.

use jiff::{SignedDuration, Timestamp};

use super::{Policy, Schedule};

/// A window opens this long before its cron time, as in Agones, so that servers are up when it begins.
const HEAD_START: SignedDuration = SignedDuration::from_secs(90);

/// The duration that Agones uses when none is given: 290 years.
const FOR_EVER: SignedDuration = SignedDuration::from_hours(2_540_400);

/// Returns whether the schedule is active at `now`.
pub(super) fn is_active(schedule: &Schedule, now: Timestamp) -> bool {
    let between = &schedule.between;
    if between.start.is_some_and(|start| now < start) || between.end.is_some_and(|end| now > end) {
        return false;
    }
    let Some(window) = window(schedule, now) else { return schedule.period.is_none() };
    window.opens_at < now && window.closes_at.is_none_or(|closes_at| now < closes_at)
}

/// Returns the time at which the result of `policy` could change without any other change.
pub(super) fn wake_at(policy: &Policy, now: Timestamp) -> Option<Timestamp> {
    match policy {
        Policy::Schedule(schedule) => {
            [changes_at(schedule, now), wake_at(&schedule.policy, now)].into_iter().flatten().min()
        }
        Policy::Chain(links) => links.iter().filter_map(|l| wake_at(&l.policy, now)).min(),
        Policy::Buffer(_)
        | Policy::Counter(_)
        | Policy::List(_)
        | Policy::Webhook
        | Policy::Wasm => None,
    }
}

fn changes_at(schedule: &Schedule, now: Timestamp) -> Option<Timestamp> {
    let just_after = |at: Timestamp| at.checked_add(SignedDuration::from_nanos(1)).ok();
    let window = window(schedule, now);
    let moments = [
        schedule.between.start,
        schedule.between.end.and_then(just_after),
        window.as_ref().and_then(|w| just_after(w.opens_at)),
        window.as_ref().and_then(|w| w.closes_at),
    ];
    moments.into_iter().flatten().filter(|at| *at > now).min()
}

/// A period in which a schedule is active; both ends are exclusive.
struct Window {
    opens_at: Timestamp,
    closes_at: Option<Timestamp>,
}

/// Returns the window that contains `now`, or the next one.
fn window(schedule: &Schedule, now: Timestamp) -> Option<Window> {
    let period = schedule.period.as_ref()?;
    let duration = period.duration.unwrap_or(FOR_EVER);
    if duration.is_negative() {
        return None;
    }
    let since = now.checked_sub(duration).unwrap_or(Timestamp::MIN);
    let starts_at = period.start.next_after(since, &period.zone)?;
    let opens_at = starts_at.checked_sub(HEAD_START).unwrap_or(Timestamp::MIN);
    Some(Window { opens_at, closes_at: starts_at.checked_add(duration).ok() })
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::cron::{Cron, Dialect};
    use crate::fleet::{Amount, Between, Buffer, Period};

    fn schedule(cron: &str, duration: Option<i64>) -> Schedule {
        Schedule {
            between: Between::default(),
            period: Some(Period {
                start: Cron::parse(cron, Dialect::Agones).unwrap(),
                zone: TimeZone::UTC,
                duration: duration.map(SignedDuration::from_secs),
            }),
            policy: Policy::Buffer(Buffer { size: Amount::Count(1), min: 0, max: 9 }),
        }
    }

    fn at(text: &str) -> Timestamp {
        format!("2026-03-02T{text}Z").parse().unwrap()
    }

    #[test]
    fn a_window_opens_ninety_seconds_early_and_ends_on_time() {
        let daily = schedule("0 12 * * *", Some(3600));
        for (now, active) in [
            ("11:58:29", false),
            ("11:58:30", false),
            ("11:58:31", true),
            ("12:00:00", true),
            ("12:59:59", true),
            ("13:00:00", false),
        ] {
            assert_eq!(is_active(&daily, at(now)), active, "{now}");
        }
    }

    #[test]
    fn without_a_duration_a_schedule_is_active_unless_its_cron_never_matches() {
        assert!(is_active(&schedule("0 12 * * *", None), at("03:00:00")));
        assert!(!is_active(&schedule("0 0 31 2 *", None), at("03:00:00")));
    }

    #[test]
    fn odd_durations_are_interpreted_as_in_agones() {
        let none = schedule("0 12 * * *", Some(0));
        assert!(is_active(&none, at("11:59:00")), "only the head start is left");
        assert!(!is_active(&none, at("12:00:00")));
        let negative = schedule("0 12 * * *", Some(-60));
        assert!(!is_active(&negative, at("11:58:45")));
        assert!(!is_active(&negative, at("12:00:00")));
    }

    #[test]
    fn between_includes_both_ends() {
        let mut only = schedule("0 12 * * *", Some(3600));
        only.period = None;
        only.between = Between { start: Some(at("08:00:00")), end: Some(at("09:00:00")) };
        for (now, active) in
            [("07:59:59", false), ("08:00:00", true), ("09:00:00", true), ("09:00:01", false)]
        {
            assert_eq!(is_active(&only, at(now)), active, "{now}");
        }
    }

    #[test]
    fn the_decision_is_due_when_a_window_opens_and_closes() {
        let daily = Policy::Schedule(Box::new(schedule("0 12 * * *", Some(3600))));
        let wakes = |now: &str| wake_at(&daily, at(now)).unwrap();
        assert_eq!(wakes("10:00:00"), "2026-03-02T11:58:30.000000001Z".parse().unwrap());
        assert_eq!(wakes("12:30:00"), at("13:00:00"));
        let always = Policy::Buffer(Buffer { size: Amount::Count(1), min: 0, max: 9 });
        assert_eq!(wake_at(&always, at("10:00:00")), None);
    }
}
