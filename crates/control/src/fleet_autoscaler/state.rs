//! The state that an autoscaler keeps between two evaluations. Losing it in a restart does no harm.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api::autoscaling::FleetAutoscaler;
use cluster::Key;
use decide::fleet::{FleetDecision, History, Refusal};
use tokio::time::Instant;

use super::act::ResizeOutcome;

/// How long nothing more has to change before an evaluation. Changes in quick succession are one burst and lead to one resize: if the
/// first of them led to a resize of its own, the others would wait behind the new game servers of that resize.
const BURST_GAP: Duration = Duration::from_millis(30);
/// How long an evaluation waits for the end of a burst at most.
pub(super) const MAX_BURST: Duration = Duration::from_millis(100);
/// The shortest time between two evaluations that send requests to webhooks or run modules.
const MIN_REQUEST_INTERVAL: Duration = Duration::from_secs(1);
/// How long the write of the status may be deferred while changes come in: resizing comes first.
const MAX_STATUS_DELAY: Duration = Duration::from_secs(1);
/// The delay after the first failure in a row; it doubles with each further one.
const INITIAL_BACKOFF: Duration = Duration::from_millis(500);
/// The delay after a conflict: the changed fleet is about to arrive in the cache.
const CONFLICT_DELAY: Duration = Duration::from_millis(50);

/// The states of all autoscalers.
#[derive(Default)]
pub(super) struct EvaluationStates {
    all: Mutex<HashMap<Key, EvaluationState>>,
}

/// The state of one autoscaler.
#[derive(Default)]
pub(super) struct EvaluationState {
    /// The recent recommendations.
    pub(super) history: History,
    /// The first change since the last evaluation, and the last one that belongs to the same burst.
    burst: Option<(Instant, Instant)>,
    /// The earliest time of the next evaluation that sends requests.
    requests_at: Option<Instant>,
    generation: Option<i64>,
    failures: u32,
    /// Whether the status does not report the last resize yet.
    is_resized: bool,
    /// Since when the write of the status is deferred.
    status_deferred_since: Option<Instant>,
}

impl EvaluationStates {
    /// Starts an evaluation. A new spec resets the state.
    pub(super) fn start(&self, key: &Key, autoscaler: &FleetAutoscaler, may_ask: bool) {
        let generation = autoscaler.metadata.generation;
        self.with(key, |state| {
            if state.generation != generation {
                *state = EvaluationState { generation, ..EvaluationState::default() };
            }
            state.burst = None;
            state.requests_at = may_ask.then(|| Instant::now() + MIN_REQUEST_INTERVAL);
        });
    }

    /// Records a change, and returns when to evaluate it. Only game servers that players join or leave prolong a burst: what follows from a
    /// resize, such as new game servers, does not.
    pub(super) fn changed(&self, key: &Key, is_of_players: bool) -> Instant {
        let now = Instant::now();
        self.with(key, |state| {
            let (first, last) = state.burst.unwrap_or((now, now));
            state.burst = Some((first, if is_of_players { now } else { last }));
            state.evaluate_at().unwrap_or(now)
        })
    }

    /// Returns until when the evaluation waits for more changes; `None`: it is due.
    pub(super) fn waits_until(&self, key: &Key) -> Option<Instant> {
        self.with(key, |state| state.evaluate_at()).filter(|at| *at > Instant::now())
    }

    pub(super) fn forget(&self, key: &Key) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    pub(super) fn with<T>(&self, key: &Key, what: impl FnOnce(&mut EvaluationState) -> T) -> T {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        what(all.entry(key.clone()).or_default())
    }
}

impl EvaluationState {
    fn evaluate_at(&self) -> Option<Instant> {
        let (first, last) = self.burst?;
        let at = (last + BURST_GAP).min(first + MAX_BURST);
        Some(self.requests_at.map_or(at, |requests_at| requests_at.max(at)))
    }

    /// Records whether the fleet was resized, and returns whether the status to write reports a resize. `None`: the write is deferred to
    /// the next evaluation, which is queued already.
    pub(super) fn status_due(&mut self, is_resized: bool, is_queued: bool) -> Option<bool> {
        self.is_resized |= is_resized;
        if is_queued {
            let since = *self.status_deferred_since.get_or_insert_with(Instant::now);
            if since.elapsed() < MAX_STATUS_DELAY {
                return None;
            }
        }
        self.status_deferred_since = None;
        Some(std::mem::take(&mut self.is_resized))
    }

    /// Returns the delay before the next attempt after a failure; `None` when there was none.
    pub(super) fn retry_after(
        &mut self,
        decision: &FleetDecision,
        outcome: &ResizeOutcome,
    ) -> Option<Duration> {
        let is_failed_reply = matches!(decision.outcome, Err(Refusal::ReplyFailed { .. }));
        match outcome {
            ResizeOutcome::Overtaken => return Some(CONFLICT_DELAY),
            ResizeOutcome::Kept | ResizeOutcome::Resized if !is_failed_reply => {
                self.failures = 0;
                return None;
            }
            ResizeOutcome::Kept | ResizeOutcome::Resized | ResizeOutcome::Failed(_) => {}
        }
        let wait = INITIAL_BACKOFF.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        Some(wait)
    }
}
