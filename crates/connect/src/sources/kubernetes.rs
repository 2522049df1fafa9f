//! The metrics APIs of the cluster: use of the target's pods in percent of their requests or limits, custom and external metrics.
//!
//! Pods without metrics are left out, never counted as zero.

mod usage;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use api::quantity::Quantity;
use cluster::Undecoded;
use cluster::error::{api_message, status_code};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, ListParams};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::container_usage::UsageQuery;
use super::{Answer, MetricSource, Query, QueryError};
use crate::connection::ConnectionError;
use crate::registry::{Context, read_settings};
use crate::targets::{ScaleTarget, TargetRef};

/// The most targets that are cached; beyond that the cache is cleared.
const TARGETS: usize = 10_000;
/// The age from which a value is stale where the API does not name its window: two scrapes of metrics-server.
const DEFAULT_WINDOW: SignedDuration = SignedDuration::from_secs(60);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {}

struct Kubernetes {
    context: Context,
    targets: Mutex<HashMap<String, Arc<ScaleTarget>>>,
}

pub(super) fn open(context: &Context, settings: &Value) -> Result<Box<dyn MetricSource>, String> {
    let Settings {} = read_settings(settings)?;
    Ok(Box::new(Kubernetes { context: context.clone(), targets: Mutex::default() }))
}

/// A query, parsed.
#[derive(Debug, PartialEq, Eq)]
enum Metric<'a> {
    /// The use of CPU or memory.
    Resource(UsageQuery),
    /// A custom metric of the pods.
    Pods(&'a str),
    /// An external metric, and its label selector.
    External(&'a str, String),
}

fn parse(text: &str) -> Result<Metric<'_>, QueryError> {
    let unknown = || {
        QueryError::Unsupported(format!(
            "`{text}` is not a query of the source kubernetes; write `cpu`, `memory` (or either with `/limit`), `pods/NAME` or `external/NAME{{label=value}}`"
        ))
    };
    let is_name = |name: &str| !name.is_empty() && !name.contains(['/', '?', '#', '{', '}', ' ']);
    if let Some(usage) = UsageQuery::parse(text) {
        return Ok(Metric::Resource(usage));
    }
    if let Some(name) = text.strip_prefix("pods/").filter(|name| is_name(name)) {
        return Ok(Metric::Pods(name));
    }
    let rest = text.strip_prefix("external/").ok_or_else(unknown)?;
    let (name, labels) = match rest.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}').ok_or_else(unknown)?),
        None => (rest, ""),
    };
    if !is_name(name) {
        return Err(unknown());
    }
    let labels: Vec<String> =
        labels.split(',').map(|label| label.replace(['"', ' '], "")).collect();
    Ok(Metric::External(name, labels.join(",")))
}

impl MetricSource for Kubernetes {
    fn query<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Answer, QueryError>> {
        Box::pin(async move {
            query.expect_present("kubernetes")?;
            let metric = parse(&query.text)?;
            let target = query.target.as_ref().ok_or_else(|| {
                QueryError::Unsupported("the source kubernetes needs the target of a policy".into())
            })?;
            match metric {
                Metric::Resource(usage) => self.resource(usage, target, query).await,
                Metric::Pods(name) => self.pods_metric(name, target, query).await,
                Metric::External(name, labels) => {
                    self.external(name, &labels, &target.namespace, query).await
                }
            }
        })
    }
}

impl Kubernetes {
    async fn resource(
        &self,
        usage: UsageQuery,
        target: &TargetRef,
        query: &Query,
    ) -> Result<Answer, QueryError> {
        let selector = self.selector(target).await?;
        let pods: Api<Undecoded<Pod>> = Api::namespaced(self.client(), &target.namespace);
        let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{}/pods", target.namespace);
        let params = ListParams::default().labels(&selector);
        let parameters = [("labelSelector", selector.as_str())];
        let metrics = self.get::<usage::PodMetricsList>(&path, &parameters);
        let (pods, metrics) = tokio::join!(pods.list(&params), metrics);
        let pods = pods.map_err(|err| refused("/api/v1/pods", &err))?;
        let pods: Vec<Pod> = pods.items.iter().filter_map(Undecoded::decode).collect();
        usage::utilization(&pods, &metrics?, usage, query.now)
            .map_err(|problem| QueryError::WrongAnswer { url: path, problem })
    }

