//! Scaling policies: the size of a target, by checks and rules.
//!
//! A policy is evaluated at its interval, and at once when it, its target or a source that reports changes has changed. What later
//! decisions depend on is in its status, so that a restart or another leader continues where this one stopped.

mod act;
pub(crate) mod ask;
pub mod describe;
mod journal;
pub mod observe;
mod record;
mod report;
pub mod target;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use api::plimsoll::ScalingPolicy;
use cluster::{CachedKind, Error, Key, RequeueAt, WorkQueue};
use connect::targets::{TargetRef, TargetSize};
use decide::checks::{Outcome as Because, Policy, ScalingDecision, just_after};
use tokio::time::Instant;

use crate::context::Context;
use crate::targets::{self, Outcome, Phases, PolicyIndex, Rivals, TargetId, TargetWatches};
use journal::Evaluation;
use observe::{Answers, Observation};

/// The longest time between two evaluations where the policy does not say.
const USUAL_INTERVAL: Duration = Duration::from_secs(10);
/// The shortest time between two evaluations without a change.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(500);
/// The most policies that are evaluated at a time. Most of them wait for a source, and each source has a limit of its own.
const CONCURRENCY: usize = 4096;
/// How soon a target is read again after an action with an unknown result.
const UNKNOWN_RETRY: Duration = Duration::from_secs(1);

/// Every scaling policy.
struct Policies {
    cx: Arc<Context>,
    connect: connect::Context,
    queue: Arc<WorkQueue>,
    index: Arc<PolicyIndex>,
    rivals: Arc<Rivals>,
    watches: TargetWatches,
    phases: Phases,
}

/// The kinds that are followed for scaling policies.
pub(crate) const KINDS: [CachedKind; 5] = [
    CachedKind::ScalingPolicy,
    CachedKind::MetricSource,
    CachedKind::FleetAutoscaler,
    CachedKind::HorizontalPodAutoscaler,
    CachedKind::ScaledObject,
];

/// Runs the controller of scaling policies for as long as it is polled.
pub(crate) async fn run(cx: Arc<Context>) {
    cx.caches.synced(&KINDS.into_iter().collect()).await;
    let (queue, index): (Arc<WorkQueue>, Arc<PolicyIndex>) = Default::default();
    let all = Arc::new(Policies {
        watches: targets::watches(&cx, &queue, &index),
        connect: cx.connect(),
        rivals: Arc::default(),
        phases: Phases::new(),
        queue,
        index,
        cx,
    });
    let _subscriptions = watch::changes(&all);
    let reconcile = |key| {
        let all = Arc::clone(&all);
        async move { all.reconcile(&key).await }
    };
    all.queue.run(CONCURRENCY, reconcile).await;
}

impl Policies {
    /// Evaluates one policy: reads the target, queries the sources, decides the size, scales the target, and records the decision.
    async fn reconcile(&self, key: &Key) -> Result<RequeueAt, Error> {
        let Some(policy) = self.cx.caches.policies.get(key) else {
            self.index.remove(key);
            return Ok(None);
        };
        if policy.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let interval = interval(&policy);
        let next_at = self.phases.next_at(key, interval, Instant::now());
        let read = match policy.spec.decidable() {
            Ok(read) => read,
            Err(problems) => {
                let text = crate::lister::sentence(&problems);
                record::inactive(&policy, "InvalidPolicy", &text, self).await?;
                return Ok(None);
            }
        };
        if !policy.spec.enabled {
            let text = Because::Disabled.to_string();
            record::inactive(&policy, "ScalingDisabled", &text, self).await?;
            return Ok(None);
        }
        let opened = self.index.open(key, target_of(&policy), &self.connect);
        let target = match opened {
            Ok(target) => target,
            Err(problem) => {
                record::unable(&policy, "InvalidTarget", &problem, self).await?;
                return Ok(Some(next_at));
            }
        };
        self.watches.watch_target(&policy.spec.target);
        let current = match targets::read(&*target, interval).await {
            Ok(current) => current,
            Err(error) => {
                record::unable(&policy, "FailedGetScale", &error.to_string(), self).await?;
                return Ok(Some(next_at));
            }
        };
        let generation = policy.metadata.generation;
        let policy = act::resolve_pending(policy, i64::from(current.count), self).await?;
        if policy.metadata.generation != generation {
            // The policy has changed since it was read.
            return Ok(Some(Instant::now()));
        }
        let evaluation = self.evaluate(&policy, read, &current, interval).await;
        let outcome = act::scale(&evaluation, &target, &current.version, interval, self).await?;
        let (from, to) = (evaluation.decision.from, evaluation.decision.to);
        tracing::trace!(policy = %key, from, to, ?outcome, "evaluated");
        journal::record(&evaluation, &outcome, self);
        record::all(&evaluation, &outcome, self).await?;
        let retry_at = self.index.retry_at(key, &outcome, Instant::now(), interval);
        let next_at = || self.next_at(&evaluation.decision, &outcome, next_at);
        Ok(Some(retry_at.unwrap_or_else(next_at)))
    }

