//! Nodes that come and go with pods, on the embedded engine and on a real API server with KWOK: how soon, at which cost.
//!
//! The controllers run in this process. On the embedded engine the API, its store, the scheduler and the nodes do, too.

mod objects;

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use control::Part;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;

use crate::fleets::worlds::World;
use crate::fleets::{cpu_time, resident_mib};
use crate::report::Report;
use objects::{Group, IDLE, LARGE, POOL, SMALL};

/// How long a step may take before the bench gives up.
const WITHIN: Duration = Duration::from_secs(300);
/// How many requests the bench itself sends at the same time.
const AT_ONCE: usize = 32;
/// For how long a node has to be unneeded in the steps that remove nodes.
const UNNEEDED_FOR: Duration = Duration::from_secs(5);
/// How many pods run on each node of the idle cluster.
const PODS_EACH: usize = 30;
/// How long the idle cluster is observed.
const OBSERVED: Duration = Duration::from_secs(30);

/// What is measured, and what Cluster Autoscaler 1.36.1 takes on two shared cores: by default, with scans each second, and at best.
const ROWS: [[&str; 5]; 10] = [
    ["one pod to its new Node, p50 (p99)", "10.0 s", "2.0 s", "", "15 ms (60 ms)"],
    ["the same, before a scheduler has looked at it", "", "", "12 to 29 ms", "15 ms (60 ms)"],
    ["1,000 pods: last of 100 Nodes", "19.4 s", "19.4 s", "6.4 s", "1 s"],
    ["the same: all pods bound", "19.7 s", "19.7 s", "6.8 s", "the scheduler's"],
    ["100 empty nodes gone, 10 at a time", "114 to 126 s", "53 s", "", "15 s"],
    ["100 empty nodes gone, 100 at a time", "", "", "2.0 s", "2 s"],
    ["idle with 500 nodes, 15,000 pods", "3.4 %, 277 MiB", "22 %, 262 MiB", "", "1 %, 150 MiB"],
    ["idle with 1,000 nodes, 30,000 pods", "", "", "", ""],
    ["500 cpu of pods on 4 and 16 cpu", "528 cpu", "", "", "528 cpu"],
    ["writes per node added, removed", "", "", "", ""],
];

/// Measures both engines.
pub(crate) fn run(trials: usize, real: bool) -> anyhow::Result<Report> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (embedded, on_real) = runtime.block_on(async {
        // First the real one, so that the memory of this process is not that of the embedded engine before.
        let on_real = if real {
            let world = World::real(0, &[Part::Nodes]).await?;
            let on_real = measure(&world, "kwok", trials).await?;
            world.end().await;
            on_real
        } else {
            Figures::default()
        };
        let world = World::embedded_on(0, &[Part::Nodes]).await?;
        let embedded = measure(&world, "simulated", trials).await?;
        world.end().await;
        anyhow::Ok((embedded, on_real))
    })?;
    let columns =
        ["what", "embedded", "real API server", "CA default", "CA 1 s scan", "CA best", "aim"];
    let mut report = Report::new("Nodes that come and go", &columns);
    for ([what, usual, scans, best, aim], (embedded, on_real)) in
        ROWS.iter().zip(embedded.iter().zip(&on_real))
    {
        report.row(&[what, embedded, on_real, usual, scans, best, aim]);
    }
    report.note("From the request that creates the pod to the event that shows the Node; machines start at once and providers have no rate limit, Cluster Autoscaler's figures were measured with its kwok provider. \"Best\" is with scans each 100 ms, without delays, and with `--bypassed-scheduler-names`.");
    report.note("Removals count from the end of `unneededFor`. CPU and memory are this process's: with the embedded engine also the API, its store, scheduler and nodes.");
    Ok(report)
}

/// The figures of one engine, in the order of the rows.
type Figures = [String; ROWS.len()];

