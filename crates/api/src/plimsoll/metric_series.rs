//! MetricSeries: numbers over time, in place of a source.

use std::sync::LazyLock;

use decide::checks::Series;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::CustomResourceExt;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Checks, Span};
use crate::{Admission, Kind, Problem, Scope};

/// The metrics that a series can be of, besides a query.
const METRICS: [&str; 6] = [
    "cpu",
    "memory",
    "requests",
    "CPUUtilizationPercent",
    "MemoryUtilization",
    "MemoryUtilizationPercent",
];

/// A time series in place of a metric source
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "plimsoll.dev",
    version = "v1alpha1",
    kind = "MetricSeries",
    plural = "metricseries",
    namespaced,
    derive = "PartialEq",
    printcolumn = r#"{"name": "Source", "type": "string", "jsonPath": ".spec.source"}"#,
    printcolumn = r#"{"name": "Query", "type": "string", "jsonPath": ".spec.query"}"#,
    printcolumn = r#"{"name": "Metric", "type": "string", "jsonPath": ".spec.metric"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
#[serde(default, rename_all = "camelCase")]
pub struct MetricSeriesSpec {
    /// The source of the checks that it answers; absent: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The query of the checks that it answers. Either this or `metric`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The metric of a rule or of an AutoScalePolicy. Either this or `query`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// The service that it is of, for an AutoScalePolicy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_id: Option<String>,
    /// The points, in any order. Either this or `values`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub points: Option<Vec<PointSpec>>,
    /// The values, evenly spaced, the last one at the time of the evaluation. Either this or `points`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<Option<f64>>>,
    /// The time between two values; 1s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<Span>,
    /// In place of points: all points of the source are older than the window, and this is the time of the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest_at: Option<Time>,
    /// The source fails with this message instead of returning points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The name of the only check or AutoScalePolicy that it answers; absent: each that asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only_for: Option<String>,
}

/// A value at a point in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PointSpec {
    /// The time.
    pub at: Time,
    /// The value; null counts as no point.
    #[serde(default)]
    pub value: Option<f64>,
}

/// MetricSeries, as engines and `evaluate` see it.
pub static KIND: Kind = Kind {
    group: super::GROUP,
    version: super::VERSION,
    kind: "MetricSeries",
    plural: "metricseries",
    scope: Scope::Namespaced,
    crd: Some(MetricSeries::crd),
    prepare: |_, _| {},
    admit,
};

static FIELDS: LazyLock<Vec<String>> = LazyLock::new(|| super::field_names(&MetricSeries::crd()));

fn admit(value: &mut Value, _: &Admission<'_>) -> Result<(), Vec<Problem>> {
    let series: MetricSeries = super::read(value, &FIELDS)?;
    let spec = &series.spec;
    let mut checks = Checks::default();
    checks.require(
        spec.query.is_some() != spec.metric.is_some(),
        "spec",
        "needs exactly one of query and metric",
    );
    let metric = spec.metric.as_deref().unwrap_or("cpu");
    let message = format!("`{metric}` is not one of {}", METRICS.join(", "));
    checks.require(METRICS.contains(&metric), "spec.metric", message);
    let has_both = spec.points.is_some() && spec.values.is_some();
    checks.require(!has_both, "spec", "takes one of points and values, not both");
    let has_numbers = spec.points.is_some() || spec.values.is_some();
    let message = "cannot be combined with points or values";
    checks.require(!(spec.newest_at.is_some() && has_numbers), "spec.newestAt", message);
    let step = spec.step.unwrap_or(Span::minutes(1)).0;
    checks.require(step > SignedDuration::ZERO, "spec.step", "must be positive");
    checks.done()
}

impl MetricSeriesSpec {
    /// Returns the numbers as they are at `now`.
    pub fn series(&self, now: Timestamp) -> Series {
        if let Some(points) = &self.points {
            let points = points.iter().filter_map(|p| Some((p.at.0, p.value?))).collect();
            return Series::new(points, self.step.map(|step| step.0));
        }
        // What is not a number in a file arrives as null.
        let values: Vec<f64> =
            self.values.iter().flatten().map(|v| v.unwrap_or(f64::NAN)).collect();
        let step = self.step.map_or(SignedDuration::from_secs(1), |step| step.0);
        Series::even(&values, step, now)
    }

    /// Returns whether it is of a metric, by any of its names.
    pub fn is_of(&self, metric: &str) -> bool {
        let plain = |name: &str| match name {
            "CPUUtilizationPercent" => "cpu".to_owned(),
            "MemoryUtilization" | "MemoryUtilizationPercent" => "memory".to_owned(),
            other => other.to_owned(),
        };
        self.metric.as_deref().is_some_and(|own| plain(own) == plain(metric))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn admitted(spec: Value) -> Result<MetricSeriesSpec, Vec<String>> {
        let mut value = json!({"metadata": {"name": "cpu"}, "spec": spec});
        admit(&mut value, &Admission { old: None, now: Timestamp::UNIX_EPOCH })
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        Ok(serde_json::from_value(value["spec"].take()).unwrap())
    }

    #[test]
    fn a_mistake_is_refused_by_its_field() {
        for (spec, wanted) in [
            (json!({"values": [1]}), "spec: needs exactly one of query and metric"),
            (json!({"query": "a", "metric": "cpu"}), "spec: needs exactly one of query and metric"),
            (json!({"metric": "load"}), "spec.metric: `load` is not one of"),
            (json!({"query": "a", "points": [], "values": []}), "spec: takes one of points"),
            (json!({"query": "a", "values": ["x"]}), "spec.values[0]: invalid type"),
            (
                json!({"query": "a", "values": [1], "newestAt": "2026-01-01T00:00:00Z"}),
                "spec.newestAt: cannot be combined with points or values",
            ),
            (json!({"query": "a", "step": "0s"}), "spec.step: must be positive"),
            (json!({"query": "a", "points": [{"value": 1}]}), "spec.points[0]: missing field `at`"),
            (json!({"qeury": "a"}), "spec.qeury: unknown field, did you mean `query`?"),
        ] {
            let found = admitted(spec.clone()).unwrap_err();
            assert!(found[0].starts_with(wanted), "{spec}: {found:?}");
        }
    }

    #[test]
    fn values_end_now_and_what_is_no_number_is_no_point() {
        let now = Timestamp::from_second(1000).unwrap();
        let spec = admitted(json!({"query": "a", "values": [1, null, 3], "step": "10s"})).unwrap();
        let series = spec.series(now);
        assert_eq!(series.between(Timestamp::UNIX_EPOCH, now), [1.0, 3.0]);
        assert_eq!(series.first_at(), Timestamp::from_second(980).ok());
    }

    #[test]
    fn a_metric_goes_by_its_names() {
        let spec = admitted(json!({"metric": "CPUUtilizationPercent"})).unwrap();
        assert!(spec.is_of("cpu") && spec.is_of("CPUUtilizationPercent") && !spec.is_of("memory"));
    }
}
