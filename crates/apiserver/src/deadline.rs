//! Deadlines from timeouts that clients choose.

use std::time::Duration;

use tokio::time::Instant;

/// The longest timeout, thirty years: adding `Duration::MAX` to an `Instant` would overflow.
pub(crate) const LONGEST: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Returns the deadline of a timeout of any length.
pub(crate) fn after(wait: Duration) -> Instant {
    Instant::now() + wait.min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_timeout_does_not_overflow() {
        assert!(after(Duration::MAX) > Instant::now());
    }
}
