//! What is remembered of an autoscaler between two looks? Nothing that a restart could not do without.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api::autoscaling::FleetAutoscaler;
use cluster::Key;
use decide::fleet::{Decision, History, Refusal};
use tokio::time::Instant;

use super::act::Outcome;

/// How long nothing more has to change before a look: what comes together is one burst, and is answered by one resize. Were the first
/// change of a burst answered alone, the others would wait behind the new game servers that it brings.
const QUIET: Duration = Duration::from_millis(30);
/// How long a look waits for that at most.
pub(super) const BURST: Duration = Duration::from_millis(100);
/// The shortest time between two looks where someone is asked.
const BETWEEN_QUESTIONS: Duration = Duration::from_secs(1);
/// How long the next look may be left to tell what was done: doing comes first while changes come in.
const SILENCE: Duration = Duration::from_secs(1);
/// How long the first failure of a row waits; each further one waits twice as long.
const FIRST_RETRY: Duration = Duration::from_millis(500);
/// The same when the fleet was changed by someone else: the new one is on its way.
const OVERTAKEN: Duration = Duration::from_millis(50);

/// What is remembered, by autoscaler.
#[derive(Default)]
pub(super) struct Memories {
    all: Mutex<HashMap<Key, Memory>>,
}

/// What is remembered of one autoscaler.
#[derive(Default)]
pub(super) struct Memory {
    /// The sizes that were wanted lately.
    pub(super) history: History,
    /// The first change that no look has seen, and the last that belongs to a burst.
    burst: Option<(Instant, Instant)>,
    /// Before when nobody is to be asked again.
    asks_at: Option<Instant>,
    generation: Option<i64>,
    failures: u32,
    /// A resize that the status does not tell of yet, and since when nothing is told.
    is_resized: bool,
    silent_since: Option<Instant>,
}

impl Memories {
    /// Notes that a look begins. A new spec starts with a clean slate.
    pub(super) fn looked(&self, key: &Key, autoscaler: &FleetAutoscaler, may_ask: bool) {
        let generation = autoscaler.metadata.generation;
        self.with(key, |memory| {
            if memory.generation != generation {
                *memory = Memory { generation, ..Memory::default() };
            }
            memory.burst = None;
            memory.asks_at = may_ask.then(|| Instant::now() + BETWEEN_QUESTIONS);
        });
    }

    /// Notes a change, and says when to look at it. A burst is of servers that players take or leave: what follows from the size it
    /// was given, such as new servers, does not make it longer.
    pub(super) fn changed(&self, key: &Key, is_of_players: bool) -> Instant {
        let now = Instant::now();
        self.with(key, |memory| {
            let (first, last) = memory.burst.unwrap_or((now, now));
            memory.burst = Some((first, if is_of_players { now } else { last }));
            memory.looks_at().unwrap_or(now)
        })
    }

    /// Says until when to wait with a look; `None`: it is time.
    pub(super) fn gathers_until(&self, key: &Key) -> Option<Instant> {
        self.with(key, |memory| memory.looks_at()).filter(|at| *at > Instant::now())
    }

    pub(super) fn forget(&self, key: &Key) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    pub(super) fn with<T>(&self, key: &Key, what: impl FnOnce(&mut Memory) -> T) -> T {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        what(all.entry(key.clone()).or_default())
    }
}

impl Memory {
    fn looks_at(&self) -> Option<Instant> {
        let (first, last) = self.burst?;
        let at = (last + QUIET).min(first + BURST);
        Some(self.asks_at.map_or(at, |asks_at| asks_at.max(at)))
    }

    /// Notes what was done, and gives whether the status is to tell of a resize; `None`: the next look, which is about to come,
    /// tells.
    pub(super) fn tells(&mut self, is_resized: bool, another_comes: bool) -> Option<bool> {
        self.is_resized |= is_resized;
        if another_comes {
            let since = *self.silent_since.get_or_insert_with(Instant::now);
            if since.elapsed() < SILENCE {
                return None;
            }
        }
        self.silent_since = None;
        Some(std::mem::take(&mut self.is_resized))
    }

    /// Says how soon to try again after a failure; `None` when there was none.
    pub(super) fn retry_after(
        &mut self,
        decision: &Decision,
        outcome: &Outcome,
    ) -> Option<Duration> {
        let is_failed_reply = matches!(decision.outcome, Err(Refusal::ReplyFailed { .. }));
        match outcome {
            Outcome::Overtaken => return Some(OVERTAKEN),
            Outcome::Kept | Outcome::Resized if !is_failed_reply => {
                self.failures = 0;
                return None;
            }
            Outcome::Kept | Outcome::Resized | Outcome::Failed(_) => {}
        }
        let wait = FIRST_RETRY.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        Some(wait)
    }
}
