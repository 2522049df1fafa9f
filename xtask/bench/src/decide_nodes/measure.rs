//! Times the phases of a turn.

use std::time::Instant;

use decide::nodes::{Cluster, Settings, Snapshot, Status, Turn};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ffd;
use super::objects::Objects;

/// What one case took, in seconds, and what came out.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Figures {
    pub(super) grouping: f64,
    pub(super) looking: f64,
    pub(super) planning: f64,
    pub(super) nodes: String,
    pub(super) ffd: Option<usize>,
    pub(super) bound: String,
    pub(super) placed: String,
    pub(super) objects_mib: u64,
    pub(super) peak_mib: u64,
}

impl Figures {
    pub(super) fn turn(&self) -> f64 {
        self.grouping + self.looking + self.planning
    }
}

pub(super) fn now() -> Timestamp {
    Timestamp::from_second(1_767_225_600).expect("it is a moment")
}

/// Times turns that add nodes, and compares the plan with first fit decreasing and the lower bound.
pub(super) fn scale_up(cluster: &Cluster, settings: &Settings) -> Figures {
    let mut best = best_of(cluster, settings, |turn| {
        turn.scale_up();
        String::new()
    });
    describe(&mut best, cluster, settings);
    best
}

/// Times turns that remove nodes.
pub(super) fn scale_down(cluster: &Cluster, settings: &Settings) -> Figures {
    let status = Status::default();
    let mut best = best_of(cluster, settings, |turn| {
        let added = turn.scale_up();
        format!("-{}", turn.scale_down(&status, &added).delete.len())
    });
    (best.bound, best.placed) = ("-".to_owned(), "-".to_owned());
    best
}

/// Times the phases of turns from the same objects; `plan` says what came out.
fn best_of(
    cluster: &Cluster,
    settings: &Settings,
    plan: impl Fn(&mut Turn<'_>) -> String,
) -> Figures {
    let mut best = Figures { grouping: f64::INFINITY, ..Figures::default() };
    let objects_mib = memory("VmRSS:");
    let started = Instant::now();
    let mut runs = 0;
    while runs < 3 || (runs < 30 && started.elapsed().as_secs_f64() < 2.0) {
        runs += 1;
        // A turn groups first; on its own, so that it can be told apart.
        let (grouping, snapshot) = time(|| Snapshot::new(cluster, |_| true));
        drop(snapshot);
        let (looking, mut turn) = time(|| Turn::new(cluster, settings, now()));
        let looking = (looking - grouping).max(0.0);
        let (planning, nodes) = time(|| plan(&mut turn));
        let figures = Figures { grouping, looking, planning, nodes, ..Figures::default() };
        if figures.turn() < best.turn() {
            best = figures;
        }
    }
    best.objects_mib = objects_mib;
    best.peak_mib = memory("VmHWM:");
    best
}

/// Says how good the plan is.
fn describe(figures: &mut Figures, cluster: &Cluster, settings: &Settings) {
    let mut turn = Turn::new(cluster, settings, now());
    let pending = turn.pending.len();
    let plan = turn.scale_up();
    let nodes: usize = plan.resizes.iter().map(|resize| resize.nodes.len()).sum();
    figures.nodes = format!("{nodes} in {} groups", plan.resizes.len());
    figures.placed = format!("{} of {pending}", pending - plan.unschedulable.len());
    let Some(most) = plan.resizes.iter().max_by_key(|resize| resize.nodes.len()) else { return };
    if let Some(bound) = turn.bound(most.group) {
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

/// Gives the time that the work spent on the CPU: others use this machine too, and waiting for them says nothing.
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
