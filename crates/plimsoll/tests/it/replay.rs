//! A recorded Decision, saved to a file, is decided again by `evaluate`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use api::plimsoll::{Decision, DecisionOutcome, DecisionSpec, MetricSource};
use axum::Router;
use axum::routing::{get, post};
use cluster::{Caches, DecisionSettings};
use control::{Part, Settings};
use engine::Engine;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use process::Supervisor;
use serde_json::{Value, json};

use crate::plimsoll;

/// An engine with the controllers of fleets and autoscalers; nothing runs their game servers.
struct Control {
    engine: Engine,
    tasks: tokio::task::JoinSet<()>,
}

impl Control {
    async fn start() -> Self {
        let engine = Engine::open(engine::Settings::ephemeral()).await.unwrap();
        let (client, mut tasks) = (engine.client(), tokio::task::JoinSet::new());
        tasks.spawn(async move {
            let decisions =
                DecisionSettings { namespace: "default".to_owned(), ..DecisionSettings::default() };
            let (parts, settings) = (Part::ALL, Settings { decisions, ..Settings::default() });
            let caches = Caches::new(None, false);
            let (kinds, supervisor) = (control::required_kinds(&parts), Supervisor::new());
            let _following = caches.follow(&client, &kinds, &settings.random, &supervisor);
            control::run(client, caches, settings, &parts, std::future::pending()).await;
        });
        Self { engine, tasks }
    }

    async fn create(&self, object: Value) {
        let api_version = object["apiVersion"].as_str().unwrap();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap());
        let resource = ApiResource::from_gvk(&kind);
        let client = self.engine.client();
        let api: Api<DynamicObject> = match kind.kind.as_str() {
            "NodeAutoscaler" | "NodeGroup" => Api::all_with(client, &resource),
            _ => Api::namespaced_with(client, "default", &resource),
        };
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    /// Waits for a decision about an object of a kind that changed something.
    async fn applied(&self, kind: &str, to: i32) -> Value {
        self.decided(kind, |spec| {
            spec.outcome == DecisionOutcome::Applied && spec.decision["to"] == to
        })
        .await
    }

    /// Waits for a decision about an object of a kind.
    async fn decided(&self, kind: &str, is_it: impl Fn(&DecisionSpec) -> bool) -> Value {
        let api: Api<Decision> = Api::namespaced(self.engine.client(), "default");
        let selected = ListParams::default().fields(&format!("spec.subject.kind={kind}"));
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            let all = api.list(&selected).await.unwrap().items;
            if let Some(found) = all.iter().find(|decision| is_it(&decision.spec)) {
                return json!(found);
            }
            assert!(Instant::now() < end, "no such decision about a {kind}: {all:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Makes the metric source `prometheus`, which has had the same load for a minute.
    async fn measure(&self) -> Prometheus {
        let prometheus = Prometheus::start().await;
        let source: MetricSource = serde_json::from_value(json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "MetricSource",
            "metadata": {"name": "prometheus"}, "spec": {"prometheus": {"url": prometheus.url}},
        }))
        .unwrap();
        let api: Api<MetricSource> = Api::all(self.engine.client());
        api.create(&PostParams::default(), &source).await.unwrap();
        prometheus
    }
}

/// A Prometheus on loopback, and the receiver of a webhook at `/scale`. The query `count` is 3, every other is 90.
struct Prometheus {
    url: String,
    task: tokio::task::JoinHandle<()>,
}