async fn measure(world: &World, provider: &str, trials: usize) -> anyhow::Result<Figures> {
    let bench = Bench::new(world, provider);
    bench.autoscaler(json!({"scaleDown": {"enabled": false}})).await?;
    for group in [&POOL, &SMALL, &LARGE] {
        bench.group(group).await?;
    }
    let single = bench.single_pods("single", trials).await?;
    let bypassing = json!({"bypassedSchedulers": ["default-scheduler"]});
    bench.autoscaler(json!({"scaleDown": {"enabled": false}, "scaleUp": bypassing})).await?;
    let bypassed = bench.single_pods("bypassing", trials).await?;
    bench.clear().await?;
    let before = world.all_writes();
    let (last_node, all_bound) = bench.burst().await?;
    let added = world.all_writes() - before;
    let before = world.all_writes();
    let by_ten = bench.removal(10).await?;
    let removed = world.all_writes() - before;
    bench.burst().await?;
    let at_once = bench.removal(100).await?;
    let packed = bench.packing().await?;
    bench.clear().await?;
    bench.group(&IDLE).await?;
    let idle = bench.idle(0..500).await?;
    let idle_with_more = bench.idle(500..1000).await?;
    let each = |writes: u64| writes as f64 / 100.0;
    Ok([
        single,
        bypassed,
        seconds(last_node),
        seconds(all_bound),
        seconds(by_ten),
        seconds(at_once),
        idle,
        idle_with_more,
        format!("{packed} cpu"),
        format!("{:.1}, {:.1}", each(added), each(removed)),
    ])
}

fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}

/// The steps, on one engine.
struct Bench<'a> {
    world: &'a World,
    provider: &'a str,
    nodes: Api<Node>,
    pods: Api<Pod>,
}

impl<'a> Bench<'a> {
    fn new(world: &'a World, provider: &'a str) -> Self {
        let client: Client = world.client().clone();
        let (nodes, pods) = (Api::all(client.clone()), Api::default_namespaced(client));
        Self { world, provider, nodes, pods }
    }

    async fn autoscaler(&self, spec: serde_json::Value) -> anyhow::Result<()> {
        objects::apply(self.world.client(), &objects::autoscaler(spec)).await
    }

    async fn group(&self, group: &Group) -> anyhow::Result<()> {
        objects::apply(self.world.client(), &group.object(self.provider)).await
    }

