//! The metrics that Prometheus scrapes: Agones' names, with values computed from the objects.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use api::agones::{Fleet, GameServer};
use api::autoscaling::FleetAutoscaler;
use api::plimsoll::{AutoScalePolicy, MetricSource, ScalingPolicy};
use axum::body::Body;
use axum::http::{Request, Response};
use cluster::{CachedKind, Caches, DecisionCounts};
use control::nodes::{LivenessLimits, NodeMetrics};
use engine::{Engine, Settings};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use plimsoll_serve::metrics::{AllocationSample, Metrics, REQUIRED_KINDS};
use process::{Random, Supervised, Supervisor};
use serde_json::{Value, json};
use tower::ServiceExt as _;

fn server(name: &str) -> Value {
    json!({
        "apiVersion": "agones.dev/v1", "kind": "GameServer",
        "metadata": {"name": name, "labels": {"agones.dev/fleet": "f"}},
        "spec": {"template": {"spec": {"containers": [{"name": "game", "image": "game:1"}]}}},
        "status": {"state": "Ready"},
    })
}

fn fleet() -> Value {
    let spec = json!({"template": {"spec": {"containers": [{"name": "game", "image": "game:1"}]}}});
    json!({
        "apiVersion": "agones.dev/v1", "kind": "Fleet", "metadata": {"name": "f"},
        "spec": {"replicas": 3, "template": {"spec": spec}},
    })
}

fn autoscaler() -> Value {
    let buffer = json!({"bufferSize": 2, "minReplicas": 2, "maxReplicas": 9});
    json!({
        "apiVersion": "autoscaling.agones.dev/v1", "kind": "FleetAutoscaler",
        "metadata": {"name": "a"},
        "spec": {"fleetName": "f", "policy": {"type": "Buffer", "buffer": buffer}},
    })
}

/// Follows what metrics need, and the kinds that the controllers of policies follow.
fn follow(caches: &Arc<Caches>, client: &Client) -> Vec<Supervised> {
    let (random, supervisor) = (Random::system(), Supervisor::new());
    let policies =
        [CachedKind::ScalingPolicy, CachedKind::AutoScalePolicy, CachedKind::MetricSource];
    let kinds = REQUIRED_KINDS.into_iter().chain(policies).collect();
    caches.follow(client, &kinds, &random, &supervisor)
}

