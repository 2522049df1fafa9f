//! A circuit breaker: after repeated failures a source is not queried for a while, and then tried with one query.

use std::time::Duration;

use tokio::time::Instant;

/// How many failures in a row open the circuit.
const FAILURES: u32 = 3;
/// How long the circuit is open the first time; each further failure doubles it.
const FIRST: Duration = Duration::from_secs(5);
/// The longest time that it is open.
const LONGEST: Duration = Duration::from_secs(60);

/// Counts the failures of one source.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    open_until: Option<Instant>,
}

impl Breaker {
    /// Whether a query may be sent; otherwise the time of the next one. When the circuit closes for a try, it stays open for all others.
    pub(super) fn admit(&mut self, now: Instant) -> Result<(), Instant> {
        match self.open_until {
            Some(until) if now < until => Err(until),
            Some(_) => {
                self.open_until = Some(now + self.pause());
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Counts an answer.
    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Counts a failure.
    pub(super) fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURES {
            self.open_until = Some(now + self.pause());
        }
    }

    fn pause(&self) -> Duration {
        let doublings = self.failures.saturating_sub(FAILURES).min(8);
        FIRST.saturating_mul(1 << doublings).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_circuit_opens_longer_with_each_failure_and_closes_with_an_answer() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut breaker = Breaker::default();
        for _ in 0..2 {
            breaker.failed(at(0));
            assert_eq!(breaker.admit(at(0)), Ok(()));
        }
        breaker.failed(at(0));
        assert_eq!(breaker.admit(at(4)), Err(at(5)));
        assert_eq!(breaker.admit(at(5)), Ok(()), "one query is a try");
        assert_eq!(breaker.admit(at(6)), Err(at(10)), "all others wait for it");
        breaker.failed(at(7));
        assert_eq!(breaker.admit(at(16)), Err(at(17)));
        for _ in 0..20 {
            breaker.failed(at(20));
        }
        assert_eq!(breaker.admit(at(79)), Err(at(80)));
        breaker.succeeded();
        assert_eq!(breaker.admit(at(21)), Ok(()));
    }
}
