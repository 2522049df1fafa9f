//! The delays between the runs of a container.

use std::time::Duration;

use cluster::EventType;

use super::ContainerRunner;

/// The longest delay before a restart, in first delays.
const LONGEST_DELAY: u32 = 30;

/// Returns the delay after a number of failures in a row: none after the first, then `first`, doubled with each failure.
pub(super) fn delay(first: Duration, failures: u32) -> Duration {
    let Some(steps) = failures.checked_sub(1) else { return Duration::ZERO };
    first * 2_u32.saturating_pow(steps).min(LONGEST_DELAY)
}

impl ContainerRunner {
    /// Reports that the container waits before its next run.
    pub(super) fn back_off(&self, delay: Duration) {
        let (name, pod) = (&self.container.name, self.pod.object.long_name());
        if delay.is_zero() {
            // The start that follows at once is published.
            self.set(|container| container.wait("ContainerCreating", String::new()));
            return;
        }
        let wait = describe(delay);
        let message = format!("back-off {wait} restarting failed container={name} pod={pod}");
        self.set(|container| container.wait("CrashLoopBackOff", message));
        self.pod.publish();
        let note = format!("Back-off restarting failed container {name} in pod {pod}");
        self.event(EventType::Warning, "BackOff", note);
    }
}

/// Returns a duration as kubelet writes it, such as `10s`, `2m40s` or `100ms`.
fn describe(delay: Duration) -> String {
    let (minutes, seconds, millis) =
        (delay.as_secs() / 60, delay.as_secs() % 60, delay.subsec_millis());
    match (minutes, seconds, millis) {
        (0, 0, millis) => format!("{millis}ms"),
        (0, seconds, 0) => format!("{seconds}s"),
        (0, seconds, millis) => format!("{}s", f64::from(millis) / 1000.0 + seconds as f64),
        (minutes, seconds, _) => format!("{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_read_as_those_of_go() {
        for (millis, text) in [
            (100, "100ms"),
            (10_000, "10s"),
            (160_000, "2m40s"),
            (300_000, "5m0s"),
            (1_500, "1.5s"),
        ] {
            assert_eq!(describe(Duration::from_millis(millis)), text);
        }
    }
}
