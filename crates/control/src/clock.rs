//! What time is it, for every controller?
//!
//! The wall clock is read once, at the start; from then on time advances with tokio's clock, so that a test that pauses
//! tokio's time pauses the controllers'.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The controllers' only source of time.
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

    /// Gives the moment on tokio's clock at which this one shows `at`.
    pub fn instant(&self, at: Timestamp) -> Instant {
        let ahead = at.duration_since(self.now());
        Instant::now() + Duration::try_from(ahead).unwrap_or_default()
    }
}
