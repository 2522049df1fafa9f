//! Limits the rate of writes per second.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// The times of the latest writes.
#[derive(Debug, Default)]
pub(super) struct Pace {
    writes: VecDeque<Instant>,
}

impl Pace {
    /// Waits until another write is allowed, and counts it.
    pub(super) async fn next(&mut self, per_second: usize) {
        let per_second = per_second.max(1);
        while self.writes.len() >= per_second {
            let Some(oldest) = self.writes.pop_front() else { break };
            tokio::time::sleep_until(oldest + SECOND).await;
        }
        self.writes.push_back(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_second_has_more_writes_than_allowed() {
        let mut pace = Pace::default();
        let mut times = Vec::new();
        for _ in 0..65 {
            pace.next(20).await;
            times.push(Instant::now());
        }
        for window in times.windows(21) {
            assert!(window[20] - window[0] >= SECOND);
        }
        assert_eq!(times[64] - times[0], SECOND * 3, "and it is no slower than that");
    }
}
