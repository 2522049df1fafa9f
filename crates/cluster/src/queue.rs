//! A work queue of object keys.
//!
//! A key is queued at most once and reconciled by one worker at a time: a change in the meantime queues it again. So the queue is never
//! longer than there are objects.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::{Error, Key};

/// The delay after the first failure of a key; each further one doubles it.
const FIRST_RETRY: Duration = Duration::from_millis(5);
/// The longest delay after a failure.
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// Keys of objects to reconcile.
#[derive(Default)]
pub struct WorkQueue {
    state: Mutex<Pending>,
    wake: Notify,
}

#[derive(Default)]
struct Pending {
    ready: VecDeque<Key>,
    waiting: HashSet<Key>,
    /// The keys being reconciled, and whether each changed in the meantime.
    running: HashMap<Key, bool>,
    later: BTreeSet<(Instant, Key)>,
    later_at: HashMap<Key, Instant>,
    failures: HashMap<Key, u32>,
}

/// When to reconcile again although nothing changed; `None`: not before a change.
pub type RequeueAt = Option<Instant>;

impl WorkQueue {
    /// Queues a key.
    pub fn add(&self, key: Key) {
        let mut state = self.lock();
        if state.add(key) {
            drop(state);
            self.wake.notify_one();
        }
    }

    /// Queues a key at `at`, unless it is queued earlier.
    pub fn add_at(&self, key: Key, at: Instant) {
        let mut state = self.lock();
        if state.later_at.get(&key).is_some_and(|earlier| *earlier <= at) {
            return;
        }
        if let Some(later) = state.later_at.insert(key.clone(), at) {
            state.later.remove(&(later, key.clone()));
        }
        state.later.insert((at, key));
        drop(state);
        self.wake.notify_one();
    }

    /// Whether a key will be reconciled by then, not counting a reconciliation in progress.
    pub fn is_due(&self, key: &Key, by: Instant) -> bool {
        let state = self.lock();
        state.waiting.contains(key)
            || state.running.get(key) == Some(&true)
            || state.later_at.get(key).is_some_and(|at| *at <= by)
    }

    /// Reconciles keys, at most `limit` at a time, for as long as it is polled. Dropping it cancels the reconciliations in progress.
    pub async fn run<F, Fut>(&self, limit: usize, reconcile: F)
    where
        F: Fn(Key) -> Fut,
        Fut: Future<Output = Result<RequeueAt, Error>> + Send + 'static,
    {
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                Some(done) = running.join_next() => {
                    let (key, outcome) = done.expect("panics are caught, and no task is cancelled");
                    self.done(&key, outcome);
                }
                key = self.next(), if running.len() < limit => {
                    let work = AssertUnwindSafe(reconcile(key.clone())).catch_unwind();
                    running.spawn(async move {
                        let outcome = work.await.unwrap_or_else(|_| Err(Error::Panicked));
                        (key, outcome)
                    });
                }
            }
        }
    }

    /// Waits for a key and takes it off the queue.
    async fn next(&self) -> Key {
        loop {
            let woken = self.wake.notified();
            let due_at = {
                let mut state = self.lock();
                state.move_due(Instant::now());
                if let Some(key) = state.ready.pop_front() {
                    state.waiting.remove(&key);
                    state.running.insert(key.clone(), false);
                    return key;
                }
                state.later.first().map(|(at, _)| *at)
            };
            match due_at {
                Some(at) => drop(tokio::time::timeout_at(at, woken).await),
                None => woken.await,
            }
        }
    }

    fn done(&self, key: &Key, outcome: Result<RequeueAt, Error>) {
        let requeue_at = match outcome {
            Ok(requeue_at) => {
                self.lock().failures.remove(key);
                requeue_at
            }
            Err(error) => {
                let retry_after = self.lock().fail(key);
                error.log(key, retry_after);
                Some(Instant::now() + retry_after)
            }
        };
        let is_dirty = self.lock().running.remove(key) == Some(true);
        if is_dirty {
            self.add(key.clone());
        }
        if let Some(at) = requeue_at {
            self.add_at(key.clone(), at);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    fn add(&mut self, key: Key) -> bool {
        if let Some(is_dirty) = self.running.get_mut(&key) {
            *is_dirty = true;
            return false;
        }
        if !self.waiting.insert(key.clone()) {
            return false;
        }
        self.ready.push_back(key);
        true
    }

    fn move_due(&mut self, now: Instant) {
        while let Some((at, _)) = self.later.first()
            && *at <= now
            && let Some((_, key)) = self.later.pop_first()
        {
            self.later_at.remove(&key);
            self.add(key);
        }
    }

    fn fail(&mut self, key: &Key) -> Duration {
        let failures = self.failures.entry(key.clone()).or_default();
        let retry_after = FIRST_RETRY.saturating_mul(1 << (*failures).min(16)).min(LONGEST_RETRY);
        *failures = failures.saturating_add(1);
        retry_after
    }
}

/// Returns a function that adds keys to a queue.
pub fn enqueue_into(queue: &Arc<WorkQueue>) -> impl Fn(Key) + Send + Sync + 'static {
    let queue = Arc::clone(queue);
    move |key| queue.add(key)
}

#[cfg(test)]
mod tests;
