//! Policies of services: thresholds of CPU and memory, as Rancher's design has them. All policies of one service are one decision.

mod act;
pub mod describe;
mod journal;
pub mod observe;
mod record;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use api::Problem;
use api::plimsoll::AutoScalePolicy;
use api::plimsoll::auto_scale_policy::ServiceMetric;
use cluster::{CachedKind, Error, Key, RequeueAt, WorkQueue};
use connect::targets::TargetRef;
use decide::checks::{Window, just_after};
use decide::rules::service::{Fire, Threshold, Verdict};
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::time::Instant;

use crate::context::Context;
use crate::metrics::Answer;
use crate::scaling_policy::ask::own_source;
use crate::sources::Question;
use crate::targets::{self, Outcome, Phases, PolicyIndex, Rivals, TargetId, TargetWatches};
use observe::Observation;

/// The most services that are evaluated at a time. Most of them wait for a source, and each source has a limit of its own.
const CONCURRENCY: usize = 4096;
/// How soon a target is read again after an action with an unknown result.
const UNKNOWN_RETRY: Duration = Duration::from_secs(1);
/// The time window that a policy evaluates.
const WINDOW: SignedDuration = SignedDuration::from_secs(60);

/// The kinds that are followed for policies of services.
pub(crate) const KINDS: [CachedKind; 6] = [
    CachedKind::AutoScalePolicy,
    CachedKind::ScalingPolicy,
    CachedKind::MetricSource,
    CachedKind::FleetAutoscaler,
    CachedKind::HorizontalPodAutoscaler,
    CachedKind::ScaledObject,
];

/// Every service that has policies. The keys are namespaces and service ids.
struct Services {
    cx: Arc<Context>,
    connect: connect::Context,
    queue: Arc<WorkQueue>,
    index: Arc<PolicyIndex>,
    rivals: Arc<Rivals>,
    watches: TargetWatches,
    phases: Phases,
}

/// The policies of one service, oldest first.
#[derive(Default)]
struct PoliciesOfService {
    valid: Vec<Arc<AutoScalePolicy>>,
    /// Those that cannot be read, with everything that is wrong with them.
    invalid: Vec<(Arc<AutoScalePolicy>, Vec<Problem>)>,
}

/// The policies of one service at one moment, and the verdict on each.
struct Evaluation {
    policies: Vec<Arc<AutoScalePolicy>>,
    count: i64,
    answers: Vec<Answer>,
    verdicts: Vec<Verdict>,
    at: Timestamp,
}

impl Evaluation {
    /// Returns the index of the policy that scales the service now.
    fn firing(&self) -> Option<usize> {
        self.verdicts.iter().position(|verdict| verdict.fires)
    }
}

