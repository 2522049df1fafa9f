//! Generates clusters, the same ones every time.

use std::sync::Arc;

use decide::nodes::{
    Cluster, GROUP_LABEL, Group, HOSTNAME_LABEL, LabelSelector, Labels, Node, Pod, PodSpec,
    PodTerm, Resources, Scheduling, SpreadConstraint, Template,
};

pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const MIB: i64 = 1 << 20;

/// Pseudorandom numbers, the same ones every time.
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
}

pub(super) fn size(cpu: i64, memory: i64, pods: i64) -> Resources {
    Resources { cpu, memory, pods, ..Resources::default() }
}

pub(super) fn group(name: &str, has: Resources, zone: Option<&str>) -> Group {
    let labels: Labels = zone.iter().map(|zone| (ZONE, *zone)).collect();
    let (capacity, allocatable) = (has.clone(), has);
    let template = Some(Template { labels, capacity, allocatable, ..Template::default() });
    Group { name: name.into(), max: 100_000, template, ..Group::default() }
}

pub(super) fn node(name: &str, group: &Group) -> Node {
    let template = group.template.clone().unwrap_or_default();
    Node {
        name: name.into(),
        group: Some(group.name.clone()),
        labels: template.labels.with(HOSTNAME_LABEL, name).with(GROUP_LABEL, &group.name),
        is_ready: true,
        capacity: template.capacity,
        allocatable: template.allocatable,
        ..Node::default()
    }
}

pub(super) fn spec(cpu: i64, memory: i64, label: Option<(&str, &str)>) -> PodSpec {
    let labels = label.into_iter().collect();
    PodSpec {
        namespace: "default".into(),
        labels,
        requests: size(cpu, memory, 0),
        ..PodSpec::default()
    }
}

pub(super) fn term(key: &str, label: (&str, &str)) -> PodTerm {
    let selector = LabelSelector::of_labels([label]);
    let topology_key = key.into();
    PodTerm { topology_key, selector, ..PodTerm::default() }
}

pub(super) fn spread(key: &str, label: (&str, &str)) -> SpreadConstraint {
    SpreadConstraint {
        topology_key: key.into(),
        max_skew: 1,
        selector: LabelSelector::of_labels([label]),
        min_domains: 1,
        honor_affinity: true,
        honor_taints: false,
    }
}

/// Adds a pod that waits; its spec is its own object, as one read from an API server.
pub(super) fn waits(cluster: &mut Cluster, spec: PodSpec) {
    let name = format!("pod-{:06}", cluster.pods.len()).into();
    let scheduling = Scheduling::Unschedulable;
    cluster.pods.push(Pod { name, spec: Arc::new(spec), scheduling, ..Pod::default() });
}

pub(super) fn runs(cluster: &mut Cluster, spec: PodSpec, node: &str) {
    let name = format!("pod-{:06}", cluster.pods.len()).into();
    let scheduling = Scheduling::On(node.into());
    cluster.pods.push(Pod { name, spec: Arc::new(spec), scheduling, ..Pod::default() });
}
