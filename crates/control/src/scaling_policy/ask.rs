//! Queries the sources of a policy, all at the same time.

use std::time::Duration;

use api::plimsoll::ScalingPolicy;
use api::plimsoll::auto_scale_policy::RelativeTo;
use api::plimsoll::scaling_policy::{RuleMetric, ScalingPolicySpec, TargetSpec};
use decide::checks::{Policy, Window};
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};

use super::observe::Answers;
use super::{Policies, target_of};
use crate::metrics::Answer;
use crate::sources::{Question, Sources};

/// Answers every check and rule of a policy that will vote. No source is queried outside the schedule or the limits.
pub(super) async fn all(
    policy: &ScalingPolicy,
    read: &Policy,
    count: i64,
    now: Timestamp,
    interval: Duration,
    all: &Policies,
) -> Answers {
    let spec = &policy.spec;
    if !votes(read, count, now) {
        return Answers::none(spec);
    }
    let sources = &all.cx.sources;
    let ask = |question: Option<Question>| async move {
        match question {
            Some(question) => sources.ask(&question, now, interval).await,
            None => Answer::NoData,
        }
    };
    let checks = join_all(check_questions(policy, read, now).into_iter().map(ask));
    let metrics = [RuleMetric::Cpu, RuleMetric::Memory, RuleMetric::Requests];
    let rules = join_all(metrics.map(|metric| async move {
        match rule_question(policy, metric, sources) {
            Some(Ok(question)) => ask(Some(question)).await,
            Some(Err(problem)) => Answer::Failed(problem),
            None => Answer::NoData,
        }
    }));
    let (checks, by_metric) = tokio::join!(checks, rules);
    let rule = |metric| {
        let place = metrics.iter().position(|known| *known == metric);
        place.map_or(Answer::NoData, |place| by_metric[place].clone())
    };
    Answers { checks, rules: spec.rules.iter().map(|rule_spec| rule(rule_spec.metric)).collect() }
}

/// Whether checks and rules decide: the policy is in its schedule, and its target within the limits.
fn votes(policy: &Policy, count: i64, now: Timestamp) -> bool {
    policy.schedule.as_ref().is_none_or(|schedule| schedule.is_active(now))
        && policy.limits.nearest(count).is_none()
}

/// Returns the question of each check; `None` where it has none now.
fn check_questions(policy: &ScalingPolicy, read: &Policy, now: Timestamp) -> Vec<Option<Question>> {
    let question =
        |(spec, check): (&api::plimsoll::scaling_policy::CheckSpec, &decide::checks::Check)| {
            let is_active = check.schedule.as_ref().is_none_or(|schedule| schedule.is_active(now));
            (is_active && check.strategy.needs_numbers()).then(|| Question {
                source: spec.source.clone(),
                text: spec.query.clone(),
                window: check.window,
                target: target_of(policy),
            })
        };
    policy.spec.checks.iter().zip(&read.checks).map(question).collect()
}

/// Returns the one question of all rules about a metric, as long as the longest of them; `None` where there are no such rules.
fn rule_question(
    policy: &ScalingPolicy,
    metric: RuleMetric,
    sources: &Sources,
) -> Option<Result<Question, String>> {
    let spec = &policy.spec;
    let spans = spec.rules.iter().filter(|rule| rule.metric == metric).map(|rule| rule.span.0);
    let window = Window { length: Some(spans.max()?), offset: SignedDuration::ZERO };
    let (source, text) = match metric {
        RuleMetric::Cpu => {
            let (source, limit) = (rule_source(spec), RelativeTo::Limit);
            let text = sources.usage_query(source, metric.name(), limit, &["docker", "rancher"]);
            (source.to_owned(), text)
        }
        RuleMetric::Memory => (rule_source(spec).to_owned(), metric.name().to_owned()),
        RuleMetric::Requests => match &spec.requests_from {
            Some(from) => (from.source.clone(), from.query.clone()),
            None => {
                return Some(Err("`requests` needs `requestsFrom: {source, query}`".to_owned()));
            }
        },
    };
    Some(Ok(Question { source: Some(source), text, window, target: target_of(policy) }))
}

fn rule_source(spec: &ScalingPolicySpec) -> &str {
    spec.source.as_deref().unwrap_or_else(|| own_source(&spec.target))
}

/// Returns the source of the system that a target belongs to.
pub(crate) fn own_source(target: &TargetSpec) -> &'static str {
    match target {
        TargetSpec { docker: Some(_), .. } => "docker",
        TargetSpec { nomad: Some(_), .. } => "nomad",
        TargetSpec { kind: None, .. } => "rancher",
        _ => "kubernetes",
    }
}