    /// Returns the mean of a custom metric over the target's pods.
    async fn pods_metric(
        &self,
        name: &str,
        target: &TargetRef,
        query: &Query,
    ) -> Result<Answer, QueryError> {
        let selector = self.selector(target).await?;
        let namespace = &target.namespace;
        let path = |version: &str| {
            format!("/apis/custom.metrics.k8s.io/{version}/namespaces/{namespace}/pods/*/{name}")
        };
        let (newer, older) = (path("v1beta2"), path("v1beta1"));
        let parameters = [("labelSelector", selector.as_str())];
        let mut list = self.get::<ValueList>(&newer, &parameters).await;
        if matches!(list, Err(QueryError::Refused { .. })) {
            list = self.get(&older, &parameters).await;
        }
        no_metric_is_no_data(list.and_then(|list| list.mean(&newer, query.now)))
    }

    /// Returns the sum of an external metric.
    async fn external(
        &self,
        name: &str,
        labels: &str,
        namespace: &str,
        query: &Query,
    ) -> Result<Answer, QueryError> {
        let path = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{name}");
        let list = self.get::<ValueList>(&path, &[("labelSelector", labels)]).await;
        no_metric_is_no_data(list.and_then(|list| list.sum(&path, query.now)))
    }

    /// Reads the selector of the target's pods.
    async fn selector(&self, target: &TargetRef) -> Result<String, QueryError> {
        let spec = &target.spec;
        let key = format!("{:?}", (&target.namespace, &spec.api_version, &spec.kind, &spec.name));
        let known = {
            let targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
            targets.get(&key).cloned()
        };
        let scale = match known {
            Some(scale) => scale,
            None => {
                let scale = ScaleTarget::new(&self.context, target).map_err(|problem| {
                    QueryError::Unsupported(format!(
                        "the source kubernetes measures pods: {problem}"
                    ))
                })?;
                let scale = Arc::new(scale);
                let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
                if targets.len() >= TARGETS {
                    targets.clear();
                }
                targets.insert(key, Arc::clone(&scale));
                scale
            }
        };
        Ok(scale.selector().await?)
    }

    async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
    ) -> Result<T, QueryError> {
        let mut url = reqwest::Url::parse("http://cluster").map_err(|err| unreadable(path, err))?;
        url.set_path(path);
        url.query_pairs_mut().extend_pairs(parameters);
        let uri = format!("{}?{}", url.path(), url.query().unwrap_or_default());
        let request = http::Request::get(uri).body(Vec::new());
        let request = request.map_err(|err| unreadable(path, err))?;
        self.client().request(request).await.map_err(|err| refused(path, &err))
    }

    fn client(&self) -> Client {
        self.context.client.clone()
    }
}

fn unreadable(path: &str, err: impl std::fmt::Display) -> QueryError {
    QueryError::Unsupported(format!("{path}: {err}"))
}

/// The problem of an API group that is not served.
const NOT_SERVED: &str = "is not served by the cluster; is its metrics adapter installed?";

fn refused(path: &str, err: &kube::Error) -> QueryError {
    let url = path.to_owned();
    let message = api_message(err);
    if matches!(err, kube::Error::SerdeError(_)) {
        return QueryError::WrongAnswer { url, problem: format!("something unexpected: {err}") };
    }
    if status_code(err).is_none() {
        let address = "the API server".to_owned();
        return ConnectionError::Unreachable { address, message }.into();
    }
    let is_unknown_group = status_code(err) == Some(404)
        && [
            "could not find the requested resource",
            "page not found",
            "Failed to parse error data",
        ]
        .iter()
        .any(|known| message.contains(known));
    match (is_unknown_group, path.split('/').nth(2)) {
        (true, Some(group)) => {
            QueryError::Refused { url, message: format!("{group} {NOT_SERVED}") }
        }
        (_, _) => QueryError::Refused { url, message },
    }
}