impl Prometheus {
    async fn start() -> Self {
        let app = Router::new()
            .route("/api/v1/query", get(async |asked: Parameters| instant(&asked)))
            .route("/api/v1/query_range", get(async |asked: Parameters| range(&asked)))
            .route("/scale", post(async || "scaled"));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { drop(axum::serve(listener, app).await) });
        Self { url, task }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Parameters = axum::extract::Query<BTreeMap<String, String>>;

fn instant(parameters: &Parameters) -> axum::Json<Value> {
    let at: f64 = parameters["time"].parse().unwrap();
    let value = if parameters["query"] == "count" { "3" } else { "90" };
    let result = json!([{"metric": {}, "value": [at, value]}]);
    axum::Json(json!({"status": "success", "data": {"resultType": "vector", "result": result}}))
}

fn range(parameters: &Parameters) -> axum::Json<Value> {
    let number = |name: &str| parameters[name].parse::<f64>().unwrap();
    let (start, end, step) = (number("start"), number("end"), number("step"));
    let count = ((end - start) / step).floor() as i32;
    let point = |index: i32| json!([start + f64::from(index) * step, "90"]);
    let values: Vec<Value> = (0..=count).map(point).collect();
    let result = json!([{"metric": {}, "values": values}]);
    axum::Json(json!({"status": "success", "data": {"resultType": "matrix", "result": result}}))
}

fn deployment(replicas: i32) -> Value {
    let (labels, containers) = (json!({"app": "web"}), json!([{"name": "web", "image": "web"}]));
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    })
}

/// A policy that adds two while the load is above 75, by two checks of one query.
fn scaling_policy(name: &str, target: Value) -> Value {
    let check = |name: &str, window: &str| {
        let step = json!({"lowerBound": 75, "delta": 2, "withinBoundsTrigger": 1});
        json!({
            "name": name, "source": "prometheus", "query": "load", "window": window,
            "strategy": {"threshold": step},
        })
    };
    json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "ScalingPolicy", "metadata": {"name": name},
        "spec": {
            "target": target, "max": 9, "checks": [check("short", "30s"), check("long", "1m")],
        },
    })
}

/// Decides a recorded decision again, and expects the same in every field.
fn expect_same(recorded: &Value) -> Value {
    let again = replayed(recorded);
    assert_eq!(again["recorded"]["same"], true, "{again:#}\n{recorded:#}");
    for (field, value) in recorded["spec"]["decision"].as_object().unwrap() {
        assert_eq!(again[field], *value, "{field}");
    }
    again
}

fn fleet(replicas: i32) -> Value {
    let pod = json!({"containers": [{"name": "game", "image": "game:1"}]});
    let server =
        json!({"counters": {"rooms": {"count": 0, "capacity": 10}}, "template": {"spec": pod}});
    json!({
        "apiVersion": "agones.dev/v1", "kind": "Fleet", "metadata": {"name": "arena"},
        "spec": {"replicas": replicas, "template": {"spec": server}},
    })
}

fn autoscaler(policy: Value) -> Value {
    json!({
        "apiVersion": "autoscaling.agones.dev/v1", "kind": "FleetAutoscaler",
        "metadata": {
            "name": "arena", "annotations": {"plimsoll.dev/scale-down-stabilization": "5m"},
        },
        "spec": {"fleetName": "arena", "policy": policy},
    })
}

fn evaluate(decision: &Value, output: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path: &Path = &folder.path().join("decision.yaml");
    std::fs::write(path, serde_saphyr::to_string(decision).unwrap()).unwrap();
    plimsoll().args(["evaluate", "-o", output, "-f"]).arg(path).output().unwrap()
}

