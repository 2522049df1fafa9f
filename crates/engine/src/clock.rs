//! What time is it, for everything in the engine?
//!
//! The wall clock is read once, at the start; from then on time advances with tokio's clock, so that a test that
//! pauses tokio's time pauses the engine's, and a step of the machine's clock never runs through it backwards.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The engine's only source of time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started_at: Timestamp,
    since: Instant,
}

impl Clock {
    /// Starts a clock at the machine's present time.
    pub fn system() -> Self {
        Self::starting_at(Timestamp::now())
    }

    /// Starts a clock at a given moment.
    pub fn starting_at(started_at: Timestamp) -> Self {
        Self { started_at, since: Instant::now() }
    }

    /// Tells the present time.
    pub fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.since.elapsed()).unwrap_or(SignedDuration::MAX);
        self.started_at.saturating_add(passed).unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn time_advances_with_tokio_and_only_with_it() {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        assert_eq!(clock.now(), Timestamp::UNIX_EPOCH);
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(clock.now(), Timestamp::from_second(90).unwrap());
    }
}
