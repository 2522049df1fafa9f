//! The objects of the bench.

use std::time::Duration;

use api::plimsoll::{MetricSource, ScalingPolicy};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::source::LOAD;

/// How often policies are evaluated.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);
/// The name of the policy and the Deployment that follow pushed changes.
pub(super) const PUSHED: &str = "pushed";

/// Creates the MetricSources `http` and `scaler`, both of one process.
pub(super) async fn create_sources(client: &Client, address: &str) -> anyhow::Result<()> {
    let api: Api<MetricSource> = Api::all(client.clone());
    for (name, spec) in [
        ("http", json!({"http": {"url": format!("http://{address}/load"), "value": "/value"}})),
        ("scaler", json!({"externalScaler": {"address": address}})),
    ] {
        let source = json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "MetricSource", "metadata": {"name": name},
            "spec": spec,
        });
        api.create(&PostParams::default(), &serde_json::from_value(source)?).await?;
    }
    Ok(())
}

/// Creates a policy with its target. It has four checks, and each of them a query that no other check has. Nothing is scaled.
pub(super) async fn create_policy(client: &Client, index: usize) -> anyhow::Result<()> {
    let name = format!("bench-{index}");
    let check = |which: &str, group: &str, window: &str, strategy: Value| {
        json!({
            "name": which, "group": group, "source": "http", "query": format!("{name}/{which}"),
            "window": window, "strategy": strategy,
        })
    };
    let threshold =
        |bound: &str, value: u32, delta: i32| json!({"threshold": {bound: value, "delta": delta}});
    let checks = [
        check("high", "cpu", "1m", threshold("lowerBound", LOAD + 20, 2)),
        check("low", "cpu", "1m", threshold("upperBound", LOAD - 20, -1)),
        check("target", "", "instant", json!({"targetValue": {"target": LOAD}})),
        check("queue", "", "instant", json!({"targetValue": {"target": LOAD, "threshold": 0.1}})),
    ];
    create(client, &name, "10s", json!(checks)).await
}

/// Creates the policy whose target is as large as the number that the external scaler pushes.
pub(super) async fn create_pushed(client: &Client) -> anyhow::Result<()> {
    let check = json!({
        "name": "pushed", "source": "scaler", "query": "number", "window": "instant",
        "strategy": {"passThrough": {}},
    });
    create(client, PUSHED, "1h", json!([check])).await
}

async fn create(client: &Client, name: &str, interval: &str, checks: Value) -> anyhow::Result<()> {
    let labels = json!({"app": name});
    let deployment = json!({
        "metadata": {"name": name},
        "spec": {"replicas": 5, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web"}]},
        }},
    });
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    deployments.create(&PostParams::default(), &serde_json::from_value(deployment)?).await?;
    let policy = json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "ScalingPolicy", "metadata": {"name": name},
        "spec": {
            "target": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "min": 1, "max": 100, "cooldown": "0s", "evaluationInterval": interval, "checks": checks,
        },
    });
    let policies: Api<ScalingPolicy> = Api::default_namespaced(client.clone());
    policies.create(&PostParams::default(), &serde_json::from_value(policy)?).await?;
    Ok(())
}

/// Returns the requested size of a Deployment.
pub(super) fn size(deployment: &Deployment) -> Option<u32> {
    deployment.spec.as_ref()?.replicas?.try_into().ok()
}
