//! Which series in the files answers a check, a rule or a policy?

use api::plimsoll::auto_scale_policy::{AutoScalePolicySpec, RelativeTo, ServiceMetric};
use api::plimsoll::container_stats::{ContainerStatsSpec, of_service};
use api::plimsoll::metric_series::MetricSeriesSpec;
use api::plimsoll::scaling_policy::{CheckSpec, RuleMetric, RuleSpec, ScalingPolicySpec};
use decide::checks::{Reading, Series};
use serde::de::DeserializeOwned;

use super::super::world::{Object, World};

/// What was found.
pub(super) enum Found {
    Series(Series),
    Nothing,
    Error(String),
}

impl Found {
    /// Gives it as a source would.
    pub(super) fn reading(&self) -> Reading<'_> {
        match self {
            Self::Series(series) => Reading::Series(series),
            Self::Nothing => Reading::Missing,
            Self::Error(words) => Reading::Failed(words),
        }
    }
}

/// Finds the series with the query of a check.
pub(super) fn of_check(check: &CheckSpec, namespace: &str, world: &World) -> Found {
    let is_asked = |series: &MetricSeriesSpec| {
        let same_source = match (&series.source, &check.source) {
            (Some(has), Some(wants)) => has == wants,
            (None, _) | (_, None) => true,
        };
        same_source && series.query.as_deref() == Some(check.query.as_str())
    };
    only(world, namespace, is_asked)
}

/// Finds the series of a rule's metric, or makes it from the stats of the service that is the target.
pub(super) fn of_rule(
    rule: &RuleSpec,
    policy: &ScalingPolicySpec,
    namespace: &str,
    world: &World,
) -> Found {
    let service = policy.target.docker.as_ref().map(|docker| docker.service.as_str());
    let is_asked = |series: &MetricSeriesSpec| {
        let same_service = series.service_id.as_deref().is_none_or(|id| Some(id) == service);
        same_service && series.is_of(rule.metric.name())
    };
    let counted = match rule.metric {
        RuleMetric::Cpu => Some(ServiceMetric::Cpu),
        RuleMetric::Memory => Some(ServiceMetric::Memory),
        RuleMetric::Requests => None,
    };
    match (only(world, namespace, is_asked), service, counted) {
        (Found::Nothing, Some(service), Some(metric)) => {
            of_containers(service, metric, RelativeTo::Limit, namespace, world)
        }
        (found, _, _) => found,
    }
}

/// Finds the series of a service's metric, or makes it from the stats of its containers.
pub(super) fn of_policy(policy: &AutoScalePolicySpec, namespace: &str, world: &World) -> Found {
    let is_asked = |series: &MetricSeriesSpec| {
        series.service_id.as_deref() == Some(policy.service_id.as_str())
            && series.is_of(policy.metric.name())
    };
    let found = only(world, namespace, is_asked);
    if !matches!(found, Found::Nothing) {
        return found;
    }
    let (service, relative_to) = (policy.service_id.as_str(), policy.relative_to);
    of_containers(service, policy.metric, relative_to, namespace, world)
}

fn of_containers(
    service: &str,
    metric: ServiceMetric,
    relative_to: RelativeTo,
    namespace: &str,
    world: &World,
) -> Found {
    let all: Vec<ContainerStatsSpec> = specs(world, "ContainerStats", namespace);
    let containers: Vec<_> = all.iter().filter(|stats| stats.service_id == service).collect();
    if containers.is_empty() {
        return Found::Nothing;
    }
    match of_service(&containers, metric, relative_to, world.now) {
        Ok(series) => Found::Series(series),
        Err(words) => Found::Error(words),
    }
}

/// Gives the only series that answers; two are an error, since there is no telling which is meant.
fn only(world: &World, namespace: &str, is_asked: impl Fn(&MetricSeriesSpec) -> bool) -> Found {
    let mut all: Vec<MetricSeriesSpec> = specs(world, "MetricSeries", namespace);
    all.retain(is_asked);
    match all.as_slice() {
        [] => Found::Nothing,
        [one] => match &one.error {
            Some(words) => Found::Error(words.clone()),
            None => Found::Series(one.series(world.now)),
        },
        several => Found::Error(format!("{} series answer", several.len())),
    }
}

fn specs<T: DeserializeOwned>(world: &World, kind: &str, namespace: &str) -> Vec<T> {
    let here = world.of(kind).filter(|o| o.namespace.as_deref() == Some(namespace));
    here.filter_map(Object::spec).collect()
}
