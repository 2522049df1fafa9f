//! Whether it is time for a scheduled policy, and when that changes.

use jiff::{SignedDuration, Timestamp};

use super::{Policy, Schedule};

/// A window opens this long before its cron time, as upstream's does, so that servers are up when it begins.
const HEAD_START: SignedDuration = SignedDuration::from_secs(90);

/// What upstream takes for a duration that is not given: 290 years.
const FOR_EVER: SignedDuration = SignedDuration::from_hours(2_540_400);

/// Whether the schedule holds at `now`.
pub(super) fn is_active(schedule: &Schedule, now: Timestamp) -> bool {
    let between = &schedule.between;
    if between.start.is_some_and(|start| now < start) || between.end.is_some_and(|end| now > end) {
        return false;
    }
    let Some(window) = window(schedule, now) else { return schedule.period.is_none() };
    window.opens_at < now && window.closes_at.is_none_or(|closes_at| now < closes_at)
}

/// Finds the moment at which time alone could change what `policy` answers.
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

/// A span in which a period holds; both ends are outside of it.
struct Window {
    opens_at: Timestamp,
    closes_at: Option<Timestamp>,
}

/// Finds the window that `now` is in, or the next one.
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
    fn without_a_duration_a_schedule_holds_unless_its_time_never_comes() {
        assert!(is_active(&schedule("0 12 * * *", None), at("03:00:00")));
        assert!(!is_active(&schedule("0 0 31 2 *", None), at("03:00:00")));
    }

    #[test]
    fn odd_durations_are_read_as_upstream_reads_them() {
        let none = schedule("0 12 * * *", Some(0));
        assert!(is_active(&none, at("11:59:00")), "only the head start is left");
        assert!(!is_active(&none, at("12:00:00")));
        let negative = schedule("0 12 * * *", Some(-60));
        assert!(!is_active(&negative, at("11:58:45")));
        assert!(!is_active(&negative, at("12:00:00")));
    }

    #[test]
    fn between_is_active_at_both_ends() {
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
    fn time_wakes_the_decision_when_the_window_opens_and_when_it_closes() {
        let daily = Policy::Schedule(Box::new(schedule("0 12 * * *", Some(3600))));
        let wakes = |now: &str| wake_at(&daily, at(now)).unwrap();
        assert_eq!(wakes("10:00:00"), "2026-03-02T11:58:30.000000001Z".parse().unwrap());
        assert_eq!(wakes("12:30:00"), at("13:00:00"));
        let always = Policy::Buffer(Buffer { size: Amount::Count(1), min: 0, max: 9 });
        assert_eq!(wake_at(&always, at("10:00:00")), None);
    }
}