/// An adapter that serves the group and has no such metric has no data.
fn no_metric_is_no_data(answer: Result<Answer, QueryError>) -> Result<Answer, QueryError> {
    if let Err(QueryError::Refused { message, .. }) = &answer
        && (message.contains("could not find the metric") || message.contains("no metric"))
    {
        return Ok(Answer::NoData);
    }
    answer
}

/// The answer of custom.metrics.k8s.io and external.metrics.k8s.io.
#[derive(Deserialize)]
struct ValueList {
    #[serde(deserialize_with = "usage::list")]
    items: Vec<MetricValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetricValue {
    timestamp: Timestamp,
    value: String,
    window_seconds: Option<i64>,
}

impl ValueList {
    fn mean(&self, path: &str, now: Timestamp) -> Result<Answer, QueryError> {
        self.reduce(path, now, |values| values.iter().sum::<f64>() / values.len() as f64)
    }

    fn sum(&self, path: &str, now: Timestamp) -> Result<Answer, QueryError> {
        self.reduce(path, now, |values| values.iter().sum())
    }

    fn reduce(
        &self,
        path: &str,
        now: Timestamp,
        reduce: impl FnOnce(&[f64]) -> f64,
    ) -> Result<Answer, QueryError> {
        let mut found = Vec::new();
        for item in &self.items {
            let value = Quantity::parse(&item.value).map_err(|err| QueryError::WrongAnswer {
                url: path.to_owned(),
                problem: format!("the value `{}`: {err}", item.value),
            })?;
            let window = item.window_seconds.filter(|seconds| *seconds > 0);
            let window = window.map_or(DEFAULT_WINDOW, SignedDuration::from_secs);
            found.push(usage::MeasuredValue { at: item.timestamp, window, value: value.as_f64() });
        }
        Ok(usage::reduce_fresh(&found, now, reduce))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_query_names_a_resource_a_custom_or_an_external_metric() {
        for text in ["cpu", "memory", "cpu/limit"] {
            let usage = UsageQuery::parse(text).unwrap();
            assert_eq!(parse(text).unwrap(), Metric::Resource(usage), "{text}");
        }
        assert_eq!(parse("pods/queue_length").unwrap(), Metric::Pods("queue_length"));
        let external = |labels: &str| Metric::External("jobs", labels.to_owned());
        assert_eq!(parse("external/jobs").unwrap(), external(""));
        assert_eq!(
            parse("external/jobs{queue=\"a\", zone=b}").unwrap(),
            external("queue=a,zone=b")
        );
        for bad in ["", "disk", "pods/", "pods/a/b", "external/", "external/a{b", "external/{a=b}"]
        {
            let problem = parse(bad).unwrap_err().to_string();
            assert!(problem.contains("is not a query of the source kubernetes"), "{bad}");
        }
    }

    #[test]
    fn custom_metrics_are_averaged_external_ones_are_summed_and_old_ones_are_stale() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let item = |second: u32, value: &str| json!({"timestamp": format!("2026-01-01T00:00:{second:02}Z"), "value": value, "windowSeconds": 20});
        let list =
            |items: Value| serde_json::from_value::<ValueList>(json!({"items": items})).unwrap();
        let at = |second| Timestamp::from_second(now.as_second() - 60 + second).unwrap();
        let both = list(json!([item(40, "500m"), item(50, "1500m")]));
        assert_eq!(both.mean("p", now).unwrap(), Answer::from_points(vec![(at(50), 1.0)], None));
        assert_eq!(both.sum("p", now).unwrap(), Answer::from_points(vec![(at(50), 2.0)], None));
        let old = list(json!([item(5, "1"), item(10, "1")]));
        assert_eq!(old.sum("p", now).unwrap(), Answer::Stale { newest_at: at(10) });
        assert_eq!(list(json!([])).sum("p", now).unwrap(), Answer::NoData);
        let wrong = list(json!([item(50, "many")])).sum("p", now).unwrap_err().to_string();
        assert!(wrong.starts_with("p answered with the value `many`: "), "{wrong}");
    }
}