/// Waits until each of the lines is among the metrics.
async fn shown(metrics: &Metrics, lines: &[&str]) {
    let waiting = async {
        loop {
            let text = metrics.text().unwrap();
            if lines.iter().all(|line| text.lines().any(|there| there == *line)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let done = tokio::time::timeout(Duration::from_secs(30), waiting).await;
    assert!(done.is_ok(), "expected {lines:#?}\nin\n{}", metrics.text().unwrap());
}

#[tokio::test]
async fn fleets_game_servers_autoscalers_and_allocations_are_measured_under_known_names() {
    let engine = Engine::open(Settings::ephemeral()).await.unwrap();
    let client = engine.client();
    let caches = Caches::new(None, false);
    let metrics = Metrics::new(&caches, DecisionCounts::default(), NodeMetrics::default());
    let following = follow(&caches, &client);
    let to = PostParams::default();
    let made = |value: Value| serde_json::from_value(value).unwrap();
    let servers: Api<GameServer> = Api::default_namespaced(client.clone());
    servers.create(&to, &serde_json::from_value(server("s1")).unwrap()).await.unwrap();
    servers.create(&to, &serde_json::from_value(server("s2")).unwrap()).await.unwrap();
    let fleets: Api<Fleet> = Api::default_namespaced(client.clone());
    fleets.create(&to, &made(fleet())).await.unwrap();
    let sums = json!({"allocatedCount": 3, "allocatedCapacity": 10, "count": 4, "capacity": 20});
    let status = json!({"status": {
        "replicas": 2, "readyReplicas": 1, "allocatedReplicas": 1, "reservedReplicas": 0,
        "counters": {"rooms": sums}, "lists": {"players": sums},
    }});
    fleets.patch_status("f", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let autoscalers: Api<FleetAutoscaler> = Api::default_namespaced(client.clone());
    autoscalers.create(&to, &serde_json::from_value(autoscaler()).unwrap()).await.unwrap();
    shown(
        &metrics,
        &[r#"agones_gameservers_count{type="Ready",fleet_name="f",namespace="default"} 2"#],
    )
    .await;
    let allocated = Patch::Merge(json!({"status": {"state": "Allocated"}}));
    servers.patch("s2", &PatchParams::default(), &allocated).await.unwrap();
    metrics.allocation().record(AllocationSample {
        fleet: "f",
        status: "Allocated",
        scheduling: "Packed",
        is_multicluster: false,
        took: Duration::from_millis(2),
        tries: Some(1),
    });
    shown(&metrics, &[
        r#"agones_gameservers_count{type="Ready",fleet_name="f",namespace="default"} 1"#,
        r#"agones_gameservers_count{type="Allocated",fleet_name="f",namespace="default"} 1"#,
        r#"agones_gameservers_total{type="Ready",fleet_name="f",namespace="default"} 2"#,
        r#"agones_gameservers_allocations_total{fleet_name="f",namespace="default"} 1"#,
        r#"agones_gameserver_state_duration_count{type="Ready",fleet_name="f",namespace="default"} 1"#,
        r#"agones_fleets_replicas_count{name="f",namespace="default",type="desired"} 3"#,
        r#"agones_fleets_replicas_count{name="f",namespace="default",type="allocated"} 1"#,
        r#"agones_fleet_rollout_percent{name="f",namespace="default",type="current_replicas"} 2"#,
        r#"agones_fleet_counters{name="f",namespace="default",counter="rooms",type="total_count"} 4"#,
        r#"agones_fleet_lists{name="f",namespace="default",list="players",type="allocated_capacity"} 10"#,
        r#"agones_gameservers_counter_total{key="rooms",fleet_name="f",namespace="default"} 4"#,
        r#"agones_gameservers_counter_capacity_total{key="rooms",fleet_name="f",namespace="default"} 20"#,
        r#"agones_gameservers_list_length_total{key="players",fleet_name="f",namespace="default"} 4"#,
        r#"agones_gameservers_list_capacity_total{key="players",fleet_name="f",namespace="default"} 20"#,
        r#"agones_fleet_autoscalers_buffer_limits{name="a",namespace="default",fleet_name="f",type="max"} 9"#,
        r#"agones_fleet_autoscalers_buffer_size{name="a",namespace="default",fleet_name="f",type="count"} 2"#,
        r#"agones_fleet_autoscalers_able_to_scale{name="a",namespace="default",fleet_name="f"} 0"#,
        r#"agones_gameserver_allocations_duration_seconds_count{fleet_name="f",cluster_name="none",is_multicluster="false",status="Allocated",scheduling_strategy="Packed"} 1"#,
        r#"agones_gameserver_allocations_retry_total_count{fleet_name="f",cluster_name="none",is_multicluster="false",status="Success",scheduling_strategy="Packed"} 1"#,
    ])
    .await;
    // What is gone has no series any more.
    fleets.delete("f", &DeleteParams::default()).await.unwrap();
    let gone = async {
        while metrics.text().unwrap().contains(r#"agones_fleets_replicas_count{name="f""#) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.expect("its series go with it");
    drop(following);
}

#[tokio::test]
async fn policies_and_metric_sources_are_measured() {
    let engine = Engine::open(Settings::ephemeral()).await.unwrap();
    let client = engine.client();
    let caches = Caches::new(None, false);
    let metrics = Metrics::new(&caches, DecisionCounts::default(), NodeMetrics::default());
    let following = follow(&caches, &client);
    let object = |kind: &str, name: &str, spec: Value| {
        let meta = json!({"name": name});
        json!({"apiVersion": "plimsoll.dev/v1alpha1", "kind": kind, "metadata": meta, "spec": spec})
    };
    let condition = |type_: &str, status: &str| {
        json!({
            "type": type_, "status": status, "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let action = json!({"at": "2026-01-01T00:00:10Z", "from": 3, "to": 5, "outcome": "Applied"});
    let (create, write) = (PostParams::default(), PatchParams::default());
    let policies: Api<ScalingPolicy> = Api::default_namespaced(client.clone());
    let check = json!({"name": "c", "strategy": {"fixedValue": {"value": 7}}});
    let spec = json!({
        "target": {"kind": "Deployment", "name": "web"}, "min": 2, "max": 9, "checks": [check],
    });
    let policy = serde_json::from_value(object("ScalingPolicy", "p", spec)).unwrap();
    policies.create(&create, &policy).await.unwrap();
    let status = json!({"status": {
        "currentCount": 5, "desiredCount": 7, "lastAction": action,
        "conditions": [condition("AbleToScale", "False"), condition("ScalingActive", "True")],
    }});
    policies.patch_status("p", &write, &Patch::Merge(status)).await.unwrap();
    let services: Api<AutoScalePolicy> = Api::default_namespaced(client.clone());
    let spec = json!({
        "serviceId": "1s5", "metric": "CPUUtilizationPercent", "threshold": 80, "min": 1, "max": 4,
        "action": "up", "amount": 1,
    });
    let policy = serde_json::from_value(object("AutoScalePolicy", "s", spec)).unwrap();
    services.create(&create, &policy).await.unwrap();
    let status = json!({"status": {"currentCount": 3}});
    services.patch_status("s", &write, &Patch::Merge(status)).await.unwrap();
    let sources: Api<MetricSource> = Api::all(client.clone());
    let spec = json!({"http": {"url": "http://127.0.0.1:1/", "value": "/v"}});
    let source = serde_json::from_value(object("MetricSource", "load", spec)).unwrap();
    sources.create(&create, &source).await.unwrap();
    let status = json!({"status": {"conditions": [condition("Reachable", "False")]}});
    sources.patch_status("load", &write, &Patch::Merge(status)).await.unwrap();
    shown(
        &metrics,
        &[
            r#"plimsoll_policy_current_count{kind="ScalingPolicy",name="p",namespace="default"} 5"#,
            r#"plimsoll_policy_desired_count{kind="ScalingPolicy",name="p",namespace="default"} 7"#,
            r#"plimsoll_policy_min{kind="ScalingPolicy",name="p",namespace="default"} 2"#,
            r#"plimsoll_policy_max{kind="ScalingPolicy",name="p",namespace="default"} 9"#,
            r#"plimsoll_policy_last_action_timestamp_seconds{kind="ScalingPolicy",name="p",namespace="default"} 1767225610"#,
            r#"plimsoll_policy_condition{kind="ScalingPolicy",name="p",namespace="default",type="AbleToScale"} 0"#,
            r#"plimsoll_policy_condition{kind="ScalingPolicy",name="p",namespace="default",type="ScalingActive"} 1"#,
            r#"plimsoll_policy_current_count{kind="AutoScalePolicy",name="s",namespace="default"} 3"#,
            r#"plimsoll_policy_max{kind="AutoScalePolicy",name="s",namespace="default"} 4"#,
            r#"plimsoll_metric_source_reachable{name="load"} 0"#,
        ],
    )
    .await;
    drop(following);
}

#[tokio::test]
async fn prometheus_gets_its_own_format() {
    let request = axum::http::Request::get("/metrics").body(axum::body::Body::empty()).unwrap();
    let answer =
        Metrics::new(&Caches::new(None, false), DecisionCounts::default(), NodeMetrics::default())
            .router()
            .oneshot(request)
            .await
            .unwrap();
    let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    assert!(body.ends_with(b"# EOF\n"));
}

/// An API server whose lists have one fleet that cannot be read and nothing else, and whose watches tell of nothing.
fn with_an_unreadable_fleet() -> Client {
    let answer = |request: Request<kube::client::Body>| async move {
        if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
            std::future::pending::<()>().await;
        }
        let is_fleets = request.uri().path().ends_with("/fleets");
        let fleet = json!({"metadata": {"name": "f", "namespace": "default"}, "spec": {"replicas": "many"}});
        let items = if is_fleets { json!([fleet]) } else { json!([]) };
        let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": items});
        Ok::<_, Infallible>(Response::new(Body::from(list.to_string())))
    };
    Client::new(tower::service_fn(answer), "default")
}

#[tokio::test]
async fn objects_that_cannot_be_read_are_counted_for_as_long_as_they_are_skipped() {
    let (caches, client) = (Caches::new(None, false), with_an_unreadable_fleet());
    let metrics = Metrics::new(&caches, DecisionCounts::default(), NodeMetrics::default());
    let following = follow(&caches, &client);
    shown(&metrics, &[r#"plimsoll_unreadable_objects{kind="Fleet"} 1"#]).await;
    drop((following, metrics, caches));
    let metrics =
        Metrics::new(&Caches::new(None, false), DecisionCounts::default(), NodeMetrics::default());
    assert!(!metrics.text().unwrap().contains(r#"plimsoll_unreadable_objects{kind="Fleet"}"#));
}

#[tokio::test]
async fn a_replica_that_evaluates_no_nodes_is_alive() {
    let (limits, clock) = (LivenessLimits::default(), process::Clock::system());
    let router = plimsoll_serve::health::node_router(NodeMetrics::default(), limits, clock);
    let request = axum::http::Request::get("/health-check").body(axum::body::Body::empty());
    let answer = router.oneshot(request.unwrap()).await.unwrap();
    assert_eq!(answer.status(), 200);
    let body = axum::body::to_bytes(answer.into_body(), 1 << 10).await.unwrap();
    assert_eq!(&*body, b"OK");
}