    /// Creates pods that each need a node of their own, one after another.
    async fn single_pods(&self, name: &str, trials: usize) -> anyhow::Result<String> {
        let mut times = Vec::new();
        for trial in 0..trials {
            let nodes = self.count(&POOL).await?;
            let mut events = std::pin::pin!(objects::watch_new(&self.nodes, &POOL).await?);
            let started = Instant::now();
            self.create(&format!("{name}-{trial}"), &POOL, "9").await?;
            tokio::time::timeout(WITHIN, events.next()).await.context("no node came")?;
            times.push(started.elapsed());
            self.until_nodes(&POOL, |count| count > nodes).await?;
            self.until_bound().await?;
        }
        times.sort_unstable();
        let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)];
        let millis = |time: Duration| format!("{:.0} ms", time.as_secs_f64() * 1000.0);
        Ok(format!("{} ({})", millis(at(50)), millis(at(99))))
    }

    /// Creates 1,000 pods that need 100 nodes; returns when the last Node is there, and when all pods are bound.
    async fn burst(&self) -> anyhow::Result<(Duration, Duration)> {
        let started = Instant::now();
        let creations = (0..1000)
            .map(|index| async move { self.create(&format!("burst-{index}"), &POOL, "1").await });
        stream::iter(creations).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        self.until_nodes(&POOL, |count| count >= 100).await?;
        let last_node = started.elapsed();
        self.until_bound().await?;
        Ok((last_node, started.elapsed()))
    }

    /// Deletes all pods, and returns how long after `unneededFor` the last node goes.
    async fn removal(&self, parallel: u32) -> anyhow::Result<Duration> {
        self.delete_pods().await?;
        let emptied = Instant::now();
        self.autoscaler(json!({"scaleDown": {
            "unneededFor": format!("{}s", UNNEEDED_FOR.as_secs()), "delayAfterAdd": "0s", "maxParallel": parallel,
        }}))
        .await?;
        self.until_nodes(&POOL, |count| count == 0).await?;
        self.autoscaler(json!({"scaleDown": {"enabled": false}})).await?;
        Ok(emptied.elapsed().saturating_sub(UNNEEDED_FOR))
    }

    /// Creates 300 pods with 500 cpu on two groups, and returns the cpu of their nodes.
    async fn packing(&self) -> anyhow::Result<u64> {
        let creations = (0..300).map(|index| async move {
            let cpu = ["500m", "1", "3500m"][index % 3];
            self.create(&format!("packed-{index}"), &SMALL, cpu).await
        });
        stream::iter(creations).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        self.until_bound().await?;
        let (small, large) = (self.count(&SMALL).await?, self.count(&LARGE).await?);
        Ok(small as u64 * SMALL.cpu + large as u64 * LARGE.cpu)
    }

    /// Adds nodes with 30 pods each, and returns the CPU and the memory that the idle cluster takes.
    async fn idle(&self, added: Range<usize>) -> anyhow::Result<String> {
        self.autoscaler(json!({})).await?;
        let nodes = added.clone().map(|index| async move {
            let node = objects::node(&format!("idle-{index}"), self.provider)?;
            self.nodes.create(&PostParams::default(), &node).await?;
            anyhow::Ok(())
        });
        stream::iter(nodes).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        let pods = (added.start * PODS_EACH..added.end * PODS_EACH).map(|index| async move {
            let pod = objects::bound_pod(index, &format!("idle-{}", index / PODS_EACH))?;
            self.pods.create(&PostParams::default(), &pod).await?;
            anyhow::Ok(())
        });
        stream::iter(pods).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        // Until the nodes have started all pods, nothing is idle.
        let mut before = cpu_time();
        let began = Instant::now();
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let spent = cpu_time().saturating_sub(before);
            before = cpu_time();
            if spent < Duration::from_secs(1) || began.elapsed() > WITHIN {
                break;
            }
        }
        tokio::time::sleep(OBSERVED).await;
        let spent = cpu_time().saturating_sub(before);
        let share = 100.0 * spent.as_secs_f64() / OBSERVED.as_secs_f64();
        Ok(format!("{share:.1} %, {:.0} MiB", resident_mib()?))
    }

    async fn create(&self, name: &str, group: &Group, cpu: &str) -> anyhow::Result<()> {
        let pod = objects::pod(name, group, cpu)?;
        self.pods.create(&PostParams::default(), &pod).await?;
        Ok(())
    }

    /// Deletes all pods and nodes of the earlier steps.
    async fn clear(&self) -> anyhow::Result<()> {
        self.delete_pods().await?;
        self.autoscaler(json!({"scaleDown": {
            "unneededFor": "0s", "delayAfterAdd": "0s", "maxParallel": 1000,
        }}))
        .await?;
        for group in [&POOL, &SMALL, &LARGE] {
            self.until_nodes(group, |count| count == 0).await?;
        }
        self.autoscaler(json!({"scaleDown": {"enabled": false}})).await
    }

    async fn delete_pods(&self) -> anyhow::Result<()> {
        self.pods.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        let began = Instant::now();
        while !self.pods.list_metadata(&ListParams::default().limit(1)).await?.items.is_empty() {
            ensure!(began.elapsed() < WITHIN, "pods are left");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    async fn count(&self, group: &Group) -> anyhow::Result<usize> {
        Ok(self.nodes.list_metadata(&group.nodes()).await?.items.len())
    }

    async fn until_nodes(
        &self,
        group: &Group,
        is_done: impl Fn(usize) -> bool,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            let count = self.count(group).await?;
            if is_done(count) {
                return Ok(());
            }
            ensure!(began.elapsed() < WITHIN, "group {} stays at {count} nodes", group.name);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until no pod is without a node.
    async fn until_bound(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        let unbound = ListParams::default().fields("spec.nodeName=").limit(1);
        while !self.pods.list_metadata(&unbound).await?.items.is_empty() {
            ensure!(began.elapsed() < WITHIN, "pods stay without a node");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}
