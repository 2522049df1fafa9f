//! The answers of metric sources, and those that recorded series give in their place.

use std::borrow::Borrow;

use api::plimsoll::auto_scale_policy::{AutoScalePolicySpec, RelativeTo, ServiceMetric};
use api::plimsoll::container_stats::{ContainerStatsSpec, of_service};
use api::plimsoll::metric_series::MetricSeriesSpec;
use api::plimsoll::scaling_policy::{CheckSpec, RuleMetric, RuleSpec, ScalingPolicySpec};
use api::plimsoll::{ContainerStats, MetricSeries};
use decide::checks::{Reading, Series};
use jiff::Timestamp;

use crate::lister::{Lister, Unreadable};

/// What a source answered.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Numbers over time.
    Series(Series),
    /// It has none.
    NoData,
    /// It failed, for the reason given.
    Failed(String),
}

impl Answer {
    /// Returns the answer as decisions read it.
    pub fn reading(&self) -> Reading<'_> {
        match self {
            Self::Series(series) => Reading::Series(series),
            Self::NoData => Reading::Missing,
            Self::Failed(why) => Reading::Failed(why),
        }
    }
}

/// The recorded series of a namespace, as they are at one moment.
pub struct Recorded<'w, W> {
    /// Where the series and the stats of containers are found.
    pub world: &'w W,
    /// The namespace.
    pub namespace: &'w str,
    /// The moment.
    pub now: Timestamp,
}

impl<W: Lister<MetricSeries> + Lister<ContainerStats>> Recorded<'_, W> {
    /// Answers a check with the series that has its query.
    pub fn check(&self, check: &CheckSpec) -> Result<Answer, Unreadable> {
        self.only(|series| {
            let is_of_source = match (&series.source, &check.source) {
                (Some(has), Some(wants)) => has == wants,
                (None, _) | (_, None) => true,
            };
            is_of_source && series.query.as_deref() == Some(check.query.as_str())
        })
    }

    /// Answers a rule with the series of its metric, or with the stats of the service that is the target.
    pub fn rule(&self, rule: &RuleSpec, policy: &ScalingPolicySpec) -> Result<Answer, Unreadable> {
        let service = policy.target.docker.as_ref().map(|docker| docker.service.as_str());
        let found = self.only(|series| {
            let is_of_service = series.service_id.as_deref().is_none_or(|id| Some(id) == service);
            is_of_service && series.is_of(rule.metric.name())
        })?;
        let counted = match rule.metric {
            RuleMetric::Cpu => Some(ServiceMetric::Cpu),
            RuleMetric::Memory => Some(ServiceMetric::Memory),
            RuleMetric::Requests => None,
        };
        match (found, service, counted) {
            (Answer::NoData, Some(service), Some(metric)) => {
                self.containers(service, metric, RelativeTo::Limit)
            }
            (found, _, _) => Ok(found),
        }
    }

    /// Answers an AutoScalePolicy with the series of its service, or with the stats of the service's containers.
    pub fn service(&self, policy: &AutoScalePolicySpec) -> Result<Answer, Unreadable> {
        let found = self.only(|series| {
            series.service_id.as_deref() == Some(policy.service_id.as_str())
                && series.is_of(policy.metric.name())
        })?;
        match found {
            Answer::NoData => {
                self.containers(&policy.service_id, policy.metric, policy.relative_to)
            }
            Answer::Series(_) | Answer::Failed(_) => Ok(found),
        }
    }

    fn containers(
        &self,
        service: &str,
        metric: ServiceMetric,
        relative_to: RelativeTo,
    ) -> Result<Answer, Unreadable> {
        let mut containers: Vec<ContainerStatsSpec> = Vec::new();
        for stats in Lister::<ContainerStats>::list(self.world, Some(self.namespace)) {
            let stats = stats?;
            let spec = &Borrow::<ContainerStats>::borrow(&stats).spec;
            containers.extend((spec.service_id == service).then(|| spec.clone()));
        }
        if containers.is_empty() {
            return Ok(Answer::NoData);
        }
        let containers: Vec<_> = containers.iter().collect();
        Ok(match of_service(&containers, metric, relative_to, self.now) {
            Ok(series) => Answer::Series(series),
            Err(why) => Answer::Failed(why),
        })
    }

    /// Answers with the only series that matches; two are an error, since either could be meant.
    fn only(&self, is_asked: impl Fn(&MetricSeriesSpec) -> bool) -> Result<Answer, Unreadable> {
        let mut answer = Answer::NoData;
        let mut count = 0;
        for series in Lister::<MetricSeries>::list(self.world, Some(self.namespace)) {
            let series = series?;
            let spec = &Borrow::<MetricSeries>::borrow(&series).spec;
            if !is_asked(spec) {
                continue;
            }
            count += 1;
            answer = match &spec.error {
                Some(why) => Answer::Failed(why.clone()),
                None => Answer::Series(spec.series(self.now)),
            };
        }
        Ok(if count > 1 { Answer::Failed(format!("{count} series answer")) } else { answer })
    }
}
