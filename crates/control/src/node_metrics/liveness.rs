//! Whether the node controller is alive: evaluations begin, and they succeed.

use jiff::{SignedDuration, Timestamp};

/// When evaluations last began and succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// The last beginning; `None` before the first one, as in a replica that is not the leader.
    pub began_at: Option<Timestamp>,
    /// The last success; before the first one the first beginning.
    pub succeeded_at: Option<Timestamp>,
    /// Whether any evaluation has succeeded.
    pub is_initialised: bool,
}

/// How long evaluations may fail to begin and to succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LivenessLimits {
    /// The longest time between two beginnings.
    pub max_inactivity: SignedDuration,
    /// The longest time between two successes.
    pub max_failing_time: SignedDuration,
    /// Both limits until the first success, unless they are longer.
    pub max_startup_time: SignedDuration,
}

impl Default for LivenessLimits {
    fn default() -> Self {
        Self {
            max_inactivity: SignedDuration::from_mins(10),
            max_failing_time: SignedDuration::from_mins(15),
            max_startup_time: SignedDuration::from_mins(20),
        }
    }
}

impl Activity {
    pub(super) fn began(&mut self, now: Timestamp) {
        self.began_at = Some(now);
        self.succeeded_at.get_or_insert(now);
    }

    pub(super) fn succeeded(&mut self, now: Timestamp) {
        self.succeeded_at = Some(now);
        self.is_initialised = true;
    }

    /// Returns what is wrong. Nothing is, where no evaluation has begun.
    pub fn problem(&self, limits: &LivenessLimits, now: Timestamp) -> Option<String> {
        let limit = |usual: SignedDuration| match self.is_initialised {
            true => usual,
            false => {
                limits.max_startup_time.max(limits.max_inactivity).max(limits.max_failing_time)
            }
        };
        let is_late = |at: Timestamp, usual| now.duration_since(at) > limit(usual);
        let (began_at, succeeded_at) = (self.began_at?, self.succeeded_at?);
        if is_late(began_at, limits.max_inactivity) {
            return Some(format!("no evaluation has begun since {began_at}"));
        }
        let is_failing = is_late(succeeded_at, limits.max_failing_time);
        is_failing.then(|| format!("no evaluation has succeeded since {succeeded_at}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute)
    }

    #[test]
    fn evaluations_that_stop_or_fail_for_too_long_are_a_problem() {
        let limits = LivenessLimits::default();
        let problem = |began: &[i64], succeeded: &[i64], now: i64| {
            let mut activity = Activity::default();
            for minute in 0..=now {
                if began.contains(&minute) {
                    activity.began(at(minute));
                }
                if succeeded.contains(&minute) {
                    activity.succeeded(at(minute));
                }
            }
            let problem = activity.problem(&limits, at(now))?;
            Some(if problem.contains("succeeded") { "fails" } else { "stopped" })
        };
        for (began, succeeded, now, wanted) in [
            (vec![], vec![], 600, None),
            (vec![0], vec![], 20, None),
            (vec![0], vec![], 21, Some("stopped")),
            (vec![0, 10, 20], vec![], 21, Some("fails")),
            (vec![0], vec![0], 10, None),
            (vec![0], vec![0], 11, Some("stopped")),
            (vec![0, 9], vec![0], 15, None),
            (vec![0, 9], vec![0], 16, Some("fails")),
            (vec![0, 9], vec![0, 9], 16, None),
        ] {
            assert_eq!(problem(&began, &succeeded, now), wanted, "{began:?} {succeeded:?} {now}");
        }
    }
}
