//! The embedded engine next to the real kube-apiserver with etcd: writes, reads, watches, start-up and memory.
//!
//! Both run on this machine in the same run, both durable, both behind TLS; the client, the connections and the bytes it
//! sends are the same. The real one's memory is that of kube-apiserver and etcd together.

mod client;
mod load;
mod server;

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use crate::report::Report;
use load::Figures;
use server::{Embedded, Real, Server};

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    /// How long each figure for writes is measured.
    pub(crate) write_for: Duration,
    /// How many pods are there for the list and for memory.
    pub(crate) pods: usize,
    pub(crate) gets: usize,
    pub(crate) watchers: usize,
    pub(crate) watched: usize,
}

pub(crate) const WRITERS: [usize; 3] = [1, 16, 128];

/// Measures both and puts them side by side.
pub(crate) fn run(pods: usize, seconds: u64) -> anyhow::Result<Report> {
    let scale = Scale {
        write_for: Duration::from_secs(seconds),
        pods,
        gets: 2000,
        watchers: 100,
        watched: 100,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (ours, theirs, inside) = runtime.block_on(async {
        let ours =
            measure(Box::new(Embedded::start()?), scale).await.context("the embedded engine")?;
        let inside = load::in_process(scale).await.context("the engine in process")?;
        let theirs =
            measure(Box::new(Real::start()?), scale).await.context("the real kube-apiserver")?;
        anyhow::Ok((ours, theirs, inside))
    })?;
    Ok(report(&ours, &theirs, &inside, scale))
}

/// Serves the engine for [`run`], which starts it as another process.
pub(crate) fn serve(data: &Path) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(server::serve(data))
}

async fn measure(server: Box<dyn Server>, scale: Scale) -> anyhow::Result<Figures> {
    eprintln!("measuring {}", server.name());
    load::figures(&*server, scale).await
}

fn report(ours: &Figures, theirs: &Figures, inside: &[f64], scale: Scale) -> Report {
    let mut report = Report::new(
        "The embedded engine next to kube-apiserver with etcd",
        &["", "embedded engine", "kube-apiserver + etcd", "ratio"],
    );
    let mut row = |what: String, ours: f64, theirs: f64, unit: &str, more_is_better: bool| {
        let ratio = if more_is_better { ours / theirs } else { theirs / ours };
        let shown = |value: f64| {
            if value < 10.0 { format!("{value:.2} {unit}") } else { format!("{value:.0} {unit}") }
        };
        report.row(&[&what, &shown(ours), &shown(theirs), &format!("{ratio:.1}×")]);
    };
    for (index, writers) in WRITERS.iter().enumerate() {
        row(
            format!("durable creates, {writers} writers"),
            ours.creates[index],
            theirs.creates[index],
            "/s",
            true,
        );
    }
    for (index, writers) in WRITERS.iter().enumerate() {
        row(
            format!("durable updates, {writers} writers"),
            ours.updates[index],
            theirs.updates[index],
            "/s",
            true,
        );
    }
    row("get, median".into(), ours.get.median, theirs.get.median, "ms", false);
    row("get, 99th percentile".into(), ours.get.p99, theirs.get.p99, "ms", false);
    row(format!("list of {} pods", scale.pods), ours.list, theirs.list, "ms", false);
    row(
        format!("watch delivery, {} watchers, median", scale.watchers),
        ours.watch.median,
        theirs.watch.median,
        "ms",
        false,
    );
    row(
        format!("watch delivery, {} watchers, 99th percentile", scale.watchers),
        ours.watch.p99,
        theirs.watch.p99,
        "ms",
        false,
    );
    row("start-up".into(), ours.start, theirs.start, "ms", false);
    row("memory, empty".into(), ours.empty, theirs.empty, "MiB", false);
    row(format!("memory, {} pods", scale.pods), ours.full, theirs.full, "MiB", false);
    for (index, writers) in WRITERS.iter().enumerate() {
        let figure = format!("{:.0} /s", inside[index]);
        report.row(&[&format!("durable creates in process, {writers} writers"), &figure, "", ""]);
    }
    report.note("A ratio above 1 is in the engine's favour. Watch delivery is from sending the write to each watcher's receipt.");
    report.note("Each is the API with its storage alone: no controllers, no scheduler.");
    report.note("HTTP/1.1 over TLS, one connection per writer and watcher; client and server share this machine's cores.");
    report
}
