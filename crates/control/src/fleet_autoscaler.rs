//! The controller of fleet autoscalers: observes a fleet, decides its size, resizes it and records why.
//!
//! An autoscaler is evaluated shortly after a change that its decision depends on, so that a burst of changes is one evaluation, and at
//! the latest after its sync interval.

mod act;
mod ask;
pub mod describe;
mod journal;
pub mod observe;
mod record;
mod report;
mod state;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use api::autoscaling::FleetAutoscaler;
use cluster::{Error, Key, RequeueAt, WorkQueue};
use connect::Ask;
use decide::fleet::{FleetDecision, Policy, Replies, stabilize};
use jiff::SignedDuration;
use tokio::time::Instant;

use crate::context::Context;
use act::ResizeOutcome;
use journal::Evaluation;
use state::EvaluationStates;
use watch::FleetWatchers;

/// The annotation that sets how long a fleet waits before it shrinks, such as `5m`.
pub const STABILIZATION_ANNOTATION: &str = "plimsoll.dev/scale-down-stabilization";

/// All autoscalers, with the state that each keeps between two evaluations.
struct Autoscalers {
    cx: Arc<Context>,
    ask: Ask,
    queue: Arc<WorkQueue>,
    states: Arc<EvaluationStates>,
    watchers: Arc<FleetWatchers>,
}

/// Reconciles autoscalers for as long as it is polled.
pub(crate) async fn run(cx: Arc<Context>) {
    let ask = match cx.settings.resolves_services {
        true => Ask::resolving_services(cx.client.clone()),
        false => Ask::new(),
    };
    let ask = ask.with_surroundings(cx.settings.clock.clone(), cx.settings.random.clone());
    let all = Arc::new(Autoscalers {
        ask,
        queue: Arc::default(),
        states: Arc::default(),
        watchers: Arc::default(),
        cx: Arc::clone(&cx),
    });
    let _subscriptions = watch::changes(&all);
    let reconcile = |key| {
        let all = Arc::clone(&all);
        async move { all.reconcile(&key).await }
    };
    all.queue.run(cx.settings.concurrency, reconcile).await;
}

impl Autoscalers {
    /// Observes one autoscaler's fleet, decides its size, resizes it and records why.
    async fn reconcile(&self, key: &Key) -> Result<RequeueAt, Error> {
        let Some(autoscaler) = self.cx.caches.autoscalers.get(key) else {
            self.states.forget(key);
            return Ok(None);
        };
        if let Some(at) = self.states.waits_until(key) {
            return Ok(Some(at));
        }
        let spec = observe::parse(&autoscaler);
        let policy = spec.as_ref().map(|spec| &spec.policy).ok();
        self.states.start(key, &autoscaler, policy.is_some_and(Policy::may_ask));
        let Some(fleet) = self.cx.caches.fleets.get(&observe::target(&autoscaler)) else {
            record::missing(&autoscaler, self).await?;
            return Ok(Some(Instant::now() + interval(&autoscaler)));
        };
        if fleet.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let reads_servers = policy.is_some_and(Policy::reads_servers);
        let observed = observe::observe(&autoscaler, &fleet, reads_servers, self);
        let mut replies = Replies::new();
        let decision = match &spec {
            Ok(spec) => {
                let policy = &spec.policy;
                let decision =
                    ask::decide(&autoscaler, policy, &fleet, &observed, &mut replies, self).await;
                self.stabilize(key, spec.stabilization, decision)
            }
            Err(problems) => observe::unreadable(observed.fleet.replicas, problems),
        };
        let at = self.cx.clock.now();
        let outcome = act::resize(&decision, &fleet, self).await;
        let (autoscaler, fleet, observed) = (&autoscaler, &fleet, &observed);
        let (replies, decision, outcome) = (&replies, &decision, &outcome);
        let evaluation = Evaluation { autoscaler, fleet, observed, replies, decision, outcome, at };
        journal::record(&evaluation, self);
        record::evaluation(autoscaler, observed, decision, outcome, self).await?;
        Ok(Some(self.requeue_at(key, autoscaler, decision, outcome)))
    }

    fn stabilize(
        &self,
        key: &Key,
        window: Option<SignedDuration>,
        decision: FleetDecision,
    ) -> FleetDecision {
        let Some(window) = window else { return decision };
        let now = self.cx.clock.now();
        self.states.with(key, |state| stabilize(decision, &mut state.history, window, now))
    }

    /// Returns whether the status to write reports a resize; `None`: its write is deferred.
    fn status_due(&self, autoscaler: &FleetAutoscaler, is_resized: bool) -> Option<bool> {
        let key = Key::from_meta(&autoscaler.metadata);
        let is_queued = self.queue.is_due(&key, Instant::now() + state::MAX_BURST);
        self.states.with(&key, |state| state.status_due(is_resized, is_queued))
    }

    /// Returns when to evaluate again without a change: sooner after a failure, and when time alone could change the decision.
    fn requeue_at(
        &self,
        key: &Key,
        autoscaler: &FleetAutoscaler,
        decision: &FleetDecision,
        outcome: &ResizeOutcome,
    ) -> Instant {
        let interval = interval(autoscaler);
        let retry_after = self.states.with(key, |m| m.retry_after(decision, outcome));
        let latest = Instant::now() + retry_after.unwrap_or(interval).min(interval);
        let wake_at = decision.wake_at.map(|at| self.cx.clock.timer(at));
        wake_at.into_iter().chain([latest]).min().unwrap_or(latest)
    }
}

/// Returns the longest time between two evaluations.
fn interval(autoscaler: &FleetAutoscaler) -> Duration {
    let seconds = autoscaler.spec.sync.as_ref().map_or(30, |sync| sync.fixed_interval.seconds);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(30).max(1))
}
