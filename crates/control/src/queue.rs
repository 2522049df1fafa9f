//! What is there to look at, and when?
//!
//! A key waits at most once, and is looked at by one at a time: what happens meanwhile makes it wait again. So the queue is never longer
//! than there are objects.

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

/// How long the first failure of a row waits; each further one waits twice as long.
const FIRST_RETRY: Duration = Duration::from_millis(5);
/// The longest wait after a failure.
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// Keys that wait to be looked at.
#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Key>,
    waiting: HashSet<Key>,
    /// What is being looked at, and whether it changed meanwhile.
    running: HashMap<Key, bool>,
    later: BTreeSet<(Instant, Key)>,
    later_at: HashMap<Key, Instant>,
    failures: HashMap<Key, u32>,
}

/// When to look again though nothing changed; `None`: not before something does.
pub type Again = Option<Instant>;

impl Queue {
    /// Has a key looked at as soon as may be.
    pub fn add(&self, key: Key) {
        let mut state = self.lock();
        if state.add(key) {
            drop(state);
            self.wake.notify_one();
        }
    }

    /// Has a key looked at no later than `at`.
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

    /// Whether a key will be looked at by then, besides any look that is under way.
    pub fn is_due(&self, key: &Key, by: Instant) -> bool {
        let state = self.lock();
        state.waiting.contains(key)
            || state.running.get(key) == Some(&true)
            || state.later_at.get(key).is_some_and(|at| *at <= by)
    }

    /// Looks at keys, at most `limit` at a time, for as long as it is polled. When it is dropped, so is all that is under way.
    pub async fn drive<F, Fut>(&self, limit: usize, turn: F)
    where
        F: Fn(Key) -> Fut,
        Fut: Future<Output = Result<Again, Error>> + Send + 'static,
    {
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                Some(done) = running.join_next() => {
                    let (key, outcome) = done.expect("a turn that panics is caught, and none is cancelled");
                    self.done(&key, outcome);
                }
                key = self.next(), if running.len() < limit => {
                    let turn = AssertUnwindSafe(turn(key.clone())).catch_unwind();
                    running.spawn(async move {
                        let outcome = turn.await.unwrap_or_else(|_| Err(Error::Panicked));
                        (key, outcome)
                    });
                }
            }
        }
    }

    /// Waits for a key and gives it out.
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

    fn done(&self, key: &Key, outcome: Result<Again, Error>) {
        let again = match outcome {
            Ok(again) => {
                self.lock().failures.remove(key);
                again
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
        if let Some(at) = again {
            self.add_at(key.clone(), at);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
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

/// Lets a hook add keys to a queue.
pub(crate) fn adder(queue: &Arc<Queue>) -> impl Fn(Key) + Send + Sync + 'static {
    let queue = Arc::clone(queue);
    move |key| queue.add(key)
}

#[cfg(test)]
mod tests;
