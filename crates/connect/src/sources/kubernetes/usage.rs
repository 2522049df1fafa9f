//! The use of pods in percent of their requests, as HorizontalPodAutoscaler computes it: the sum of use by the sum of requests; or, computed in
//! the same way, of their limits.

use std::collections::BTreeMap;

use api::plimsoll::Span;
use api::plimsoll::auto_scale_policy::RelativeTo;
use api::quantity::Quantity;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use kube::ResourceExt as _;
use serde::{Deserialize, Deserializer};

use crate::sources::Answer;
use crate::sources::container_usage::{Metric, UsageQuery};

/// The answer of metrics.k8s.io.
#[derive(Deserialize)]
pub(super) struct PodMetricsList {
    #[serde(deserialize_with = "list")]
    items: Vec<PodMetrics>,
}

#[derive(Deserialize)]
struct PodMetrics {
    metadata: Metadata,
    timestamp: Timestamp,
    window: Span,
    #[serde(default)]
    containers: Vec<ContainerMetrics>,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Deserialize)]
struct ContainerMetrics {
    #[serde(default)]
    usage: BTreeMap<String, String>,
}

/// Reads a list. Servers in Go write an empty one as null; an answer without it is none of theirs.
pub(super) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A value, when it was measured, and over which time.
pub(super) struct MeasuredValue<V> {
    pub(super) at: Timestamp,
    pub(super) window: SignedDuration,
    pub(super) value: V,
}

/// Combines the values that are not older than two of their windows.
pub(super) fn reduce_fresh<V: Copy>(
    found: &[MeasuredValue<V>],
    now: Timestamp,
    reduce: impl FnOnce(&[V]) -> f64,
) -> Answer {
    let Some(newest_at) = found.iter().map(|found| found.at).max() else { return Answer::NoData };
    let is_fresh = |found: &&MeasuredValue<V>| now.duration_since(found.at) <= found.window * 2;
    let fresh: Vec<V> = found.iter().filter(is_fresh).map(|found| found.value).collect();
    match fresh.is_empty() {
        true => Answer::Stale { newest_at },
        false => Answer::from_points(vec![(newest_at, reduce(&fresh))], None),
    }
}

/// Returns the use of the pods that have metrics; an error names the pod that has no request or limit to compare it with.
pub(super) fn utilization(
    pods: &[Pod],
    metrics: &PodMetricsList,
    query: UsageQuery,
    now: Timestamp,
) -> Result<Answer, String> {
    let used: BTreeMap<&str, &PodMetrics> =
        metrics.items.iter().map(|item| (item.metadata.name.as_str(), item)).collect();
    let mut found = Vec::new();
    for pod in pods.iter().filter(|pod| is_running(pod)) {
        let Some(metrics) = used.get(pod.name_any().as_str()) else { continue };
        let mut usage = 0.0;
        for container in &metrics.containers {
            let Some(text) = container.usage.get(query.metric.name()) else { continue };
            let amount = Quantity::parse(text)
                .map_err(|err| format!("the use `{text}` of pod {}: {err}", pod.name_any()))?;
            usage += amount.as_f64();
        }
        let whole = whole(pod, query)?;
        found.push(MeasuredValue {
            at: metrics.timestamp,
            window: metrics.window.0,
            value: (usage, whole),
        });
    }
    Ok(reduce_fresh(&found, now, |pods| {
        let (usage, whole) =
            pods.iter().fold((0.0, 0.0), |sum, pod| (sum.0 + pod.0, sum.1 + pod.1));
        usage / whole * 100.0
    }))
}

fn is_running(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && phase == Some("Running")
}

/// Returns what the use of a pod is compared with: its own request or limit, or the sum of its containers'.
fn whole(pod: &Pod, query: UsageQuery) -> Result<f64, String> {
    let (name, resource) = (pod.name_any(), query.metric.name());
    let what = if is_of_limit(query) { "limit" } else { "request" };
    let missing = |of: &str| format!("pod {name}, whose {of} has no {what} for {resource}");
    let Some(spec) = &pod.spec else { return Err(missing("spec")) };
    let amounts = match amount(spec.resources.as_ref(), query) {
        Some(amount) => vec![amount],
        None => {
            let of = |container: &Container| missing(&format!("container {}", container.name));
            let amount = |container: &'_ Container| {
                let own = amount(container.resources.as_ref(), query);
                own.or_else(|| without_limit(query)).ok_or_else(|| of(container))
            };
            long_running(spec).map(amount).collect::<Result<_, _>>()?
        }
    };
    let mut sum = 0.0;
    for amount in amounts {
        let amount = Quantity::parse(&amount).map_err(|err| format!("pod {name}: {err}"))?;
        sum += amount.as_f64();
    }
    if sum > 0.0 { Ok(sum) } else { Err(missing("containers")) }
}

fn is_of_limit(query: UsageQuery) -> bool {
    query.relative_to == Some(RelativeTo::Limit)
}

