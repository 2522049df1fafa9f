//! Times the phases of an evaluation.

use std::time::Instant;

use decide::nodes::{Cluster, Evaluation, Settings, Snapshot, Status};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ffd;
use super::objects::Objects;

/// The seconds that one case took, and its result.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Figures {
    pub(super) grouping: f64,
    pub(super) evaluating: f64,
    pub(super) planning: f64,
    pub(super) nodes: String,
    pub(super) ffd: Option<usize>,
    pub(super) bound: String,
    pub(super) placed: String,
    pub(super) objects_mib: u64,
    pub(super) peak_mib: u64,
}

impl Figures {
    pub(super) fn evaluation(&self) -> f64 {
        self.grouping + self.evaluating + self.planning
    }
}

pub(super) fn now() -> Timestamp {
    Timestamp::from_second(1_767_225_600).expect("it is a moment")
}

/// Times evaluations that add nodes, and compares the plan with first fit decreasing and the lower bound.
pub(super) fn scale_up(cluster: &Cluster, settings: &Settings) -> Figures {
    let mut best = best_of(cluster, settings, |evaluation| {
        evaluation.scale_up();
        String::new()
    });
    describe(&mut best, cluster, settings);
    best
}

/// Times evaluations that remove nodes.
pub(super) fn scale_down(cluster: &Cluster, settings: &Settings) -> Figures {
    let status = Status::default();
    let mut best = best_of(cluster, settings, |evaluation| {
        let added = evaluation.scale_up();
        format!("-{}", evaluation.scale_down(&status, &added).delete.len())
    });
    (best.bound, best.placed) = ("-".to_owned(), "-".to_owned());
    best
}

/// Times the phases of evaluations of the same objects; `plan` returns the result.
fn best_of(
    cluster: &Cluster,
    settings: &Settings,
    plan: impl Fn(&mut Evaluation<'_>) -> String,
) -> Figures {
    let mut best = Figures { grouping: f64::INFINITY, ..Figures::default() };
    let objects_mib = memory("VmRSS:");
    let started = Instant::now();
    let mut runs = 0;
    while runs < 3 || (runs < 30 && started.elapsed().as_secs_f64() < 2.0) {
        runs += 1;
        // An evaluation groups first; here separately, to measure it.
        let (grouping, snapshot) = time(|| Snapshot::new(cluster, |_| true));
        drop(snapshot);
        let (evaluating, mut evaluation) = time(|| Evaluation::new(cluster, settings, now()));
        let evaluating = (evaluating - grouping).max(0.0);
        let (planning, nodes) = time(|| plan(&mut evaluation));
        let figures = Figures { grouping, evaluating, planning, nodes, ..Figures::default() };
        if figures.evaluation() < best.evaluation() {
            best = figures;
        }
    }
    best.objects_mib = objects_mib;
    best.peak_mib = memory("VmHWM:");
    best
}

/// Returns how good the plan is.
fn describe(figures: &mut Figures, cluster: &Cluster, settings: &Settings) {
    let mut evaluation = Evaluation::new(cluster, settings, now());
    let pending = evaluation.pending.len();
    let plan = evaluation.scale_up();
    let nodes: usize = plan.resizes.iter().map(|resize| resize.nodes.len()).sum();
    figures.nodes = format!("{nodes} in {} groups", plan.resizes.len());
    figures.placed = format!("{} of {pending}", pending - plan.unschedulable.len());
    let Some(most) = plan.resizes.iter().max_by_key(|resize| resize.nodes.len()) else { return };
    if let Some(bound) = evaluation.bound(most.group) {
        figures.bound = format!("{} ({})", bound.nodes, bound.forced_by);
    }
    figures.ffd = Some(plan.resizes.iter().map(|resize| ffd::nodes(cluster, resize)).sum());
}

/// Times a search for a node for one pod, from a warm snapshot.
pub(super) fn predicate(cluster: &Cluster) -> Figures {
    let objects_mib = memory("VmRSS:");
    let (grouping, snapshot) = time(|| Snapshot::new(cluster, |_| true));
    let pod = cluster.pods.len() - 1;
    let mut planning = f64::INFINITY;
    for _ in 0..20 {
        // Many at a time, because reading the clock takes a while too.
        let (took, found) =
            time(|| (0..50).all(|_| snapshot.first_fit(pod, 0, |_| true).is_some()));
        assert!(found, "the last node takes it");
        planning = planning.min(took / 50.0);
    }
    let (nodes, bound, placed) = ("-".to_owned(), "-".to_owned(), "1 of 1".to_owned());
    let peak_mib = memory("VmHWM:");
    Figures {
        grouping,
        planning,
        nodes,
        bound,
        placed,
        objects_mib,
        peak_mib,
        ..Figures::default()
    }
}

/// Times reading all objects of a cluster, in seconds.
pub(super) fn conversion(objects: &Objects) -> f64 {
    (0..3).map(|_| time(|| objects.cluster()).0).fold(f64::INFINITY, f64::min)
}

/// Returns the time that the work spent on the CPU: waiting for other programs on this machine does not count.
pub(super) fn time<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let started = on_cpu();
    let done = work();
    (on_cpu() - started, done)
}

fn on_cpu() -> f64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

/// Reads a figure of this process's memory, in MiB.
pub(super) fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
