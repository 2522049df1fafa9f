//! Ends idle sessions.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// When a session carried data last.
pub(super) struct Idle {
    after: Duration,
    last: Mutex<Instant>,
}

impl Idle {
    pub(super) fn new(after: Duration) -> Self {
        Self { after, last: Mutex::new(Instant::now()) }
    }

    /// Records that the session carries data.
    pub(super) fn reset(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Waits until the session has been idle for too long.
    pub(super) async fn expired(&self) {
        loop {
            let at = *self.last.lock().unwrap_or_else(PoisonError::into_inner) + self.after;
            if at <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(at).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_session_expires_when_it_carries_nothing() {
        let (idle, began) = (Idle::new(Duration::from_secs(10)), Instant::now());
        let carries = async {
            tokio::time::sleep(Duration::from_secs(9)).await;
            idle.reset();
        };
        tokio::join!(idle.expired(), carries);
        assert_eq!(began.elapsed(), Duration::from_secs(19));
    }
}
