//! Fleets from nothing to thousands and back: how long, how many writes, at which cost.
//!
//! The controllers run in this process on both engines. The pods run nothing: on the embedded engine they are on
//! simulated nodes, on the real API server on nodes that KWOK plays, and in both a stand-in plays the game servers
//! with the writes that an SDK server makes.

mod counts;
pub(crate) mod worlds;

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use api::agones::{Fleet, GameServer};
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::report::Report;
use counts::Writes;
use worlds::World;

/// The name of the fleet that is measured.
pub(crate) const FLEET: &str = "bench";
/// How long a fleet may take before the bench gives up.
const WITHIN: Duration = Duration::from_secs(600);

/// The figures of one fleet.
struct Figures {
    size: i32,
    up: Duration,
    down: Duration,
    /// Writes to GameServers and Pods, and to Events, on the way up.
    writes: Writes,
    cpu: Duration,
    memory_mib: f64,
}

/// Measures every size on both engines.
pub(crate) fn run(sizes: &[i32], real: bool) -> anyhow::Result<Report> {
    let mut report = Report::new(
        "Fleets from 0 to N Ready and back",
        &[
            "engine",
            "game servers",
            "all Ready after",
            "aim",
            "all gone after",
            "our writes each",
            "events each",
            "CPU",
            "memory",
        ],
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        for &size in sizes {
            let world = World::embedded(&control::Part::ALL).await?;
            row(&mut report, "embedded", &measure(&world, size).await?);
            world.end().await;
        }
        for &size in sizes.iter().filter(|_| real) {
            let world = World::real(size, &control::Part::ALL).await?;
            row(&mut report, "kube-apiserver + KWOK", &measure(&world, size).await?);
            world.end().await;
        }
        anyhow::Ok(())
    })?;
    report.note("\"Our writes\" are those to GameServers and Pods by controllers and SDK from creation to Ready, the creation included; those of scheduler and kubelet are not ours.");
    report.note("CPU and memory are this process's: controllers and stand-in, and with the embedded engine also the API, its store, scheduler and nodes.");
    Ok(report)
}

fn row(report: &mut Report, engine: &str, figures: &Figures) {
    let size = f64::from(figures.size);
    let is_aimed = engine == "embedded" && figures.size == 1000;
    let each = |count: u64| format!("{:.2}", count as f64 / size);
    report.row(&[
        engine,
        &figures.size.to_string(),
        &format!("{:.2} s", figures.up.as_secs_f64()),
        if is_aimed { "2 s" } else { "" },
        &format!("{:.2} s", figures.down.as_secs_f64()),
        &each(figures.writes.objects),
        &each(figures.writes.events),
        &format!("{:.1} s", figures.cpu.as_secs_f64()),
        &format!("{:.0} MiB", figures.memory_mib),
    ]);
}

/// Takes one fleet up and down again.
async fn measure(world: &World, size: i32) -> anyhow::Result<Figures> {
    eprintln!("{}: a fleet of {size}", world.name());
    let client = world.client();
    let fleets: Api<Fleet> = Api::default_namespaced(client.clone());
    fleets.create(&PostParams::default(), &fleet()).await.context("could not make the fleet")?;
    let (cpu, writes) = (cpu_time(), world.writes());
    let started = Instant::now();
    resize(&fleets, size).await?;
    until(client, |fleet, _| fleet.ready_replicas == size).await?;
    let up = started.elapsed();
    // Writes that were counted but not yet shown in the status belong to it too.
    let writes = world.writes().since(writes);
    let (cpu, memory_mib) = (cpu_time().saturating_sub(cpu), resident_mib()?);
    let started = Instant::now();
    resize(&fleets, 0).await?;
    until(client, |_, servers| servers == 0).await?;
    Ok(Figures { size, up, down: started.elapsed(), writes, cpu, memory_mib })
}

/// Creates the fleet with so many servers, all Ready.
pub(crate) async fn grow(client: &Client, size: i32) -> anyhow::Result<()> {
    let fleets: Api<Fleet> = Api::default_namespaced(client.clone());
    let mut fleet = fleet();
    fleet.spec.replicas = size;
    fleets.create(&PostParams::default(), &fleet).await.context("could not make the fleet")?;
    until(client, |fleet, _| fleet.ready_replicas == size).await
}

async fn resize(fleets: &Api<Fleet>, replicas: i32) -> anyhow::Result<()> {
    let change = json!({"spec": {"replicas": replicas}});
    fleets.patch(FLEET, &PatchParams::default(), &Patch::Merge(change)).await?;
    Ok(())
}

/// Waits until the fleet and its number of game servers are as wanted.
async fn until(
    client: &Client,
    is_done: impl Fn(&api::agones::FleetStatus, usize) -> bool,
) -> anyhow::Result<()> {
    let fleets: Api<Fleet> = Api::default_namespaced(client.clone());
    let servers: Api<GameServer> = Api::default_namespaced(client.clone());
    let began = Instant::now();
    loop {
        let status = fleets.get(FLEET).await?.status.unwrap_or_default();
        let left = if status.replicas == 0 {
            servers.list_metadata(&ListParams::default().limit(1)).await?.items.len()
        } else {
            usize::MAX
        };
        if is_done(&status, left) {
            return Ok(());
        }
        ensure!(began.elapsed() < WITHIN, "the fleet got stuck: {status:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) fn fleet() -> Fleet {
    let container = json!({"name": "game", "image": "game", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}});
    let spec = json!({
        "replicas": 0,
        "template": {"spec": {
            "ports": [{"name": "game", "containerPort": 7654}],
            "template": {"spec": {"containers": [container]}},
        }},
    });
    let mut fleet = Fleet::new(FLEET, serde_json::from_value(spec).expect("it is a fleet"));
    fleet.metadata.namespace = Some("default".to_owned());
    fleet
}

/// Returns the CPU time that this process has used.
pub(crate) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Returns the resident memory of this process.
pub(crate) fn resident_mib() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024.0)
}
