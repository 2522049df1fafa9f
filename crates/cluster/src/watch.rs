//! Watches that retry with backoff.
//!
//! Every failure waits longer than the one before, up to a bound, with jitter, so that many processes that lose the same API server do
//! not come back at the same moment. Only progress past the initial list resets the delay: a list that is fetched and cannot be
//! decoded is a failure each time.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use process::Random;
use serde::de::DeserializeOwned;

/// The delay after the first failure; each further one doubles it.
const FIRST_RETRY: Duration = Duration::from_millis(50);
/// The longest delay after a failure.
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// Returns the events of a watch, without end. Failures are logged and retried.
pub fn watch<K>(
    api: Api<K>,
    config: watcher::Config,
    random: Random,
) -> impl Stream<Item = Event<K>> + Send
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    K::DynamicType: Default,
{
    watch_reporting(api, config, random, || ())
}

/// Returns the events of a watch of a kind that is known only at run time, without end. Failures are logged with its name and retried.
pub fn watch_dynamic<K>(
    api: Api<K>,
    kind: &str,
    config: watcher::Config,
    random: Random,
) -> impl Stream<Item = Event<K>> + Send + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watch_kind(api, kind.to_owned(), config, random, || ())
}

/// Returns the events of a watch, without end, and calls `on_failure` at each failure.
pub(crate) fn watch_reporting<K>(
    api: Api<K>,
    config: watcher::Config,
    random: Random,
    on_failure: impl Fn() + Send + Sync,
) -> impl Stream<Item = Event<K>> + Send
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    K::DynamicType: Default,
{
    let kind = K::kind(&K::DynamicType::default()).into_owned();
    watch_kind(api, kind, config, random, on_failure)
}

fn watch_kind<K>(
    api: Api<K>,
    kind: String,
    config: watcher::Config,
    random: Random,
    on_failure: impl Fn() + Send + Sync,
) -> impl Stream<Item = Event<K>> + Send
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let on_failure = Arc::new(on_failure);
    let events = watcher(api, config).boxed();
    futures::stream::unfold((events, Backoff::default()), move |(mut events, mut backoff)| {
        let (kind, random, on_failure) = (kind.clone(), random.clone(), Arc::clone(&on_failure));
        async move {
            loop {
                match events.next().await? {
                    Ok(event) => {
                        if !matches!(event, Event::Init | Event::InitApply(_)) {
                            backoff.reset();
                        }
                        return Some((event, (events, backoff)));
                    }
                    Err(error) => {
                        on_failure();
                        let retry_after = backoff.next(&random);
                        let error = crate::error::explain(&error);
                        // What fails in the same way again and again is logged once.
                        if backoff.is_news(&error) {
                            tracing::warn!(error, kind, ?retry_after, "watch failed; retrying");
                        } else {
                            tracing::debug!(error, kind, ?retry_after, "watch failed; retrying");
                        }
                        tokio::time::sleep(retry_after).await;
                    }
                }
            }
        }
    })
}

/// The delays between attempts.
#[derive(Default)]
struct Backoff {
    failures: u32,
    /// The last failure since there was progress.
    last: String,
}

impl Backoff {
    fn next(&mut self, random: &Random) -> Duration {
        let delay = FIRST_RETRY.saturating_mul(1 << self.failures.min(16)).min(LONGEST_RETRY);
        self.failures = self.failures.saturating_add(1);
        // Between half of the delay and all of it.
        delay.mul_f64(0.5 + random.fraction() / 2.0)
    }

    /// Whether a failure differs from the one before.
    fn is_news(&mut self, error: &str) -> bool {
        let is_news = self.last != error;
        error.clone_into(&mut self.last);
        is_news
    }

    fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_bound_and_are_scattered() {
        let random = Random::seeded(7);
        let mut backoff = Backoff::default();
        let delays: Vec<Duration> = (0..20).map(|_| backoff.next(&random)).collect();
        for (failures, delay) in delays.iter().enumerate() {
            let full = FIRST_RETRY.saturating_mul(1 << failures.min(16)).min(LONGEST_RETRY);
            assert!((full / 2..=full).contains(delay), "{failures} failures: {delay:?}");
        }
        assert!(delays[10..].iter().any(|delay| *delay != delays[10]), "{delays:?}");
        backoff.reset();
        assert!(backoff.next(&random) <= FIRST_RETRY);
    }
}
