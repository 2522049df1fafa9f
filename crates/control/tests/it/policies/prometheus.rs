//! A Deployment on a real API server, scaled by what a real Prometheus has scraped from an exporter of the test.

#[path = "../../../../connect/tests/it/prometheus/running.rs"]
mod running;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use api::plimsoll::{MetricSource, ScalingPolicy};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;
use tokio::task::JoinHandle;

use super::{deploy, replicas};
use crate::cluster::{Cluster, until};
use running::Prometheus;

/// An exporter with one gauge; it is down while the gauge is negative.
struct Exporter {
    address: String,
    length: Arc<AtomicI64>,
    task: JoinHandle<()>,
}

impl Exporter {
    async fn start() -> Self {
        let length = Arc::new(AtomicI64::new(3));
        let shown = Arc::clone(&length);
        let metrics = move || async move {
            match shown.load(Ordering::SeqCst) {
                length @ 0.. => Ok(format!("queue_length {length}\n")),
                _ => Err(StatusCode::SERVICE_UNAVAILABLE),
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let app = Router::new().route("/metrics", get(metrics));
        let task = tokio::spawn(async move { drop(axum::serve(listener, app).await) });
        Self { address, length, task }
    }

    fn shows(&self, length: i64) {
        self.length.store(length, Ordering::SeqCst);
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waits until the policy is not active for a reason.
async fn until_inactive(cluster: &Cluster, wanted: &str) {
    until(&format!("the policy is not active: {wanted}"), async || {
        let policy: ScalingPolicy = cluster.api().get("p").await.unwrap();
        let conditions = policy.status.map(|status| status.conditions).unwrap_or_default();
        conditions.iter().any(|c| c.type_ == "ScalingActive" && c.reason == wanted)
    })
    .await;
}

async fn story(cluster: &Cluster, source: &str, program: &str) {
    let exporter = Exporter::start().await;
    let prometheus = Prometheus::start(program, &["queue"], &exporter.address).await;
    let sources: Api<MetricSource> = Api::all(cluster.client.clone());
    let object = json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "MetricSource", "metadata": {"name": source},
        "spec": {"prometheus": {"url": prometheus.url}},
    });
    sources.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    deploy(cluster, "web", 2).await;
    let policy = json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "ScalingPolicy", "metadata": {"name": "p"},
        "spec": {
            "target": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "min": 1, "max": 10, "cooldown": "1s", "evaluationInterval": "1s",
            "checks": [{"name": "queue", "source": source, "query": "sum(queue_length) / 10",
                        "window": "instant", "strategy": {"passThrough": {}}}],
        },
    });
    cluster.create::<ScalingPolicy>(policy).await;
    for (length, wanted) in [(50, 5), (900, 10), (20, 2)] {
        exporter.shows(length);
        let what = format!("{wanted} replicas for a queue of {length}");
        until(&what, async || replicas(cluster, "web").await == wanted).await;
    }
    // A target that cannot be scraped has no data; a Prometheus that is down is an error.
    exporter.shows(-1);
    until_inactive(cluster, "NoData").await;
    drop(prometheus);
    until_inactive(cluster, "FailedGetMetric").await;
    assert_eq!(replicas(cluster, "web").await, 2, "without numbers the size is kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_on_a_real_api_server_follows_a_real_prometheus() {
    let Ok(program) = std::env::var("PLIMSOLL_TEST_PROMETHEUS") else {
        let missing = "skipped: run `cargo xtask test`, or set PLIMSOLL_TEST_PROMETHEUS";
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        eprintln!("{missing}");
        return;
    };
    let Some(mut cluster) = Cluster::real().await else { return };
    cluster.control();
    let source = format!("{}-prometheus", cluster.namespace);
    story(&cluster, &source, &program).await;
    let sources: Api<MetricSource> = Api::all(cluster.client.clone());
    sources.delete(&source, &DeleteParams::default()).await.unwrap();
    cluster.end().await;
}
