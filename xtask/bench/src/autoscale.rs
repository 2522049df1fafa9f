//! From a burst of allocations to the fleet's new size: how long does the autoscaler take?
//!
//! Everything runs as it does for fleets: all controllers in this process, nodes that play pods. The clock starts when the last
//! allocation of a burst is acknowledged, and stops when a watch shows the `spec.replicas` that makes up for all of them.

use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use api::agones::{Fleet, GameServer};
use api::autoscaling::FleetAutoscaler;
use futures::StreamExt as _;
use futures::future::try_join_all;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tokio::sync::watch;

use crate::fleets::worlds::World;
use crate::fleets::{FLEET, fleet};
use crate::report::{Report, millis, quantile};

/// How many servers are kept ready.
const SPARE: i32 = 100;
/// How many are allocated at once.
const BURST: usize = 16;
/// How long the API is left alone before a burst.
const PAUSE: Duration = Duration::from_secs(1);
/// How long anything may take before the bench gives up.
const WITHIN: Duration = Duration::from_secs(120);

/// Measures so many bursts on each engine.
pub(crate) fn run(bursts: usize, real: bool) -> anyhow::Result<Report> {
    let mut report = Report::new(
        "From a burst of 16 allocations to the changed spec.replicas",
        &["engine", "bursts", "p50", "p99", "worst", "aim for p99"],
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let world = World::embedded(&control::Part::ALL).await?;
        row(&mut report, "embedded", measure(world.client(), bursts).await?);
        world.end().await;
        if real {
            let world = World::real(SPARE * 2, &control::Part::ALL).await?;
            row(&mut report, "kube-apiserver + KWOK", measure(world.client(), bursts).await?);
            world.end().await;
        }
        anyhow::Ok(())
    })?;
    report.note("A Buffer policy of 100; between bursts the matches end, the fleet is whole again, and a second passes. The autoscaler's own sync interval is an hour: only changes start an evaluation.");
    Ok(report)
}

fn row(report: &mut Report, engine: &str, mut took: Vec<Duration>) {
    took.sort();
    let at = |share: f64| millis(quantile(&took, share));
    let count = took.len().to_string();
    report.row(&[engine, &count, &at(0.5), &at(0.99), &at(1.0), "100 ms"]);
}

async fn measure(client: &Client, bursts: usize) -> anyhow::Result<Vec<Duration>> {
    let fleets: Api<Fleet> = Api::default_namespaced(client.clone());
    let autoscalers: Api<FleetAutoscaler> = Api::default_namespaced(client.clone());
    fleets.create(&PostParams::default(), &fleet()).await.context("could not make the fleet")?;
    autoscalers.create(&PostParams::default(), &autoscaler()).await?;
    let (sender, sizes) = watch::channel((0, Instant::now()));
    let following = tokio::spawn(follow(fleets.clone(), sender));
    let mut took = Vec::new();
    for burst in 0..bursts {
        whole(&fleets).await.with_context(|| format!("before burst {burst}"))?;
        // What the last burst left behind, such as pods that end and events, is not what is measured.
        tokio::time::sleep(PAUSE).await;
        took.push(one(client, sizes.clone()).await?);
    }
    following.abort();
    Ok(took)
}

/// Records each size of the fleet, and when it was observed.
async fn follow(fleets: Api<Fleet>, sizes: watch::Sender<(i32, Instant)>) {
    let mut events = pin!(watcher(fleets, watcher::Config::default()).applied_objects());
    while let Some(event) = events.next().await {
        if let Ok(fleet) = event {
            sizes.send_replace((fleet.spec.replicas, Instant::now()));
        }
    }
}

/// Allocates a burst, measures, and ends the matches.
async fn one(
    client: &Client,
    mut sizes: watch::Receiver<(i32, Instant)>,
) -> anyhow::Result<Duration> {
    let servers: Api<GameServer> = Api::default_namespaced(client.clone());
    let listed = servers.list(&ListParams::default()).await?;
    let ready: Vec<String> = listed
        .items
        .iter()
        .filter(|s| s.metadata.deletion_timestamp.is_none())
        .filter(|s| s.status.as_ref().is_some_and(|status| status.state == "Ready"))
        .map(|s| s.name_any())
        .take(BURST)
        .collect();
    ensure!(ready.len() == BURST, "only {} servers are Ready", ready.len());
    set(&servers, &ready, "Allocated").await?;
    let done_at = Instant::now();
    let wanted = SPARE + i32::try_from(BURST)?;
    let resized = tokio::time::timeout(WITHIN, sizes.wait_for(|(size, _)| *size == wanted)).await;
    let resized_at = resized.context("the fleet was not resized")??.1;
    set(&servers, &ready, "Shutdown").await?;
    Ok(resized_at.saturating_duration_since(done_at))
}

async fn set(servers: &Api<GameServer>, names: &[String], state: &str) -> anyhow::Result<()> {
    let change = Patch::Merge(json!({"status": {"state": state}}));
    let params = PatchParams::default();
    let writes = names.iter().map(|name| servers.patch(name, &params, &change));
    try_join_all(writes).await?;
    Ok(())
}

/// Waits until nothing is in use and all that should be spare is Ready.
async fn whole(fleets: &Api<Fleet>) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let fleet = fleets.get(FLEET).await?;
        let status = fleet.status.unwrap_or_default();
        let sizes = [fleet.spec.replicas, status.replicas, status.ready_replicas];
        if sizes == [SPARE; 3] {
            return Ok(());
        }
        ensure!(began.elapsed() < WITHIN, "the fleet got stuck: {status:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn autoscaler() -> FleetAutoscaler {
    let spec = json!({
        "fleetName": FLEET,
        "policy": {"type": "Buffer", "buffer": {"bufferSize": SPARE, "maxReplicas": 10_000}},
        "sync": {"type": "FixedInterval", "fixedInterval": {"seconds": 3600}},
    });
    FleetAutoscaler::new("bench", serde_json::from_value(spec).expect("it is an autoscaler"))
}
