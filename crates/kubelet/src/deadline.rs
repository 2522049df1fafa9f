//! Deadlines from durations that clients choose, however long.

use std::time::Duration;

use tokio::time::Instant;

/// The longest wait: thirty years. `Instant` overflows with much longer ones.
const LONGEST: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Returns the time after a wait, however long.
pub(crate) fn after(wait: Duration) -> Instant {
    Instant::now() + wait.min(LONGEST)
}

/// Converts a number of seconds; a negative one is zero, and a too large one is the longest wait.
pub(crate) fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_seconds_is_a_finite_wait() {
        assert_eq!(seconds(-1), Duration::ZERO);
        assert_eq!(seconds(90), Duration::from_secs(90));
        assert_eq!(seconds(i64::MAX), LONGEST);
        assert!(after(Duration::MAX) > Instant::now());
    }
}
