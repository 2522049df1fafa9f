//! The cases.

use std::fmt;

use std::sync::Arc;

use decide::nodes::{
    Cluster, Expander, HOSTNAME_LABEL, Owner, PodSpec, ScaleDownSettings, ScaleUpSettings,
    Settings, Workload,
};
use jiff::SignedDuration;

use super::measure::{self, Figures};
use super::objects::Objects;
use super::world::{Dice, MIB, ZONE, group, node, runs, size, spec, spread, term, waits};

/// One case: what is timed, what the peer takes, what we aim at.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) timed: Timed,
    pub(super) peer: &'static str,
    pub(super) aim: &'static str,
    make: fn() -> Cluster,
}

/// The work that a case times.
#[derive(Clone, Copy)]
pub(super) enum Timed {
    Evaluation,
    Packing,
    Predicate,
}

impl fmt::Display for Timed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Evaluation => "evaluation",
            Self::Packing => "packing",
            Self::Predicate => "predicate",
        })
    }
}

impl Case {
    /// Times reading all Kubernetes objects of the case, in seconds.
    pub(super) fn convert(&self) -> f64 {
        let objects = Objects::new(&(self.make)());
        measure::conversion(&objects)
    }

    pub(super) fn measure(&self) -> Figures {
        let cluster = (self.make)();
        let scale_up = ScaleUpSettings { max_nodes: 100_000, ..ScaleUpSettings::default() };
        let expanders = vec![Expander::LeastWaste];
        let scale_down = ScaleDownSettings {
            unneeded_for: SignedDuration::ZERO,
            max_parallel: 2000,
            max_drain_parallel: 2000,
            ..ScaleDownSettings::default()
        };
        let settings = Settings { scale_up, scale_down, expanders, ..Settings::default() };
        match self.timed {
            Timed::Predicate => measure::predicate(&cluster),
            Timed::Evaluation if !cluster.workloads.is_empty() => {
                measure::scale_down(&cluster, &settings)
            }
            Timed::Evaluation | Timed::Packing => measure::scale_up(&cluster, &settings),
        }
    }
}

pub(super) fn all() -> Vec<Case> {
    let case = |name, timed, peer, aim, make| Case { name, timed, peer, aim, make };
    vec![
        case(
            "50,000 pods of one kind, 0 to 1,000 nodes",
            Timed::Evaluation,
            "CA 1.0 s, 470 MB",
            "20 ms",
            one_kind,
        ),
        case(
            "51,000 pods of two kinds, 2,595 nodes",
            Timed::Packing,
            "CA 8.3 s (41 ms)",
            "10 ms",
            two_kinds,
        ),
        case("2,000 pods apart by host", Timed::Packing, "CA 5.8 s (1.2 ms)", "10 ms", || apart(1)),
        case("the same, in a mix of 20 kinds", Timed::Packing, "-", "10 ms", || apart(20)),
        case(
            "one pod, 5,001 nodes with 10 it avoids",
            Timed::Predicate,
            "CA 11 to 16 ms",
            "0.2 ms",
            avoided,
        ),
        case(
            "10,000 diverse pods, 400 groups",
            Timed::Evaluation,
            "Karpenter 38 s",
            "300 ms",
            diverse,
        ),
        case(
            "2,000 nodes with 40 pods of 1 % each: 1,200 go",
            Timed::Evaluation,
            "CA 1.3 s",
            "50 ms",
            idle,
        ),
        case("50,000 pods of 1,000 kinds, 20 groups", Timed::Evaluation, "-", "500 ms", many_kinds),
        case(
            "5,000 nodes, 150,000 pods, 5,000 pending",
            Timed::Evaluation,
            "CA minutes (reports)",
            "500 ms",
            || running(5_000, 5_000),
        ),
        case(
            "15,000 nodes, 450,000 pods, 10,000 pending",
            Timed::Evaluation,
            "-",
            "2 s, under 1,536 MiB",
            || running(15_000, 10_000),
        ),
    ]
}

/// As CA's own benchmark: a pod is a fiftieth of a node.
fn one_kind() -> Cluster {
    let mut cluster = Cluster::default();
    cluster.groups.push(group("pool", size(10_000, 10_000, 110), None));
    (0..50_000).for_each(|_| waits(&mut cluster, spec(200, 200, Some(("app", "web")))));
    cluster
}

fn two_kinds() -> Cluster {
    let mut cluster = Cluster::default();
    cluster.groups.push(group("pool", size(1000, 5000, 100), None));
    (0..50_000).for_each(|_| waits(&mut cluster, spec(50, 100, None)));
    (0..1000).for_each(|_| waits(&mut cluster, spec(95, 190, None)));
    cluster
}

fn apart(kinds: i64) -> Cluster {
    let mut cluster = Cluster::default();
    cluster.groups.push(group("pool", size(16_000, 64 << 30, 110), None));
    for n in 0..2000 {
        let label = ("app", "db");
        let anti_affinity = [term(HOSTNAME_LABEL, label)].into();
        let cpu = 100 * (1 + n % kinds);
        waits(&mut cluster, PodSpec { anti_affinity, ..spec(cpu, 128 * MIB, Some(label)) });
    }
    if kinds > 1 {
        let mut dice = Dice(3);
        for _ in 0..2000 {
            let (cpu, memory) = (dice.pick(&[250, 500, 1000]), dice.pick(&[256, 512, 1024]));
            waits(&mut cluster, spec(cpu, memory * MIB, Some(("app", "web"))));
        }
    }
    cluster
}

