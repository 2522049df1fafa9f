//! A Deployment from nothing to many Ready pods, through a rolling update, and back: how long, at which cost.
//!
//! API, store, controllers, scheduler and kubelet run in this process, as in `plimsoll up`. The pods run nothing: they are on
//! simulated nodes.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::fleets::worlds::World;
use crate::fleets::{cpu_time, resident_mib};
use crate::report::Report;

/// The name of the Deployment that is measured.
const DEPLOYMENT: &str = "bench";
/// How long a step may take before the bench gives up.
const WITHIN: Duration = Duration::from_secs(600);

/// What one Deployment took.
struct Figures {
    size: i32,
    up: Duration,
    rollout: Duration,
    down: Duration,
    /// CPU time on the way up.
    cpu: Duration,
    memory_mib: f64,
}

/// Measures a Deployment of each size.
pub(crate) fn run(sizes: &[i32]) -> anyhow::Result<Report> {
    let mut report = Report::new(
        "A Deployment from 0 to N Ready pods and back",
        &[
            "pods",
            "all Ready after",
            "aim",
            "rolling update after",
            "all gone after",
            "CPU",
            "memory",
        ],
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        for &size in sizes {
            let world = World::embedded(&control::Part::EMBEDDED).await?;
            row(&mut report, &measure(&world, size).await?);
            world.end().await;
        }
        anyhow::Ok(())
    })?;
    report.note("On 60 simulated nodes of the embedded engine, with all its controllers. The rolling update has the default strategy: a quarter of the pods may be missing, and as many may be added.");
    report.note("CPU is what the way up takes, memory what it leaves behind: API, store, controllers, scheduler and nodes.");
    Ok(report)
}

fn row(report: &mut Report, figures: &Figures) {
    let seconds = |duration: Duration| format!("{:.2} s", duration.as_secs_f64());
    report.row(&[
        &figures.size.to_string(),
        &seconds(figures.up),
        if figures.size == 1000 { "2 s" } else { "" },
        &seconds(figures.rollout),
        &seconds(figures.down),
        &format!("{:.1} s", figures.cpu.as_secs_f64()),
        &format!("{:.0} MiB", figures.memory_mib),
    ]);
}

/// Takes one Deployment up, through a rolling update, and down again.
async fn measure(world: &World, size: i32) -> anyhow::Result<Figures> {
    let deployments: Api<Deployment> = Api::default_namespaced(world.client().clone());
    let created = deployments.create(&PostParams::default(), &deployment()?).await;
    created.context("could not create the Deployment")?;
    let cpu = cpu_time();
    let up = change(&deployments, json!({"replicas": size}), |status| {
        status.ready_replicas == Some(size)
    })
    .await?;
    let (cpu, memory_mib) = (cpu_time().saturating_sub(cpu), resident_mib()?);
    let version = json!({"template": {"metadata": {"annotations": {"version": "2"}}}});
    let rollout = change(&deployments, version, |status| {
        let counts = [status.replicas, status.updated_replicas, status.ready_replicas];
        counts.into_iter().all(|count| count == Some(size))
    })
    .await?;
    let started = Instant::now();
    change(&deployments, json!({"replicas": 0}), |status| status.replicas.unwrap_or(0) == 0)
        .await?;
    let pods: Api<Pod> = Api::default_namespaced(world.client().clone());
    while !pods.list_metadata(&ListParams::default().limit(1)).await?.items.is_empty() {
        ensure!(started.elapsed() < WITHIN, "pods are left");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(Figures { size, up, rollout, down: started.elapsed(), cpu, memory_mib })
}

/// Changes the specification, and returns how long it takes until the status is as wanted.
async fn change(
    deployments: &Api<Deployment>,
    spec: Value,
    is_done: impl Fn(&DeploymentStatus) -> bool,
) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let patch = Patch::Merge(json!({"spec": spec}));
    let changed = deployments.patch(DEPLOYMENT, &PatchParams::default(), &patch).await?;
    loop {
        let status = deployments.get(DEPLOYMENT).await?.status.unwrap_or_default();
        if status.observed_generation == changed.metadata.generation && is_done(&status) {
            return Ok(started.elapsed());
        }
        ensure!(started.elapsed() < WITHIN, "the Deployment got stuck: {status:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn deployment() -> serde_json::Result<Deployment> {
    let requests = json!({"cpu": "10m", "memory": "16Mi"});
    let container = json!({"name": "main", "image": "web", "resources": {"requests": requests}});
    serde_json::from_value(json!({
        "metadata": {"name": DEPLOYMENT},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": DEPLOYMENT}},
            "template": {
                "metadata": {"labels": {"app": DEPLOYMENT}},
                "spec": {"containers": [container]},
            },
        },
    }))
}
