//! When is a time over that a client chose?

use std::time::Duration;

use tokio::time::Instant;

/// No wait is longer than this: thirty years. A moment further away than the machine can count does not exist.
pub(crate) const LONGEST: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Returns the moment after a wait, however long.
pub(crate) fn after(wait: Duration) -> Instant {
    Instant::now() + wait.min(LONGEST)
}

/// Reads a number of seconds; less than none is none, and too many are the longest wait.
pub(crate) fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_seconds_is_a_wait_with_an_end() {
        assert_eq!(seconds(-1), Duration::ZERO);
        assert_eq!(seconds(90), Duration::from_secs(90));
        assert_eq!(seconds(i64::MAX), LONGEST);
        assert!(after(Duration::MAX) > Instant::now());
    }
}