fn avoided() -> Cluster {
    let mut cluster = Cluster::default();
    let pool = group("pool", size(16_000, 64 << 30, 110), None);
    let label = ("app", "db");
    for n in 0..5001 {
        let name = format!("node-{n:05}");
        cluster.nodes.push(node(&name, &pool));
        let count = if n < 5000 { 10 } else { 0 };
        (0..count).for_each(|_| runs(&mut cluster, spec(100, MIB, Some(label)), &name));
    }
    let anti_affinity = [term(HOSTNAME_LABEL, label)].into();
    waits(&mut cluster, PodSpec { anti_affinity, ..spec(100, MIB, Some(label)) });
    cluster
}

/// As Karpenter's own benchmark: five equal parts, and 400 instance types as 100 shapes in 4 zones.
fn diverse() -> Cluster {
    let mut cluster = Cluster::default();
    for shape in 1..=100 {
        for zone in ["zone-1", "zone-2", "zone-3", "zone-4"] {
            let has = size(1000 * shape, shape * 2048 * MIB, 10 * shape);
            cluster.groups.push(group(&format!("cpu-{shape:03}-{zone}"), has, Some(zone)));
        }
    }
    let mut dice = Dice(42);
    for n in 0..10_000 {
        let labels = ["a", "b", "c", "d", "e", "f", "g"];
        let (own, other) = (("my-label", dice.pick(&labels)), ("my-label", dice.pick(&labels)));
        let near = ("my-affinity", dice.pick(&labels));
        let cpu = dice.pick(&[100, 250, 500, 1000, 1500]);
        let memory = dice.pick(&[100, 256, 512, 1024, 2048, 4096]) * MIB;
        waits(
            &mut cluster,
            match n % 5 {
                0 => spec(cpu, memory, Some(own)),
                1 => {
                    PodSpec { spread: [spread(ZONE, other)].into(), ..spec(cpu, memory, Some(own)) }
                }
                2 => PodSpec {
                    spread: [spread(HOSTNAME_LABEL, other)].into(),
                    ..spec(cpu, memory, Some(own))
                },
                3 => {
                    PodSpec { affinity: [term(ZONE, near)].into(), ..spec(cpu, memory, Some(near)) }
                }
                _ => {
                    let label = ("app", "nginx");
                    let anti_affinity = [term(HOSTNAME_LABEL, label)].into();
                    PodSpec { anti_affinity, ..spec(cpu, memory, Some(label)) }
                }
            },
        );
    }
    cluster
}

/// As CA's own benchmark: every node is used to 40 %, and all pods can move.
fn idle() -> Cluster {
    let mut cluster = Cluster::default();
    cluster.groups.push(group("pool", size(10_000, 10_000, 110), None));
    for n in 0..2000 {
        let name = format!("node-{n:04}");
        let one = node(&name, &cluster.groups[0]);
        cluster.nodes.push(one);
        (0..40).for_each(|_| runs(&mut cluster, spec(100, 100, Some(("app", "web"))), &name));
    }
    let (kind, name) = ("ReplicaSet", "web");
    let owner = Arc::new(Owner {
        api_version: "apps/v1".into(),
        kind: kind.into(),
        name: name.into(),
        uid: "web".into(),
    });
    cluster.pods.iter_mut().for_each(|pod| pod.owner = Some(Arc::clone(&owner)));
    let namespace = "default".into();
    cluster.workloads.push(Workload {
        kind: kind.into(),
        namespace,
        name: name.into(),
        replicas: 80_000,
    });
    cluster
}

fn many_kinds() -> Cluster {
    let (mut cluster, mut dice) = (Cluster::default(), Dice(7));
    for n in 0..20 {
        let cores = [4, 8, 16, 32, 64][n % 5];
        let memory = [2, 4, 8, 4][n % 4];
        let has = size(cores * 1000, cores * memory * 1024 * MIB, 110);
        cluster.groups.push(group(&format!("pool-{n:02}"), has, None));
    }
    let kinds: Vec<(i64, i64)> = (0..1000)
        .map(|_| (50 + 10 * dice.below(200) as i64, (64 + 8 * dice.below(500) as i64) * MIB))
        .collect();
    for n in 0..50_000 {
        let (cpu, memory) = kinds[n % 1000];
        let app = format!("app-{}", n % 1000);
        waits(&mut cluster, spec(cpu, memory, Some(("app", &app))));
    }
    cluster
}

/// A cluster with 30 pods on every node, of services of which a third keep apart by host and a third spread over zones;
/// the nodes are nearly full, and every service wants more.
fn running(nodes: usize, pending: usize) -> Cluster {
    let (mut cluster, mut dice) = (Cluster::default(), Dice(11));
    for n in 0..12 {
        let zone = ["zone-1", "zone-2", "zone-3"][n % 3];
        let has = size(16_000, 64 << 30, 110);
        cluster.groups.push(group(&format!("pool-{n:02}"), has, Some(zone)));
    }
    let services = nodes / 5;
    for n in 0..nodes {
        let name = format!("node-{n:05}");
        let one = node(&name, &cluster.groups[n % 12]);
        cluster.nodes.push(one);
        // Distinct services on a node, so that those which keep apart do.
        let first = dice.below(services);
        (0..30).for_each(|at| runs(&mut cluster, service((first + at) % services), &name));
    }
    (0..pending).for_each(|_| waits(&mut cluster, service(dice.below(services))));
    cluster
}

/// The pod of one service: half a core on average, so that 30 of them leave a node of 16 cores next to nothing.
fn service(number: usize) -> PodSpec {
    let app = format!("service-{number}");
    let label = ("app", app.as_str());
    let cpu = 330 + 100 * (number % 5) as i64;
    let plain = spec(cpu, 1536 * MIB, Some(label));
    match number % 3 {
        0 => PodSpec { anti_affinity: [term(HOSTNAME_LABEL, label)].into(), ..plain },
        1 => PodSpec { spread: [spread(ZONE, label)].into(), ..plain },
        _ => plain,
    }
}
