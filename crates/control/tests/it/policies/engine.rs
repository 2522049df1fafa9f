//! A stand-in for Docker Engine, for tests in virtual time: the containers of one compose service, whose counters grow with the time of
//! the test at a rate that tests set.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The memory of the machine.
const MEMORY: u64 = 64 << 30;

pub(crate) struct DockerStandIn {
    /// The `host` of its MetricSource.
    pub(crate) host: String,
    state: Shared,
    task: JoinHandle<()>,
}

type Shared = Arc<Mutex<Engine>>;

struct Engine {
    began_at: Instant,
    containers: BTreeMap<String, Container>,
    created: u32,
    /// The cores that each container uses, since when, and the CPU time that it used before.
    cores: f64,
    since: Instant,
    before: f64,
    /// The memory that each container uses.
    memory: u64,
}

struct Container {
    name: String,
    labels: Value,
    host_config: Value,
    /// The CPU time at its start.
    cpu: f64,
}

impl Engine {
    /// Returns the CPU time in seconds that a container has used which ran from the beginning.
    fn cpu(&self) -> f64 {
        self.before + self.cores * self.since.elapsed().as_secs_f64()
    }

    fn counters(&self, container: &Container) -> Value {
        let nanos = |seconds: f64| (seconds * 1e9).round();
        let system = 1000.0 + self.began_at.elapsed().as_secs_f64();
        json!({
            "cpu_usage": {"total_usage": nanos(self.cpu() - container.cpu)},
            "system_cpu_usage": nanos(system), "online_cpus": 1,
        })
    }

    fn create(&mut self, name: &str, body: &Value) -> String {
        self.created += 1;
        let id = format!("{:064}", self.created);
        let container = Container {
            name: name.to_owned(),
            labels: body["Labels"].clone(),
            host_config: body["HostConfig"].clone(),
            cpu: self.cpu(),
        };
        self.containers.insert(id.clone(), container);
        id
    }
}

impl DockerStandIn {
    /// Starts an engine with containers of the service `web` in the project `shop`.
    pub(crate) async fn start(count: u32, host_config: Value) -> Self {
        let now = Instant::now();
        let mut engine = Engine {
            began_at: now,
            containers: BTreeMap::new(),
            created: 0,
            cores: 0.0,
            since: now,
            before: 0.0,
            memory: 0,
        };
        for number in 1..=count {
            let labels = json!({
                "com.docker.compose.project": "shop", "com.docker.compose.service": "web",
                "com.docker.compose.container-number": number.to_string(),
                "com.docker.compose.oneoff": "False", "com.docker.compose.config-hash": "h",
            });
            let body = json!({"Labels": labels, "HostConfig": host_config});
            engine.create(&format!("shop-web-{number}"), &body);
        }
        let state = Arc::new(Mutex::new(engine));
        let app = Router::new()
            .route("/containers/json", get(list))
            .route("/containers/create", post(create))
            .route("/containers/{id}/json", get(inspect))
            .route("/containers/{id}/stats", get(stats))
            .route("/containers/{id}/start", post(|| async { StatusCode::NO_CONTENT }))
            .route("/containers/{id}/stop", post(|| async { StatusCode::NO_CONTENT }))
            .route("/containers/{id}", delete(remove))
            .with_state(Arc::clone(&state));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = format!("tcp://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { drop(axum::serve(listener, app).await) });
        Self { host, state, task }
    }

    /// Sets how many cores each container uses from now on.
    pub(crate) fn uses_cores(&self, cores: f64) {
        let mut engine = self.lock();
        engine.before = engine.cpu();
        engine.since = Instant::now();
        engine.cores = cores;
    }

    /// Sets how much memory each container uses from now on.
    pub(crate) fn uses_memory(&self, bytes: u64) {
        self.lock().memory = bytes;
    }

    /// Returns the names of the containers, in their order.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> =
            self.lock().containers.values().map(|container| container.name.clone()).collect();
        names.sort();
        names
    }

    fn lock(&self) -> MutexGuard<'_, Engine> {
        self.state.lock().unwrap()
    }
}

impl Drop for DockerStandIn {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Parameters = Query<BTreeMap<String, String>>;

async fn list(State(state): State<Shared>, Query(parameters): Parameters) -> Json<Value> {
    let filters: Value = serde_json::from_str(&parameters["filters"]).unwrap();
    let has = |container: &Container, filter: &Value| {
        let (label, value) = filter.as_str().unwrap().split_once('=').unwrap();
        container.labels[label] == value
    };
    let wanted = filters["label"].as_array().unwrap();
    let engine = state.lock().unwrap();
    let found = engine.containers.iter().filter(|(_, c)| wanted.iter().all(|w| has(c, w)));
    let shown = found.enumerate().map(|(created, (id, container))| {
        json!({"Id": id, "Names": [format!("/{}", container.name)], "Created": created,
               "State": "running", "Status": "Up 2 minutes", "Labels": container.labels})
    });
    Json(shown.collect())
}

async fn inspect(State(state): State<Shared>, Path(id): Path<String>) -> Response {
    let engine = state.lock().unwrap();
    let Some(container) = engine.containers.get(&id) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let config = json!({"Image": "web", "Labels": container.labels});
    Json(json!({
        "Id": id, "Name": format!("/{}", container.name), "Image": "sha256:1", "Config": config,
        "HostConfig": container.host_config, "NetworkSettings": {"Networks": {}},
    }))
    .into_response()
}

/// Answers at once with the counters, or after a second with those before it, too.
async fn stats(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Query(parameters): Parameters,
) -> Response {
    let counters = || {
        let engine = state.lock().unwrap();
        let container = engine.containers.get(&id)?;
        Some((engine.counters(container), json!({"usage": engine.memory, "limit": MEMORY})))
    };
    let before = if parameters["one-shot"] == "false" {
        let before = counters();
        tokio::time::sleep(Duration::from_secs(1)).await;
        before
    } else {
        None
    };
    let Some((now, memory)) = counters() else { return StatusCode::NOT_FOUND.into_response() };
    let before = before.map_or_else(|| json!({}), |(counters, _)| counters);
    Json(json!({
        "read": "2026-01-01T00:00:00Z", "cpu_stats": now, "precpu_stats": before,
        "memory_stats": memory,
    }))
    .into_response()
}

async fn create(
    State(state): State<Shared>,
    Query(parameters): Parameters,
    Json(body): Json<Value>,
) -> (StatusCode, Json<Value>) {
    let id = state.lock().unwrap().create(&parameters["name"], &body);
    (StatusCode::CREATED, Json(json!({"Id": id, "Warnings": []})))
}

async fn remove(State(state): State<Shared>, Path(id): Path<String>) -> StatusCode {
    match state.lock().unwrap().containers.remove(&id) {
        Some(_) => StatusCode::NO_CONTENT,
        None => StatusCode::NOT_FOUND,
    }
}