    /// Queries the sources and decides.
    async fn evaluate(
        &self,
        policy: &Arc<ScalingPolicy>,
        read: Policy,
        current: &TargetSize,
        interval: Duration,
    ) -> Evaluation {
        let (now, count) = (self.cx.clock.now(), i64::from(current.count));
        let shared_with = self.shared_with(policy);
        // The sources are not queried if another autoscaler sizes the target.
        let answers = match shared_with {
            None => ask::all(policy, &read, count, now, interval, self).await,
            Some(_) => Answers::none(&policy.spec),
        };
        let mut observation = Observation::new(read, policy.status.as_ref(), count, answers);
        observation.shared_with = shared_with;
        let decision = observation.decide(now);
        Evaluation { policy: Arc::clone(policy), observation, decision, at: now }
    }

    /// Returns the name of the autoscaler that sizes the target instead of this policy. A dry run scales nothing, so it conflicts with none.
    fn shared_with(&self, policy: &ScalingPolicy) -> Option<String> {
        if policy.spec.dry_run {
            return None;
        }
        let id = id_of(policy);
        self.rivals.name_of(&id).or_else(|| {
            let all = self.index.policies_of(&id);
            let all = all.iter().filter_map(|key| self.cx.caches.policies.get(key));
            let acting = targets::acting_policy(all)?;
            let is_other = acting != Key::from_meta(&policy.metadata);
            is_other.then(|| format!("ScalingPolicy {acting}"))
        })
    }

    /// Returns when a policy is evaluated next if nothing changes.
    fn next_at(&self, decision: &ScalingDecision, outcome: &Outcome, next_at: Instant) -> Instant {
        let now = Instant::now();
        let next_at = next_at.max(now + SHORTEST_INTERVAL);
        if matches!(outcome, Outcome::Unknown(_)) {
            return next_at.min(now + UNKNOWN_RETRY);
        }
        let cooled_at = decision.reasons.iter().find_map(|reason| {
            let Because::CoolingDown { until, .. } = reason else { return None };
            Some(self.cx.clock.timer(just_after(*until)))
        });
        cooled_at.map_or(next_at, |at| next_at.min(at.max(now + SHORTEST_INTERVAL)))
    }
}

/// Returns the longest time between two evaluations of a policy.
fn interval(policy: &ScalingPolicy) -> Duration {
    let given = policy.spec.evaluation_interval.map(|span| Duration::try_from(span.0));
    let given = given.and_then(Result::ok).filter(|interval| !interval.is_zero());
    given.unwrap_or(USUAL_INTERVAL).max(SHORTEST_INTERVAL)
}

fn target_of(policy: &ScalingPolicy) -> TargetRef {
    let namespace = policy.metadata.namespace.clone().unwrap_or_default();
    TargetRef { namespace, spec: policy.spec.target.clone() }
}

fn id_of(policy: &ScalingPolicy) -> TargetId {
    let namespace = policy.metadata.namespace.as_deref().unwrap_or_default();
    TargetId::new(namespace, &policy.spec.target)
}
