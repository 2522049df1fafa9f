//! When is a time over that a client chose?

use std::time::Duration;

use tokio::time::Instant;

/// No wait is longer than this: thirty years. A moment further away than the machine can count does not exist.
pub(crate) const LONGEST: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Returns the moment after a wait, however long.
pub(crate) fn after(wait: Duration) -> Instant {
    Instant::now() + wait.min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_wait_has_an_end() {
        assert!(after(Duration::MAX) > Instant::now());
    }
}