/// Runs the controller of service policies for as long as it is polled.
pub(crate) async fn run(cx: Arc<Context>) {
    cx.caches.synced(&KINDS.into_iter().collect()).await;
    let (queue, index): (Arc<WorkQueue>, Arc<PolicyIndex>) = Default::default();
    let all = Arc::new(Services {
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

impl Services {
    /// Evaluates the policies of one service: reads the size, queries the load, scales the service, and records the decision.
    async fn reconcile(&self, service: &Key) -> Result<RequeueAt, Error> {
        let PoliciesOfService { valid: policies, invalid } = self.policies(service);
        for (policy, problems) in &invalid {
            record::invalid(policy, problems, self).await?;
        }
        let Some(oldest) = policies.first() else {
            self.index.set_target(service, None);
            self.index.remove(service);
            return Ok(None);
        };
        let interval = self.cx.settings.service_interval;
        let next_at = self.phases.next_at(service, interval, Instant::now());
        let target_ref = self.target(oldest, &policies);
        let id = TargetId::new(&target_ref.namespace, &target_ref.spec);
        self.index.set_target(service, Some(id));
        let opened = self.index.open(service, target_ref.clone(), &self.connect);
        let target = match opened {
            Ok(target) => target,
            Err(problem) => {
                record::unable(&policies, "InvalidTarget", &problem, self).await?;
                return Ok(Some(next_at));
            }
        };
        self.watches.watch_target(&target_ref.spec);
        let current = match targets::read(&*target, interval).await {
            Ok(current) => current,
            Err(error) => {
                record::unable(&policies, "FailedGetScale", &error.to_string(), self).await?;
                return Ok(Some(next_at));
            }
        };
        let policies = act::resolve_pending(policies, i64::from(current.count), self).await?;
        let evaluation = self.evaluate(policies, i64::from(current.count), &target_ref).await;
        // A policy that was changed in the meantime may be unreadable now.
        let Some(evaluation) = evaluation else { return Ok(Some(Instant::now())) };
        let outcome =
            act::scale(service, &evaluation, &target, &current.version, interval, self).await?;
        journal::record(&evaluation, &outcome, self);
        record::all(service, &evaluation, &outcome, self).await?;
        let retry_at = self.index.retry_at(service, &outcome, Instant::now(), interval);
        let next_at = || self.next_at(&evaluation, &outcome, next_at);
        Ok(Some(retry_at.unwrap_or_else(next_at)))
    }

    /// Returns the policies of a service.
    fn policies(&self, service: &Key) -> PoliciesOfService {
        let mut policies = self.cx.caches.service_policies.all();
        policies.retain(|policy| {
            service_of(policy) == *service && policy.metadata.deletion_timestamp.is_none()
        });
        policies.sort_by_cached_key(|policy| {
            let created_at = policy.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (created_at, policy.metadata.name.clone())
        });
        let mut found = PoliciesOfService::default();
        for policy in policies {
            match policy.decidable() {
                Ok(_) => found.valid.push(policy),
                Err(problems) => found.invalid.push((policy, problems)),
            }
        }
        found
    }

    /// Returns what the policies scale: the target that one of them names, or else the service of Rancher or of the container engine.
    fn target(&self, oldest: &AutoScalePolicy, policies: &[Arc<AutoScalePolicy>]) -> TargetRef {
        let namespace = oldest.metadata.namespace.clone().unwrap_or_default();
        let named = policies.iter().find_map(|policy| policy.spec.target.clone());
        let spec = named.unwrap_or_else(|| {
            let system = if self.cx.sources.has_driver("rancher") { "rancher" } else { "docker" };
            let target = json!({system: {"service": oldest.spec.service_id}});
            serde_json::from_value(target).unwrap_or_default()
        });
        TargetRef { namespace, spec }
    }

    /// Queries the load of the service, and evaluates the policies; `None` if one of them cannot be read.
    async fn evaluate(
        &self,
        policies: Vec<Arc<AutoScalePolicy>>,
        count: i64,
        target: &TargetRef,
    ) -> Option<Evaluation> {
        let thresholds = policies.iter().map(|policy| policy.decidable().ok());
        let thresholds: Vec<Threshold> = thresholds.collect::<Option<_>>()?;
        let (at, interval) = (self.cx.clock.now(), self.cx.settings.service_interval);
        let shared_with = self.shared_with(target);
        let ask = |policy: &Arc<AutoScalePolicy>| {
            let question = self.question(policy, target);
            async move { self.cx.sources.ask(&question, at, interval).await }
        };
        let answers = match shared_with {
            None => join_all(policies.iter().map(ask)).await,
            Some(_) => vec![Answer::NoData; policies.len()],
        };
        let mut observation = Observation::new(thresholds, count, answers.clone());
        observation.shared_with = shared_with;
        let verdicts = observation.decide(at);
        Some(Evaluation { policies, count, answers, verdicts, at })
    }

    /// Returns the question of a policy: the load of its service over the last minute.
    fn question(&self, policy: &AutoScalePolicy, target: &TargetRef) -> Question {
        let spec = &policy.spec;
        let metric = match spec.metric {
            ServiceMetric::Cpu => "cpu",
            ServiceMetric::Memory => "memory",
        };
        let source = spec.source.as_deref().unwrap_or_else(|| own_source(&target.spec));
        let (sources, drivers) = (&self.cx.sources, ["docker", "kubernetes", "rancher"]);
        Question {
            source: Some(source.to_owned()),
            text: sources.usage_query(source, metric, spec.relative_to, &drivers),
            window: Window { length: Some(WINDOW), offset: SignedDuration::ZERO },
            target: target.clone(),
        }
    }

    /// Returns the name of another autoscaler of the same target: a ScalingPolicy, or one that is not part of Plimsoll.
    fn shared_with(&self, target: &TargetRef) -> Option<String> {
        let id = TargetId::new(&target.namespace, &target.spec);
        self.rivals.name_of(&id).or_else(|| {
            let of_target = self.cx.caches.policies.all().into_iter().filter(|policy| {
                let namespace = policy.metadata.namespace.as_deref().unwrap_or_default();
                TargetId::new(namespace, &policy.spec.target) == id
            });
            targets::acting_policy(of_target).map(|acting| format!("ScalingPolicy {acting}"))
        })
    }

    /// Returns when a service is evaluated next if nothing changes, at the latest when the quiet period of a policy ends.
    fn next_at(&self, evaluation: &Evaluation, outcome: &Outcome, next_at: Instant) -> Instant {
        if matches!(outcome, Outcome::Unknown(_)) {
            return next_at.min(Instant::now() + UNKNOWN_RETRY);
        }
        let quiet = evaluation.verdicts.iter().filter_map(|verdict| {
            let Fire::Quiet { until, .. } = verdict.why else { return None };
            Some(self.cx.clock.timer(just_after(until)))
        });
        quiet.chain([next_at]).min().unwrap_or(next_at)
    }
}

/// Returns the service of a policy.
fn service_of(policy: &AutoScalePolicy) -> Key {
    let namespace = policy.metadata.namespace.as_deref().unwrap_or_default();
    Key::new(namespace, policy.spec.service_id.as_str())
}
