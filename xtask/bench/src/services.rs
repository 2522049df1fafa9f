//! Thousands of scaling policies at work, each with queries of its own at an HTTP source in another process: at which cost, how late,
//! and how soon a change at a source that pushes scales its target.
//!
//! API, store and controllers run in this process. Nothing runs the pods of the targets: they are only scaled.

mod evaluations;
mod objects;
mod source;

use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Args;
use control::Part;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};

use crate::fleets::worlds::World;
use crate::fleets::{cpu_time, resident_mib};
use crate::report::{Report, millis, quantile};
use objects::INTERVAL;
use source::Source;

pub(crate) use evaluations::Evaluations;
pub(crate) use source::serve as serve_source;

/// How many requests the bench itself sends at the same time.
const AT_ONCE: usize = 32;
/// How long a step may take before the bench gives up.
const WITHIN: Duration = Duration::from_secs(300);
/// How long between two pushed changes.
const PAUSE: Duration = Duration::from_millis(500);

/// How much is measured.
#[derive(Args)]
pub(crate) struct Options {
    /// How many policies, each with four queries of its own
    #[arg(long, default_value_t = 10_000)]
    policies: usize,
    /// How many intervals of ten seconds are observed
    #[arg(long, default_value_t = 6)]
    intervals: u32,
    /// How many changes are pushed
    #[arg(long, default_value_t = 100)]
    pushes: u32,
}

/// Measures policies on the embedded engine.
pub(crate) fn run(options: &Options, evaluations: Evaluations) -> anyhow::Result<Report> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut source = Source::start()?;
    let figures = runtime.block_on(async {
        let world = World::embedded_on(0, &[Part::ScalingPolicy]).await?;
        objects::create_sources(world.client(), &source.address).await?;
        objects::create_pushed(world.client()).await?;
        let bench = Bench { world: &world, options, evaluations };
        let alone = bench.reactions(&mut source).await?;
        bench.create().await?;
        let steady = bench.observe().await?;
        let among = bench.reactions(&mut source).await?;
        world.end().await;
        anyhow::Ok(Figures { steady, alone, among })
    })?;
    Ok(report(options, &figures))
}

/// Everything that is measured.
struct Figures {
    steady: Steady,
    /// How long pushed changes took with one policy, sorted.
    alone: Vec<Duration>,
    /// How long they took with all policies.
    among: Vec<Duration>,
}

fn report(options: &Options, Figures { steady, alone, among }: &Figures) -> Report {
    let mut report = Report::new("Scaling policies at work", &["what", "measured", "aim"]);
    report.row(&["policies, queries of each", &format!("{}, 4", options.policies), ""]);
    let evaluated = format!("{:.1} %", 100.0 * steady.evaluated);
    report.row(&["evaluations of those that were due", &evaluated, "100 %"]);
    report.row(&["CPU, of one core", &format!("{:.0} %", 100.0 * steady.cpu), "30 %"]);
    report.row(&["memory", &format!("{:.0} MiB", steady.memory_mib), "250 MB"]);
    let lateness = |share| millis(quantile(&steady.lateness, share));
    report.row(&["lateness, p50", &lateness(0.5), ""]);
    report.row(&["lateness, p99", &lateness(0.99), "500 ms"]);
    report.row(&["lateness, worst", &lateness(1.0), ""]);
    for (when, took) in [("alone", alone), ("among all of them", among)] {
        let took = [0.5, 0.99].map(|share| millis(quantile(took, share)));
        let what = format!("pushed change to the scale call, {when}: p50 (p99)");
        report.row(&[&what, &format!("{} ({})", took[0], took[1]), ""]);
    }
    report.note("On the embedded engine, with an interval of 10 s: each of the queries is an HTTP request, which the source answers after 5 ms. CPU and memory are this process's: controller, API and store, but not the source.");
    report.note("Lateness is of the end of an evaluation, against the earliest end of the same policy in its interval. A pushed change is that of an external scaler (gRPC), measured until a watch shows the new size of the Deployment.");
    report
}

/// What a number of policies takes.
struct Steady {
    /// The share of the evaluations that were due.
    evaluated: f64,
    cpu: f64,
    memory_mib: f64,
    /// Sorted.
    lateness: Vec<Duration>,
}

struct Bench<'a> {
    world: &'a World,
    options: &'a Options,
    evaluations: Evaluations,
}

impl Bench<'_> {
    /// Creates all policies with their targets, and waits until each was evaluated.
    async fn create(&self) -> anyhow::Result<()> {
        let creations = (0..self.options.policies)
            .map(|index| async move { objects::create_policy(self.world.client(), index).await });
        stream::iter(creations).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        let began = Instant::now();
        while self.evaluations.policies() < self.options.policies {
            ensure!(began.elapsed() < WITHIN, "not every policy is evaluated");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // Statuses and decisions of the first evaluations are written in this time.
        tokio::time::sleep(3 * INTERVAL).await;
        Ok(())
    }

    /// Observes the policies for some intervals.
    async fn observe(&self) -> anyhow::Result<Steady> {
        self.evaluations.clear();
        let (began, cpu, writes) = (Instant::now(), cpu_time(), self.world.all_writes());
        tokio::time::sleep(INTERVAL * self.options.intervals).await;
        let (spent, took) = (cpu_time().saturating_sub(cpu), began.elapsed());
        eprintln!("{} writes to the API", self.world.all_writes() - writes);
        let due = self.options.policies * usize::try_from(self.options.intervals)?;
        let lateness = self.evaluations.lateness();
        ensure!(!lateness.is_empty(), "nothing was evaluated");
        Ok(Steady {
            evaluated: lateness.len() as f64 / due as f64,
            cpu: spent.as_secs_f64() / took.as_secs_f64(),
            memory_mib: resident_mib()?,
            lateness,
        })
    }

    /// Pushes changes one after another; returns how long each took to reach the target, sorted.
    async fn reactions(&self, source: &mut Source) -> anyhow::Result<Vec<Duration>> {
        let deployments: Api<Deployment> = Api::default_namespaced(self.world.client().clone());
        let mut took = Vec::new();
        let mut size = 10;
        for _ in 0..self.options.pushes {
            let version = deployments.list_metadata(&ListParams::default().limit(1)).await?;
            let version = version.metadata.resource_version.unwrap_or_default();
            let field = format!("metadata.name={}", objects::PUSHED);
            let params = WatchParams::default().fields(&field);
            let mut events = pin!(deployments.watch(&params, &version).await?);
            size = if size == 20 { 10 } else { 20 };
            let began = Instant::now();
            source.push(size)?;
            let scaled = async {
                while let Some(event) = events.next().await {
                    if let WatchEvent::Modified(deployment) = event?
                        && objects::size(&deployment) == Some(size)
                    {
                        return anyhow::Ok(());
                    }
                }
                anyhow::bail!("the watch has ended")
            };
            tokio::time::timeout(WITHIN, scaled).await.context("nothing was scaled")??;
            took.push(began.elapsed());
            tokio::time::sleep(PAUSE).await;
        }
        took.sort_unstable();
        Ok(took)
    }
}