fn replayed(decision: &Value) -> Value {
    let done = evaluate(decision, "json");
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{stderr}\n{decision:#}");
    let mut printed: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(printed["decisions"].as_array().unwrap().len(), 1);
    printed["decisions"][0].take()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorded_decision_is_decided_again_and_compared() {
    let control = Control::start().await;
    control.create(fleet(2)).await;
    let buffer = json!({"bufferSize": 5, "minReplicas": 0, "maxReplicas": 8});
    control.create(autoscaler(json!({"type": "Buffer", "buffer": buffer}))).await;
    for (kind, to) in [("FleetAutoscaler", 5), ("Fleet", 5)] {
        let mut recorded = control.applied(kind, to).await;
        let again = replayed(&recorded);
        assert_eq!(again["to"], to);
        assert_eq!(again["recorded"]["same"], true, "{again:#}");
        assert_eq!(again["recorded"]["outcome"], "Applied");
        for (field, value) in recorded["spec"]["decision"].as_object().unwrap() {
            assert_eq!(again[field], *value, "{kind}: {field}");
        }
        let text = String::from_utf8(evaluate(&recorded, "text").stdout).unwrap();
        assert!(text.contains("Applied: the same decision"), "{text}");
        recorded["spec"]["decision"]["to"] = json!(6);
        let other = replayed(&recorded);
        assert_eq!(other["recorded"]["same"], false);
        assert_eq!(other["recorded"]["differences"], json!({"to": {"recorded": 6, "now": 5}}));
        let text = String::from_utf8(evaluate(&recorded, "text").stdout).unwrap();
        assert!(text.contains("to was 6, now 5"), "{text}");
    }
    drop(control.tasks);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_that_read_single_game_servers_is_decided_again() {
    let control = Control::start().await;
    control.create(fleet(2)).await;
    let counter = json!({"key": "rooms", "bufferSize": 45, "maxCapacity": 100});
    control.create(autoscaler(json!({"type": "Counter", "counter": counter}))).await;
    let recorded = control.applied("FleetAutoscaler", 5).await;
    let again = replayed(&recorded);
    assert_eq!(again["recorded"]["same"], true, "{again:#}\n{recorded:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_about_the_target_of_a_scaling_policy_is_decided_again() {
    let control = Control::start().await;
    let prometheus = control.measure().await;
    control.create(deployment(2)).await;
    control.create(scaling_policy("object", json!({"kind": "Deployment", "name": "web"}))).await;
    let url = format!("{}/scale?key=hunter2", prometheus.url);
    let count_from = json!({"source": "prometheus", "query": "count"});
    let webhook = json!({"webhook": {"url": url, "countFrom": count_from}});
    control.create(scaling_policy("webhook", webhook)).await;
    for (name, from, to) in [("object", 2, 4), ("webhook", 3, 5)] {
        let recorded = control
            .decided("ScalingPolicy", |spec| {
                spec.outcome == DecisionOutcome::Applied && spec.subject.name == name
            })
            .await;
        assert!(!recorded.to_string().contains("hunter2"), "{recorded:#}");
        let again = expect_same(&recorded);
        assert_eq!((&again["from"], &again["to"]), (&json!(from), &json!(to)), "{name}");
        assert_eq!(again["votes"][1]["reason"]["code"], "InBounds", "{again:#}");
        // The size is that of the decision, which can be changed to try another one.
        let mut other = recorded;
        other["spec"]["decision"]["from"] = json!(8);
        assert_eq!(replayed(&other)["to"], 9, "{name}");
        let series = &mut other["spec"]["inputs"][1]["spec"];
        let (query, newest_at) = (series["query"].clone(), json!("2026-01-01T00:00:00.5Z"));
        *series = json!({"query": query, "onlyFor": "short", "newestAt": newest_at});
        let stale = &replayed(&other)["votes"][0]["reason"];
        assert_eq!(stale["code"], "Stale", "{other:#}");
        assert!(stale["message"].as_str().unwrap().contains("2026-01-01T00:00:00.5Z"), "{stale}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_about_a_service_is_decided_again() {
    let control = Control::start().await;
    let _prometheus = control.measure().await;
    control.create(deployment(2)).await;
    let policy = |name: &str, amount: i32| {
        let target = json!({"kind": "Deployment", "name": "web"});
        json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "AutoScalePolicy",
            "metadata": {"name": name},
            "spec": {
                "serviceId": "web", "metric": "CPUUtilizationPercent", "threshold": 80, "min": 1,
                "max": 9, "action": "up", "amount": amount, "source": "prometheus", "target": target,
            },
        })
    };
    control.create(policy("up", 2)).await;
    let recorded = control.applied("AutoScalePolicy", 4).await;
    let again = expect_same(&recorded);
    assert_eq!((&again["fires"], &again["from"]), (&json!(true), &json!(2)));
    // Quiet afterwards, which is decided by the size that it then has.
    let quiet = control
        .decided("AutoScalePolicy", |spec| spec.decision["reasons"][0]["code"] == "Quiet")
        .await;
    assert_eq!(expect_same(&quiet)["to"], 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_about_a_target_that_another_autoscaler_sizes_is_decided_again() {
    let control = Control::start().await;
    let _prometheus = control.measure().await;
    control.create(deployment(2)).await;
    let target = json!({"kind": "Deployment", "name": "web"});
    control.create(scaling_policy("a", target.clone())).await;
    control.applied("ScalingPolicy", 4).await;
    control.create(scaling_policy("b", target.clone())).await;
    let service = json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "AutoScalePolicy", "metadata": {"name": "c"},
        "spec": {
            "serviceId": "web", "metric": "CPUUtilizationPercent", "threshold": 80, "min": 1,
            "max": 9, "action": "up", "amount": 1, "source": "prometheus", "target": target,
        },
    });
    control.create(service).await;
    for kind in ["ScalingPolicy", "AutoScalePolicy"] {
        let recorded = control
            .decided(kind, |spec| spec.decision["reasons"][0]["code"] == "TargetShared")
            .await;
        let again = expect_same(&recorded);
        assert_eq!(again["sharedWith"], "ScalingPolicy default/a");
        assert_eq!(again["to"], again["from"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_about_nodes_is_decided_again() {
    let control = Control::start().await;
    let size = json!({"cpu": "4", "memory": "16Gi", "pods": "20"});
    control
        .create(json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "NodeGroup", "metadata": {"name": "g"},
            "spec": {
                "max": 5, "provider": {"simulated": {"startAfter": "0s"}},
                "template": {"capacity": size},
            },
        }))
        .await;
    control
        .create(json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "NodeAutoscaler",
            "metadata": {"name": "default"}, "spec": {},
        }))
        .await;
    let container = json!({
        "name": "c", "image": "game:1", "env": [{"name": "A", "value": "secret"}],
        "resources": {"requests": {"cpu": "3"}},
    });
    control
        .create(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "waits"},
            "spec": {"containers": [container], "volumes": [
                {"name": "a", "secret": {"secretName": "s"}}, {"name": "b", "emptyDir": {}},
            ]},
        }))
        .await;
    let pods: Api<k8s_openapi::api::core::v1::Pod> =
        Api::namespaced(control.engine.client(), "default");
    let status = json!({"status": {"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
    ]}});
    let unschedulable = kube::api::Patch::Merge(status);
    pods.patch_status("waits", &kube::api::PatchParams::default(), &unschedulable).await.unwrap();
    let is_growth = |spec: &DecisionSpec| spec.decision["scaleUp"] != json!([]);
    let recorded = control.decided("NodeAutoscaler", is_growth).await;
    assert!(!recorded.to_string().contains("secret"), "{recorded:#}");
    let again = replayed(&recorded);
    assert_eq!(again["scaleUp"][0]["to"], 1, "{again:#}");
    assert_eq!(again["recorded"]["same"], true, "{again:#}\n{recorded:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_cannot_be_replayed_says_why() {
    let control = Control::start().await;
    control.create(fleet(3)).await;
    let recorded = control.applied("Fleet", 3).await;
    let refused = |change: fn(&mut Value), wanted: &str| {
        let mut decision = recorded.clone();
        change(&mut decision["spec"]);
        let done = evaluate(&decision, "json");
        let stderr = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(wanted), "{stderr}");
    };
    refused(
        |spec| (spec["inputs"], spec["truncated"]) = (json!([]), json!(true)),
        "spec.truncated: cannot be replayed: its inputs were too large to be recorded",
    );
    refused(|spec| spec["inputs"] = json!([]), "spec.inputs: cannot be replayed: the subject");
    refused(
        |spec| spec["inputs"][0]["spec"]["replicas"] = json!("three"),
        "spec.inputs[0].spec.replicas",
    );
    refused(|spec| spec["outcom"] = json!("Held"), "spec.outcom: unknown field");
}
