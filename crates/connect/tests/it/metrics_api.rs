//! The metric source `kubernetes` on a stand-in for an API server with the metrics APIs.

use axum::extract::RawQuery;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use jiff::{SignedDuration, Timestamp};
use plimsoll_connect::sources::Answer;
use serde_json::{Value, json};

use crate::real::{ask_about, open, stand_in, target, value};

fn failure(code: u16, message: &str) -> Response {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "x", "code": code, "message": message});
    (StatusCode::from_u16(code).unwrap(), Json(status)).into_response()
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({
        "metadata": {"name": name}, "status": {"phase": "Running"},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "100Mi"}}}]},
    })
}

fn metrics(age: i64) -> Value {
    let at = Timestamp::now() - SignedDuration::from_secs(age);
    let item = |name: &str, cpu: &str| json!({"metadata": {"name": name}, "timestamp": at, "window": "15s", "containers": [{"name": "main", "usage": {"cpu": cpu, "memory": "50Mi"}}]});
    json!({"kind": "PodMetricsList", "items": [item("a", "250m"), item("b", "500000000n")]})
}

/// A cluster with one Deployment and its pods, of which one cannot be decoded. Their metrics have an age.
fn cluster(age: i64) -> Router {
    let resources = json!({"kind": "APIResourceList", "groupVersion": "apps/v1", "resources": [
        {"name": "deployments", "singularName": "", "kind": "Deployment", "namespaced": true, "verbs": ["get"]},
    ]});
    let scale = json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "web"}, "spec": {"replicas": 2},
                       "status": {"replicas": 2, "selector": "app=web"}});
    let pods = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [pod("a", "500m"), {"metadata": {"name": "undecodable"}, "spec": 7}, pod("b", "500m"), pod("c", "500m")]});
    let custom = |RawQuery(query): RawQuery| async move {
        assert_eq!(query.as_deref(), Some("labelSelector=app%3Dweb"));
        let item = |value: &str| json!({"describedObject": {}, "metric": {"name": "queue"}, "timestamp": Timestamp::now(), "value": value});
        Json(json!({"kind": "MetricValueList", "items": [item("10"), item("20")]}))
    };
    let external = |RawQuery(query): RawQuery| async move {
        assert_eq!(query.as_deref(), Some("labelSelector=queue%3Dhigh"));
        let item = |value: &str| json!({"metricName": "jobs", "metricLabels": {}, "timestamp": Timestamp::now(), "value": value});
        Json(json!({"kind": "ExternalMetricValueList", "items": [item("1500m"), item("2")]}))
    };
    let base = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default";
    Router::new()
        .route("/apis/apps/v1", get(move || async move { Json(resources) }))
        .route(
            "/apis/apps/v1/namespaces/default/deployments/web/scale",
            get(move || async move { Json(scale) }),
        )
        .route("/api/v1/namespaces/default/pods", get(move || async move { Json(pods) }))
        .route(
            "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods",
            get(move || async move { Json(metrics(age)) }),
        )
        .route(
            "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/pods/{pod}/queue",
            get(custom),
        )
        .route(&format!("{base}/jobs"), get(external))
        .route(&format!("{base}/none"), get(|| async { Json(json!({"items": []})) }))
        .route(
            &format!("{base}/lost"),
            get(|| async { failure(404, "the server could not find the metric lost") }),
        )
        .route(
            &format!("{base}/down"),
            get(|| async { failure(503, "the server is currently unable to handle the request") }),
        )
        .route(&format!("{base}/denied"), get(|| async { failure(403, "forbidden: no") }))
        .route(&format!("{base}/odd"), get(|| async { "[]" }))
}

#[tokio::test]
async fn resource_custom_and_external_metrics_are_read() {
    let (_server, context) = stand_in(cluster(10)).await;
    let source = open(&context, json!({"kubernetes": {}}));
    let web =
        || Some(target(json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})));
    // 750m of 1000m: the third pod has no metrics yet.
    assert_eq!(value(&ask_about(&*source, "cpu", web()).await), 75.0);
    assert_eq!(value(&ask_about(&*source, "memory", web()).await), 50.0);
    assert_eq!(value(&ask_about(&*source, "pods/queue", web()).await), 15.0);
    assert_eq!(value(&ask_about(&*source, "external/jobs{queue=high}", web()).await), 3.5);
    for query in ["external/none", "external/lost"] {
        assert_eq!(ask_about(&*source, query, web()).await, Ok(Answer::NoData), "{query}");
    }
    for (query, problem) in [
        ("external/down", "the server is currently unable to handle the request"),
        ("external/denied", "forbidden: no"),
        ("external/odd", "something unexpected"),
        (
            "pods/other",
            "custom.metrics.k8s.io is not served by the cluster; is its metrics adapter installed?",
        ),
    ] {
        let found = ask_about(&*source, query, web()).await.unwrap_err();
        assert!(found.contains(problem), "{query}: {found}");
    }
    let nothing = ask_about(&*source, "cpu", None).await.unwrap_err();
    assert_eq!(nothing, "the source kubernetes needs the target of a policy");
}

#[tokio::test]
async fn metrics_older_than_two_windows_are_stale() {
    let (_server, context) = stand_in(cluster(40)).await;
    let source = open(&context, json!({"kubernetes": {}}));
    let web = Some(target(json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})));
    let stale = ask_about(&*source, "cpu", web).await;
    assert!(matches!(stale, Ok(Answer::Stale { .. })), "{stale:?}");
}
