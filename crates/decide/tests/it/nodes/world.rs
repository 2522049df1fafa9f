//! Small random clusters with many features.

use std::sync::Arc;

use jiff::Timestamp;
use plimsoll_decide::nodes::{
    Cluster, Effect, GROUP_LABEL, Group, HOSTNAME_LABEL, HostPort, LabelSelector, Labels, Node,
    NodeTerm, Operator, Pod, PodSpec, PodTerm, Requirement, Resources, Scheduling,
    SpreadConstraint, Taint, Template, Toleration,
};

pub(super) const ZONE: &str = "topology.kubernetes.io/zone";

pub(super) fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("it is a moment")
}

/// A pseudo-random number generator.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    pub(super) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Returns true once in so many times, on average.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(super) fn shuffle<T>(&mut self, all: &mut [T]) {
        for at in (1..all.len()).rev() {
            all.swap(at, self.below(at + 1));
        }
    }
}

/// Generates a cluster with nodes, pods on them, pending pods, and groups.
pub(super) fn cluster(dice: &mut Dice) -> Cluster {
    let mut cluster = Cluster::default();
    for n in 0..1 + dice.below(4) {
        cluster.groups.push(group(dice, &format!("g{n}")));
    }
    for n in 0..dice.below(6) {
        let at = dice.below(cluster.groups.len());
        let mut node = node(&format!("n{n}"), &cluster.groups[at]);
        if dice.once_in(5) {
            node.group = None;
        }
        if dice.once_in(8) {
            node.unschedulable = true;
        }
        if dice.once_in(8) {
            // Unmanaged, because a group's nodes are like its existing ones.
            (node.taints, node.group) = ([taint("gone")].into(), None);
        }
        cluster.nodes.push(node);
    }
    let kinds: Vec<PodSpec> = (0..1 + dice.below(4)).map(|n| kind(dice, n)).collect();
    for n in 0..dice.below(9) {
        if !cluster.nodes.is_empty() {
            let (spec, node) = (dice.below(kinds.len()), dice.below(cluster.nodes.len()));
            let on = Scheduling::On(cluster.nodes[node].name.clone());
            cluster.pods.push(pod(&format!("running-{n}"), &kinds[spec], on));
        }
    }
    for n in 0..1 + dice.below(14) {
        let spec = dice.below(kinds.len());
        let waits = Scheduling::Unschedulable;
        cluster.pods.push(pod(&format!("waiting-{n:02}"), &kinds[spec], waits));
    }
    cluster
}

fn pod(name: &str, spec: &PodSpec, scheduling: Scheduling) -> Pod {
    Pod { name: name.into(), spec: Arc::new(spec.clone()), scheduling, ..Pod::default() }
}

fn group(dice: &mut Dice, name: &str) -> Group {
    let labels: Labels =
        [(ZONE, dice.pick(&["a", "b", "c"])), ("disk", dice.pick(&["ssd", "hdd"]))]
            .into_iter()
            .collect();
    let size = Resources {
        cpu: dice.pick(&[2000, 4000, 8000]),
        memory: dice.pick(&[4, 8, 16]) << 30,
        pods: dice.pick(&[3, 10]),
        ..Resources::default()
    };
    let taints = if dice.once_in(5) { [taint("special")].into() } else { Box::default() };
    let template = Template { labels, taints, capacity: size.clone(), allocatable: size };
    let max = dice.pick(&[2, 6, 30]);
    Group { name: name.into(), max, template: Some(template), ..Group::default() }
}

/// Returns a node like those of its group.
pub(super) fn node(name: &str, group: &Group) -> Node {
    let template = group.template.clone().expect("groups here have one");
    Node {
        name: name.into(),
        group: Some(group.name.clone()),
        labels: template.labels.with(HOSTNAME_LABEL, name).with(GROUP_LABEL, &group.name),
        taints: template.taints,
        is_ready: true,
        capacity: template.capacity,
        allocatable: template.allocatable,
        ..Node::default()
    }
}

fn taint(key: &str) -> Taint {
    Taint { key: key.into(), value: "".into(), effect: Effect::NoSchedule }
}

fn kind(dice: &mut Dice, number: usize) -> PodSpec {
    let app = format!("app-{number}");
    let own = app.as_str();
    let other = dice.pick(&["app-0", "app-1"]);
    let mut spec = PodSpec {
        namespace: dice.pick(&["default", "default", "other"]).into(),
        labels: [("app", own)].into_iter().collect(),
        requests: Resources {
            cpu: dice.pick(&[0, 100, 500, 1000, 1500]),
            memory: dice.pick(&[0, 256, 1024, 3000]) << 20,
            ..Resources::default()
        },
        ..PodSpec::default()
    };
    if dice.once_in(5) {
        spec.node_selector = [("disk", dice.pick(&["ssd", "hdd"]))].into_iter().collect();
    }
    if dice.once_in(8) {
        let operator = dice.pick(&[Operator::In, Operator::NotIn]);
        let values = [dice.pick(&["a", "b"]).into()].into();
        let labels = [Requirement { key: ZONE.into(), operator, values }].into();
        spec.node_affinity = Some([NodeTerm { labels, name: Box::default() }].into());
    }
    if dice.once_in(4) {
        let key = dice.pick(&["special", "gone", ""]).into();
        spec.tolerations =
            [Toleration { key, exists: true, value: "".into(), effect: None }].into();
    }
    let key = dice.pick(&[HOSTNAME_LABEL, ZONE]);
    let to = if dice.once_in(3) { other } else { own };
    match dice.below(6) {
        0 => spec.anti_affinity = [term(key, to)].into(),
        1 => spec.affinity = [term(key, to)].into(),
        2 | 3 => spec.spread = [spread(dice, key, to)].into(),
        _ => {}
    }
    if dice.once_in(8) {
        let ip = dice.pick(&["", "10.0.0.1"]).into();
        spec.host_ports = [HostPort { protocol: "TCP".into(), ip, port: 80 }].into();
    }
    spec
}

fn term(key: &str, app: &str) -> PodTerm {
    let selector = LabelSelector::of_labels([("app", app)]);
    PodTerm { topology_key: key.into(), selector, ..PodTerm::default() }
}

fn spread(dice: &mut Dice, key: &str, app: &str) -> SpreadConstraint {
    SpreadConstraint {
        topology_key: key.into(),
        max_skew: dice.pick(&[1, 2]),
        selector: LabelSelector::of_labels([("app", app)]),
        min_domains: dice.pick(&[1, 1, 1, 2]),
        honor_affinity: !dice.once_in(4),
        honor_taints: dice.once_in(4),
    }
}
