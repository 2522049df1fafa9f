//! The answers of metric sources, and recorded series in their place.

use std::borrow::Borrow;

use api::plimsoll::auto_scale_policy::{AutoScalePolicySpec, RelativeTo, ServiceMetric};
use api::plimsoll::container_stats::{ContainerStatsSpec, of_service};
use api::plimsoll::metric_series::MetricSeriesSpec;
use api::plimsoll::scaling_policy::{CheckSpec, RuleMetric, RuleSpec, ScalingPolicySpec};
use api::plimsoll::{ContainerStats, MetricSeries, Span};
use decide::checks::{Reading, Series};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::lister::{Lister, Unreadable};

/// The answer of a source.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Numbers over time.
    Series(Series),
    /// The source has no data.
    NoData,
    /// All of its numbers are older than the window; the time of the newest.
    Stale(Timestamp),
    /// It failed, for the reason given.
    Failed(String),
}

impl Answer {
    /// Returns the answer as decisions read it.
    pub fn reading(&self) -> Reading<'_> {
        match self {
            Self::Series(series) => Reading::Series(series),
            Self::NoData => Reading::Missing,
            Self::Stale(newest_at) => Reading::Stale(*newest_at),
            Self::Failed(why) => Reading::Failed(why),
        }
    }
}

/// Whether a series answers the check or policy `name`.
fn is_for(series: &MetricSeriesSpec, name: &str) -> bool {
    series.only_for.as_deref().is_none_or(|only| only == name)
}

/// The answers to be recorded as series, each for those that ask the same and were answered the same.
#[derive(Default)]
pub(crate) struct RecordedSeries {
    /// The question as the fields of a series, who asked it, and the answer as fields; absent: no data.
    answers: Vec<(Value, String, Option<Value>)>,
}

impl RecordedSeries {
    /// Adds the answer to a question of the check or policy `name`.
    pub(crate) fn add(&mut self, question: Value, name: &str, answer: &Answer) {
        self.answers.push((question, name.to_owned(), answer_fields(answer)));
    }

    /// Returns one MetricSeries for each question. Where the same query was answered in several ways, as for two windows or sources, there is
    /// one for each that asked. No data is no series.
    pub(crate) fn objects(self, namespace: Option<&str>) -> Vec<Value> {
        let mut series: Vec<Value> = Vec::new();
        for (question, name, answer) in &self.answers {
            let mut alike = self.answers.iter().filter(|(other, ..)| is_alike(other, question));
            let is_shared = alike.all(|other| (&other.0, &other.2) == (question, answer));
            let Some(Value::Object(answer)) = answer else { continue };
            let mut spec = question.clone();
            if let Some(fields) = spec.as_object_mut() {
                fields.extend(answer.clone());
                if !is_shared {
                    fields.insert("onlyFor".to_owned(), json!(name));
                }
            }
            if !series.contains(&spec) {
                series.push(spec);
            }
        }
        let object = |(index, spec): (usize, Value)| {
            json!({
                "apiVersion": "plimsoll.dev/v1alpha1", "kind": "MetricSeries",
                "metadata": {"name": format!("series-{index}"), "namespace": namespace},
                "spec": spec,
            })
        };
        series.into_iter().enumerate().map(object).collect()
    }
}

/// Whether a series of one question might be taken for that of another.
fn is_alike(one: &Value, other: &Value) -> bool {
    ["query", "metric", "serviceId"].iter().all(|field| one.get(field) == other.get(field))
}

fn answer_fields(answer: &Answer) -> Option<Value> {
    match answer {
        Answer::Series(series) => {
            let point =
                |(at, value): (Timestamp, f64)| json!({"at": at.to_string(), "value": value});
            let mut fields = json!({"points": series.points().map(point).collect::<Vec<_>>()});
            if series.step().is_positive() {
                fields["step"] = json!(Span(series.step()));
            }
            Some(fields)
        }
        Answer::Stale(newest_at) => Some(json!({"newestAt": newest_at.to_string()})),
        Answer::Failed(why) => Some(json!({"error": why})),
        Answer::NoData => None,
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
            is_of_source
                && is_for(series, &check.name)
                && series.query.as_deref() == Some(check.query.as_str())
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

    /// Answers the AutoScalePolicy `name` with the series of its service, or with the stats of the service's containers.
    pub fn service(&self, name: &str, policy: &AutoScalePolicySpec) -> Result<Answer, Unreadable> {
        let found = self.only(|series| {
            series.service_id.as_deref() == Some(policy.service_id.as_str())
                && is_for(series, name)
                && series.is_of(policy.metric.name())
        })?;
        match found {
            Answer::NoData => {
                self.containers(&policy.service_id, policy.metric, policy.relative_to)
            }
            Answer::Series(_) | Answer::Stale(_) | Answer::Failed(_) => Ok(found),
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
            answer = match (&spec.error, &spec.newest_at) {
                (Some(why), _) => Answer::Failed(why.clone()),
                (None, Some(newest_at)) => Answer::Stale(newest_at.0),
                (None, None) => Answer::Series(spec.series(self.now)),
            };
        }
        Ok(if count > 1 { Answer::Failed(format!("{count} series match")) } else { answer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn specs(answers: &[(&str, &str, Answer)]) -> Vec<Value> {
        let mut series = RecordedSeries::default();
        for (query, name, answer) in answers {
            series.add(json!({"query": query}), name, answer);
        }
        series.objects(Some("ns")).into_iter().map(|mut object| object["spec"].take()).collect()
    }

    #[test]
    fn equal_answers_to_one_question_are_one_series_and_different_ones_name_who_asked() {
        let stale = || Answer::Stale(at(60));
        let failed = || Answer::Failed("refused".to_owned());
        let newest_at = "1970-01-01T00:01:00Z";
        assert_eq!(
            specs(&[("a", "x", stale()), ("a", "y", stale()), ("b", "z", failed())]),
            [
                json!({"query": "a", "newestAt": newest_at}),
                json!({"query": "b", "error": "refused"})
            ]
        );
        assert_eq!(
            specs(&[("a", "x", stale()), ("a", "y", failed()), ("a", "z", Answer::NoData)]),
            [
                json!({"query": "a", "newestAt": newest_at, "onlyFor": "x"}),
                json!({"query": "a", "error": "refused", "onlyFor": "y"}),
            ]
        );
        let mut sources = RecordedSeries::default();
        sources.add(json!({"query": "a"}), "x", &stale());
        sources.add(json!({"query": "a", "source": "s"}), "y", &stale());
        let only_for: Vec<Value> =
            sources.objects(None).iter().map(|object| object["spec"]["onlyFor"].clone()).collect();
        assert_eq!(only_for, ["x", "y"]);
    }

    #[test]
    fn points_are_recorded_with_their_distance() {
        let points = vec![(at(10), 1.0), (at(20), 2.0)];
        let series = Answer::Series(Series::new(points, None));
        assert_eq!(
            specs(&[("a", "x", series)]),
            [json!({"query": "a", "step": "10s", "points": [
                {"at": "1970-01-01T00:00:10Z", "value": 1.0},
                {"at": "1970-01-01T00:00:20Z", "value": 2.0},
            ]})]
        );
    }
}
