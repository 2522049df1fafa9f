//! Measures a server; the requests are the same for every one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt as _;
use serde_json::json;

use super::client::{Connection, Target};
use super::server::Server;
use super::{Scale, WRITERS};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// The figures of one server.
pub(super) struct Figures {
    pub(super) creates: Vec<f64>,
    pub(super) updates: Vec<f64>,
    pub(super) get: Latency,
    pub(super) list: f64,
    pub(super) watch: Latency,
    pub(super) start: f64,
    pub(super) empty: f64,
    pub(super) full: f64,
}

/// Times in milliseconds.
pub(super) struct Latency {
    pub(super) median: f64,
    pub(super) p99: f64,
}

impl Latency {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |share: usize| {
            times.get(times.len() * share / 100).map_or(0.0, |t| t.as_secs_f64() * 1000.0)
        };
        Self { median: at(50), p99: at(99) }
    }
}

/// Measures everything of a server.
pub(super) async fn figures(server: &dyn Server, scale: Scale) -> anyhow::Result<Figures> {
    let target = server.target()?;
    let empty = server.memory()?;
    let (mut creates, mut updates) = (Vec::new(), Vec::new());
    let made = Arc::new(AtomicUsize::new(0));
    for writers in WRITERS {
        creates.push(write(&target, writers, scale.write_for, Writing::Create, &made).await?);
    }
    for writers in WRITERS {
        updates.push(write(&target, writers, scale.write_for, Writing::Update, &made).await?);
    }
    let get = gets(&target, scale.gets).await?;
    fill(&target, scale.pods, &made).await?;
    let list = list(&target).await?;
    let watch = watch(&target, scale).await?;
    // Wait for remaining work before measuring memory.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let full = server.memory()?;
    Ok(Figures { creates, updates, get, list, watch, start: server.start_ms(), empty, full })
}

/// Returns a pod as users write it, about a kilobyte.
fn pod(name: &str) -> Bytes {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"app": "game", "app.kubernetes.io/part-of": "bench", "pod-template-hash": "5d8f9c7b6d"},
            "annotations": {"plimsoll.dev/note": "a pod of the usual size, as a controller would make it"},
        },
        "spec": {
            "containers": [{
                "name": "server", "image": "registry.example/game/server:1.27.3",
                "args": ["--port", "7777", "--region", "eu-west-1"],
                "env": [{"name": "MODE", "value": "production"}, {"name": "SEED", "value": name}],
                "ports": [{"containerPort": 7777, "protocol": "UDP"}],
                "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
                "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 5},
            }],
            "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "games", "effect": "NoSchedule"}],
        },
    });
    Bytes::from(pod.to_string())
}

#[derive(Clone, Copy)]
enum Writing {
    Create,
    Update,
}

/// Writes from many connections for a while; gives writes per second.
async fn write(
    target: &Target,
    writers: usize,
    how_long: Duration,
    writing: Writing,
    made: &Arc<AtomicUsize>,
) -> anyhow::Result<f64> {
    let mut connections = Vec::new();
    for _ in 0..writers {
        connections.push(target.connect().await?);
    }
    let there = made.load(Ordering::Relaxed);
    let started = Instant::now();
    let tasks = connections.into_iter().enumerate().map(|(index, connection)| {
        let made = Arc::clone(made);
        let ends = started + how_long;
        tokio::spawn(async move {
            match writing {
                Writing::Create => create_until(connection, ends, &made).await,
                Writing::Update => update_until(connection, ends, index, writers, there).await,
            }
        })
    });
    let mut done = 0;
    for task in tasks.collect::<Vec<_>>() {
        done += task.await??;
    }
    Ok(done as f64 / started.elapsed().as_secs_f64())
}

async fn create_until(
    mut connection: Connection,
    ends: Instant,
    made: &AtomicUsize,
) -> anyhow::Result<usize> {
    let mut done = 0;
    while Instant::now() < ends {
        let name = format!("pod-{}", made.fetch_add(1, Ordering::Relaxed));
        connection.send(Method::POST, PODS, pod(&name)).await?;
        done += 1;
    }
    Ok(done)
}

/// Changes the label of its own share of the pods, over and over.
async fn update_until(
    mut connection: Connection,
    ends: Instant,
    index: usize,
    writers: usize,
    there: usize,
) -> anyhow::Result<usize> {
    let mut done = 0;
    while Instant::now() < ends {
        let name = format!("pod-{}", (index + done * writers) % there);
        let body = String::from_utf8(pod(&name).to_vec())?
            .replace("5d8f9c7b6d", &format!("round-{index}-{done}"));
        connection.send(Method::PUT, &format!("{PODS}/{name}"), Bytes::from(body)).await?;
        done += 1;
    }
    Ok(done)
}

