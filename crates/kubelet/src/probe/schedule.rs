//! The schedule of probes, and their thresholds.

use std::time::Duration;

use k8s_openapi::api::core::v1::Probe;

/// When the next probe is due, and the results of the last ones.
pub(super) struct ProbeSchedule {
    wait: Duration,
    period: Duration,
    successes_wanted: i32,
    failures_allowed: i32,
    successes: i32,
    failures: i32,
}

impl ProbeSchedule {
    pub(super) fn new(probe: &Probe) -> Self {
        Self {
            wait: Duration::from_secs(
                u64::try_from(probe.initial_delay_seconds.unwrap_or(0)).unwrap_or(0),
            ),
            period: seconds(probe.period_seconds, 10),
            successes_wanted: probe.success_threshold.unwrap_or(1).max(1),
            failures_allowed: probe.failure_threshold.unwrap_or(3).max(1),
            successes: 0,
            failures: 0,
        }
    }

    /// Waits until the next probe is due.
    pub(super) async fn next(&mut self) {
        tokio::time::sleep(std::mem::replace(&mut self.wait, self.period)).await;
    }

    /// Counts a result, and returns it once it came often enough in a row.
    pub(super) fn count(&mut self, is_success: bool) -> Option<bool> {
        if is_success {
            (self.successes, self.failures) = (self.successes.saturating_add(1), 0);
        } else {
            (self.successes, self.failures) = (0, self.failures.saturating_add(1));
        }
        let is_decided =
            self.successes >= self.successes_wanted || self.failures >= self.failures_allowed;
        is_decided.then_some(is_success)
    }
}

/// Returns a number of seconds; less than one is the default.
pub(super) fn seconds(given: Option<i32>, default: u64) -> Duration {
    Duration::from_secs(
        given.and_then(|s| u64::try_from(s).ok()).filter(|s| *s > 0).unwrap_or(default),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_enough_results_in_a_row_count() {
        let probe = Probe { failure_threshold: Some(2), ..Probe::default() };
        let mut schedule = ProbeSchedule::new(&probe);
        assert_eq!(schedule.count(false), None);
        assert_eq!(schedule.count(true), Some(true));
        assert_eq!(schedule.count(false), None, "counting starts again");
        assert_eq!(schedule.count(false), Some(false));
    }
}
