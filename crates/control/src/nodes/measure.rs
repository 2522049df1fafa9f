//! Measures an evaluation: the gauges of Cluster Autoscaler, and ours.

use std::collections::BTreeMap;

use decide::Reason as _;
use decide::nodes::{Limits, UnremovableReason};

use super::NodeController;
use super::observe::Observation;
use super::plan::Plan;
use super::view::{ClusterView, GroupView, NodeCounts};
use crate::node_metrics::{NodeLabels, NodeSeries};

/// Gauges by the names of their metrics.
#[derive(Default)]
struct Gauges(BTreeMap<&'static str, NodeSeries<i64>>);

impl Gauges {
    fn set(&mut self, name: &'static str, value: impl TryInto<i64>) {
        self.set_of(name, Vec::new(), value);
    }

    fn set_of(&mut self, name: &'static str, labels: NodeLabels, value: impl TryInto<i64>) {
        let value = value.try_into().unwrap_or(i64::MAX);
        self.0.entry(name).or_default().insert(labels, value);
    }
}

impl NodeController {
    /// Records the gauges of an evaluation.
    pub(super) fn measure(&self, observed: &Observation, plan: &Plan, view: &ClusterView) {
        let mut gauges = Gauges::default();
        gauges.set("cluster_autoscaler_cluster_safe_to_autoscale", i64::from(plan.is_healthy));
        nodes(&mut gauges, &view.nodes);
        limits(&mut gauges, observed, view);
        removals(&mut gauges, plan);
        gauges.set("cluster_autoscaler_pending_node_deletions", self.removing.len());
        let waiting = plan.added.unschedulable.len()
            + plan.added.resizes.iter().flat_map(|r| &r.nodes).map(Vec::len).sum::<usize>();
        let kind = label("type", "unschedulable");
        gauges.set_of("cluster_autoscaler_unschedulable_pods_count", kind, waiting);
        gauges.set("plimsoll_nodes_pods_without_group", plan.added.unschedulable.len());
        for group in &view.groups {
            let memory = self.memory.groups.get(&group.name);
            let is_available = memory.is_none_or(|memory| memory.problem.is_none());
            self::group(&mut gauges, group, is_available);
        }
        self.cx.settings.node_metrics.found(gauges.0);
    }
}

fn label(name: &'static str, value: &str) -> NodeLabels {
    vec![(name, value.to_owned())]
}

fn nodes(gauges: &mut Gauges, nodes: &NodeCounts) {
    for (state, count) in [
        ("ready", nodes.ready),
        ("unready", nodes.unready),
        ("notStarted", nodes.starting),
        ("suspended", 0),
        ("longUnregistered", 0),
        ("unregistered", nodes.unregistered),
    ] {
        gauges.set_of("cluster_autoscaler_nodes_count", label("state", state), count);
    }
}

fn limits(gauges: &mut Gauges, observed: &Observation, view: &ClusterView) {
    let nodes = &observed.cluster.nodes;
    let cores: i64 = nodes.iter().map(|node| node.capacity.cpu.saturating_add(999) / 1000).sum();
    let memory: i64 = nodes.iter().map(|node| node.capacity.memory).sum();
    gauges.set("cluster_autoscaler_cluster_cpu_current_cores", cores);
    gauges.set("cluster_autoscaler_cluster_memory_current_bytes", memory);
    let Limits { nodes, cores, memory, .. } = &observed.settings.limits;
    for (name, range) in [
        ("cluster_autoscaler_cpu_limits_cores", cores),
        ("cluster_autoscaler_memory_limits_bytes", memory),
    ] {
        gauges.set_of(name, label("direction", "minimum"), range.min);
        gauges.set_of(name, label("direction", "maximum"), range.max);
    }
    let of_groups: u64 = view.groups.iter().map(|group| u64::from(group.max)).sum();
    let most = if *nodes > 0 { of_groups.min(u64::from(*nodes)) } else { of_groups };
    gauges.set("cluster_autoscaler_max_nodes_count", most);
    let kind = label("node_group_type", "autoscaled");
    gauges.set_of("cluster_autoscaler_node_groups_count", kind, view.groups.len());
}

fn removals(gauges: &mut Gauges, plan: &Plan) {
    gauges.set("cluster_autoscaler_unneeded_nodes_count", plan.removed.unneeded.len());
    let mut kept: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, keep) in &plan.removed.unremovable {
        *kept.entry(keep.code()).or_default() += 1;
    }
    gauges.0.entry("cluster_autoscaler_unremovable_nodes_count").or_default();
    for (reason, count) in kept {
        let name = "cluster_autoscaler_unremovable_nodes_count";
        gauges.set_of(name, label("reason", reason), count);
    }
    let is_paused = plan.removed.unremovable.iter().any(|(_, keep)| {
        use UnremovableReason::{RecentlyAdded, RecentlyDeleted, RecentlyFailed};
        matches!(keep, RecentlyAdded(_) | RecentlyDeleted(_) | RecentlyFailed(_))
    });
    gauges.set("cluster_autoscaler_scale_down_in_cooldown", i64::from(is_paused));
}

fn group(gauges: &mut Gauges, group: &GroupView, is_available: bool) {
    let of_group = || label("node_group", &group.name);
    for (name, value) in [
        ("cluster_autoscaler_node_group_min_count", i64::from(group.min)),
        ("cluster_autoscaler_node_group_max_count", i64::from(group.max)),
        ("cluster_autoscaler_node_group_target_count", i64::from(group.target)),
        ("cluster_autoscaler_node_group_healthiness", i64::from(group.is_healthy)),
        ("plimsoll_nodes_group_provider_available", i64::from(is_available)),
    ] {
        gauges.set_of(name, of_group(), value);
    }
    let mut labels = of_group();
    labels.push((
        "reason",
        if group.backoff.is_some() { "cloudProviderError" } else { "" }.to_owned(),
    ));
    let is_backed_off = i64::from(group.backoff.is_some());
    gauges.set_of("cluster_autoscaler_node_group_backoff_status", labels, is_backed_off);
}