async fn gets(target: &Target, count: usize) -> anyhow::Result<Latency> {
    let mut connection = target.connect().await?;
    let mut times = Vec::with_capacity(count);
    for index in 0..count {
        let path = format!("{PODS}/pod-{}", index % 100);
        let started = Instant::now();
        connection.send(Method::GET, &path, Bytes::new()).await?;
        times.push(started.elapsed());
    }
    Ok(Latency::of(times))
}

/// Creates pods until there are as many as wanted.
async fn fill(target: &Target, wanted: usize, made: &Arc<AtomicUsize>) -> anyhow::Result<()> {
    let mut tasks = Vec::new();
    for _ in 0..64 {
        let mut connection = target.connect().await?;
        let made = Arc::clone(made);
        tasks.push(tokio::spawn(async move {
            loop {
                let index = made.fetch_add(1, Ordering::Relaxed);
                if index >= wanted {
                    return anyhow::Ok(());
                }
                connection.send(Method::POST, PODS, pod(&format!("pod-{index}"))).await?;
            }
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// Lists all pods a few times; gives the median in milliseconds.
async fn list(target: &Target) -> anyhow::Result<f64> {
    let mut connection = target.connect().await?;
    let mut times = Vec::new();
    for _ in 0..5 {
        let started = Instant::now();
        let bytes = connection.send(Method::GET, PODS, Bytes::new()).await?;
        times.push(started.elapsed());
        anyhow::ensure!(bytes > 1000, "the list is not empty");
    }
    Ok(Latency::of(times).median)
}

/// Creates objects one at a time while many watch; returns the time from sending each to every watcher's receipt.
async fn watch(target: &Target, scale: Scale) -> anyhow::Result<Latency> {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let (received, mut arrivals) = tokio::sync::mpsc::unbounded_channel::<Instant>();
    let mut keep = Vec::new();
    for _ in 0..scale.watchers {
        let mut connection = target.connect().await?;
        let path = format!("{MAPS}?watch=true&resourceVersion=0&labelSelector=of%3Dbench");
        let mut events = connection.start(Method::GET, &path, Bytes::new()).await?;
        let received = received.clone();
        keep.push(connection);
        tokio::spawn(async move {
            while let Some(Ok(frame)) = events.frame().await {
                if frame.data_ref().is_some_and(|data| !data.is_empty()) {
                    let _ = received.send(Instant::now());
                }
            }
        });
    }
    let mut connection = target.connect().await?;
    let mut times = Vec::new();
    for index in 0..scale.watched {
        let map = json!({"metadata": {"name": format!("watched-{index}"), "labels": {"of": "bench"}}, "data": {"k": "v"}});
        let sent = Instant::now();
        connection.send(Method::POST, MAPS, Bytes::from(map.to_string())).await?;
        for _ in 0..scale.watchers {
            let arrival = tokio::time::timeout(Duration::from_secs(10), arrivals.recv()).await;
            let arrival =
                arrival.context("a watcher saw nothing")?.context("a watcher is there")?;
            times.push(arrival.saturating_duration_since(sent));
        }
    }
    drop(keep);
    Ok(Latency::of(times))
}

/// Measures durable creates without a socket.
pub(super) async fn in_process(scale: Scale) -> anyhow::Result<Vec<f64>> {
    let data =
        std::env::temp_dir().join(format!("plimsoll-bench-in-process-{}", std::process::id()));
    let engine = engine::Engine::open(engine::Settings::in_directory(&data)).await?;
    let made = Arc::new(AtomicUsize::new(0));
    let mut figures = Vec::new();
    for writers in WRITERS {
        let started = Instant::now();
        let tasks = (0..writers).map(|_| {
            let (service, made) = (engine.service(), Arc::clone(&made));
            let ends = started + scale.write_for;
            tokio::spawn(async move {
                let mut done = 0;
                while Instant::now() < ends {
                    let name = format!("pod-{}", made.fetch_add(1, Ordering::Relaxed));
                    let request = http::Request::post(PODS)
                        .header(http::header::CONTENT_TYPE, "application/json")
                        .body(http_body_util::Full::new(pod(&name)))?;
                    let response = tower::ServiceExt::oneshot(service.clone(), request).await?;
                    anyhow::ensure!(response.status().is_success(), "{}", response.status());
                    response.into_body().collect().await?;
                    done += 1;
                }
                anyhow::Ok(done)
            })
        });
        let mut done = 0;
        for task in tasks.collect::<Vec<_>>() {
            done += task.await??;
        }
        figures.push(f64::from(done) / started.elapsed().as_secs_f64());
    }
    engine.stop();
    drop(engine);
    std::fs::remove_dir_all(&data)?;
    Ok(figures)
}
