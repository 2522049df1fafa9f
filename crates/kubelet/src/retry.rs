//! Retries writes with backoff until they succeed, their object no longer exists, or the kubelet stops.

use std::time::Duration;

use cluster::Key;
use process::Random;
use tokio_util::sync::CancellationToken;

/// The delay after the first failure; each further one doubles it.
const FIRST_RETRY: Duration = Duration::from_millis(50);
/// The longest delay between two attempts.
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// The outcome of one attempt that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The API server has accepted it.
    Done,
    /// The object no longer exists, or another one has its name.
    Gone,
}

/// Retries writes.
#[derive(Clone)]
pub(crate) struct Retry {
    random: Random,
    stopping: CancellationToken,
}

impl Retry {
    pub(crate) fn new(random: Random, stopping: CancellationToken) -> Self {
        Self { random, stopping }
    }

    /// Sends a write until it succeeds; `None`: the kubelet stops. Of a series of failures the first is logged as a warning.
    pub(crate) async fn until_written<Fut>(
        &self,
        what: &str,
        key: &Key,
        mut attempt: impl FnMut() -> Fut,
    ) -> Option<Written>
    where
        Fut: Future<Output = kube::Result<Written>>,
    {
        let mut failures = 0_u32;
        loop {
            let error = match attempt().await {
                Ok(written) => {
                    if failures > 0 {
                        tracing::info!(%key, failures, "{what} succeeded after retries");
                    }
                    return Some(written);
                }
                Err(error) => cluster::explain(&error),
            };
            if self.stopping.is_cancelled() {
                tracing::debug!(%key, error, "could not {what}; stopping");
                return None;
            }
            let retry_after = self.delay(failures);
            if failures == 0 {
                tracing::warn!(%key, error, ?retry_after, "could not {what}; retrying");
            } else {
                tracing::debug!(%key, error, ?retry_after, "could not {what}; retrying");
            }
            failures = failures.saturating_add(1);
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => return None,
                () = tokio::time::sleep(retry_after) => {}
            }
        }
    }

    /// Returns a delay between half of the full one and all of it.
    fn delay(&self, failures: u32) -> Duration {
        let full = FIRST_RETRY.saturating_mul(1 << failures.min(16)).min(LONGEST_RETRY);
        full.mul_f64(0.5 + self.random.fraction() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn retry() -> Retry {
        Retry::new(Random::seeded(1), CancellationToken::new())
    }

    fn failure() -> kube::Error {
        kube::Error::Service("the disk is full".into())
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_write_is_sent_again_until_it_succeeds() {
        let attempts = Cell::new(0);
        let (retry, key) = (retry(), Key::new("n", "a"));
        let written = retry.until_written("write", &key, || {
            attempts.set(attempts.get() + 1);
            let is_last = attempts.get() == 30;
            async move { if is_last { Ok(Written::Done) } else { Err(failure()) } }
        });
        assert_eq!(written.await, Some(Written::Done));
        assert_eq!(attempts.get(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn retries_end_when_the_kubelet_stops_and_one_attempt_is_always_made() {
        let retry = retry();
        retry.stopping.cancel();
        let key = Key::new("n", "a");
        let done = retry.until_written("write", &key, || async { Ok(Written::Done) }).await;
        assert_eq!(done, Some(Written::Done));
        let failed = retry.until_written("write", &key, || async { Err(failure()) }).await;
        assert_eq!(failed, None);
    }
}