/// Returns the request or the limit among the resources of a pod or a container.
fn amount(resources: Option<&ResourceRequirements>, query: UsageQuery) -> Option<String> {
    let resources = resources?;
    let of = if is_of_limit(query) { &resources.limits } else { &resources.requests };
    of.as_ref()?.get(query.metric.name()).map(|amount| amount.0.clone())
}

/// Returns what a container without a limit is compared with: for CPU one core, as for all policies of services.
fn without_limit(query: UsageQuery) -> Option<String> {
    (is_of_limit(query) && query.metric == Metric::Cpu).then(|| "1".to_owned())
}

/// Returns the containers that run as long as the pod, sidecars included.
fn long_running(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|init| init.restart_policy.as_deref() == Some("Always"));
    spec.containers.iter().chain(sidecars)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, phase: &str, requests: Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": name}, "status": {"phase": phase},
            "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]},
        }))
        .unwrap()
    }

    fn metrics(pods: &[(&str, &str, &str)]) -> PodMetricsList {
        let item = |(name, at, cpu): &(&str, &str, &str)| {
            json!({"metadata": {"name": name}, "timestamp": at, "window": "15.5s",
                   "containers": [{"usage": {"cpu": cpu, "memory": "64Mi"}}]})
        };
        let items: Vec<Value> = pods.iter().map(item).collect();
        serde_json::from_value(json!({"items": items})).unwrap()
    }

    const EARLY: &str = "2026-01-01T00:00:00Z";
    const LATE: &str = "2026-01-01T00:00:50Z";

    fn measured(
        pods: &[Pod],
        used: &[(&str, &str, &str)],
        resource: &str,
    ) -> Result<Answer, String> {
        let query = UsageQuery::parse(resource).unwrap();
        utilization(pods, &metrics(used), query, "2026-01-01T00:01:00Z".parse().unwrap())
    }

    fn at_50(value: f64) -> Result<Answer, String> {
        Ok(Answer::from_points(vec![(LATE.parse().unwrap(), value)], None))
    }

    #[test]
    fn utilization_is_the_sum_of_use_by_the_sum_of_requests() {
        let request = |cpu: &str| json!({"cpu": cpu, "memory": "128Mi"});
        let pods = [pod("a", "Running", request("500m")), pod("b", "Running", request("1500m"))];
        let used = [("a", LATE, "500000000n"), ("b", LATE, "100m")];
        assert_eq!(measured(&pods, &used, "cpu"), at_50(30.0));
        assert_eq!(measured(&pods, &used, "memory"), at_50(50.0));
        assert_eq!(measured(&pods, &used[..1], "cpu"), at_50(100.0), "b has no metrics yet");
        assert_eq!(measured(&pods, &[("a", LATE, "1"), ("b", EARLY, "1")], "cpu"), at_50(200.0));
        assert_eq!(measured(&pods, &[], "cpu"), Ok(Answer::NoData));
        let stale = Answer::Stale { newest_at: EARLY.parse().unwrap() };
        assert_eq!(measured(&pods, &[("a", EARLY, "1")], "cpu"), Ok(stale));
        let done = [pod("a", "Succeeded", request("1"))];
        assert_eq!(measured(&done, &used, "cpu"), Ok(Answer::NoData), "a pod that has ended");
    }

    #[test]
    fn a_pod_without_a_request_is_an_error_that_names_it() {
        let pods = [pod("a", "Running", json!({"memory": "1Gi"}))];
        let problem = measured(&pods, &[("a", LATE, "1")], "cpu").unwrap_err();
        assert_eq!(problem, "pod a, whose container main has no request for cpu");
    }

    #[test]
    fn relative_to_limits_cpu_has_one_core_without_a_limit_and_memory_is_an_error() {
        let limited = |name: &str, limits: Value| {
            let mut pod = pod(name, "Running", json!({"cpu": "1m", "memory": "1Mi"}));
            let container = &mut pod.spec.as_mut().unwrap().containers[0];
            let limits = json!({"limits": limits, "requests": {"cpu": "1m", "memory": "1Mi"}});
            container.resources = serde_json::from_value(limits).unwrap();
            pod
        };
        let pods =
            [limited("a", json!({"cpu": "500m", "memory": "128Mi"})), limited("b", json!({}))];
        let used = [("a", LATE, "250m"), ("b", LATE, "50m")];
        assert_eq!(measured(&pods[..1], &used, "cpu/limit"), at_50(50.0));
        assert_eq!(measured(&pods, &used, "cpu/limit"), at_50(20.0));
        assert_eq!(measured(&pods[..1], &used, "memory/limit"), at_50(50.0));
        let problem = measured(&pods, &used, "memory/limit").unwrap_err();
        assert_eq!(problem, "pod b, whose container main has no limit for memory");
        assert_eq!(measured(&pods[..1], &used, "cpu/request"), measured(&pods[..1], &used, "cpu"));
    }
}
