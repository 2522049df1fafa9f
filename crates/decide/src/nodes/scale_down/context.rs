//! The data that scale-down reads repeatedly: groups and their sizes, budgets, drain rules.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use jiff::Timestamp;

use super::ScaleDownInput;
use super::simulate::UnneededNode;
use crate::nodes::budgets::{BudgetId, Budgets};
use crate::nodes::drain::{DrainOutcome, Rules};
use crate::nodes::snapshot::ClassId;
use crate::nodes::{Group, Node, NodeId, Pod, PodId, Readiness, Snapshot, readiness, timers};

/// The state of the cluster for scale-down. It does not change during planning.
#[derive(Clone)]
pub(super) struct ScaleDownContext<'a> {
    pub(super) input: ScaleDownInput<'a>,
    pub(super) rules: Rules<'a>,
    pub(super) budgets: Budgets<'a>,
    pods: &'a [Pod],
    /// By node id; `None` where the snapshot does not have the node.
    nodes: Vec<&'a Node>,
    groups: Vec<Option<&'a Group>>,
    is_being_removed: Vec<bool>,
    /// How many nodes are being removed, and how many of them are still being drained.
    pub(super) going: usize,
    pub(super) draining: usize,
    /// Whether a group that is removed as a whole may exceed the maximum of parallel removals; one may.
    pub(super) may_exceed: bool,
    sizes: BTreeMap<&'a str, Size>,
    /// The budgets of each class of pods, computed on first use.
    covering: Vec<OnceCell<Box<[BudgetId]>>>,
}

/// The size of a group.
#[derive(Clone, Copy, Default)]
pub(super) struct Size {
    /// The desired number of nodes.
    pub(super) target: u32,
    /// How many of them are being removed.
    pub(super) going: u32,
    /// The current number of nodes.
    pub(super) registered: u32,
}

impl<'a> ScaleDownContext<'a> {
    pub(super) fn new(snapshot: &Snapshot<'a>, input: ScaleDownInput<'a>) -> Self {
        let cluster = snapshot.cluster;
        let by_name: BTreeMap<&str, &Group> =
            cluster.groups.iter().map(|group| (&*group.name, group)).collect();
        let mut nodes: Vec<&Node> = cluster.nodes.iter().collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        let groups: Vec<_> = nodes
            .iter()
            .map(|node| node.group.as_ref().and_then(|name| by_name.get(&**name).copied()))
            .collect();
        let is_removed = |node: &&Node| timers::is_being_removed(node, input.status, input.now);
        let is_being_removed: Vec<bool> = nodes.iter().map(is_removed).collect();
        let budgets = Budgets::new(&cluster.budgets);
        let mut context = Self {
            input,
            rules: Rules::new(&input.settings.scale_down, &cluster.workloads, input.now),
            budgets,
            going: 0,
            draining: 0,
            may_exceed: true,
            pods: &cluster.pods,
            sizes: sizes(&cluster.groups, &groups, &is_being_removed),
            nodes,
            groups,
            is_being_removed,
            covering: vec![OnceCell::new(); snapshot.classes.len()],
        };
        for node in context.nodes().filter(|node| context.is_being_removed[*node]) {
            context.going += 1;
            context.draining += usize::from(context.has_movable_pods(snapshot, node));
        }
        context
    }

    /// Returns the state after `gone` are removed and their pods are moved.
    pub(super) fn after(&self, snapshot: &Snapshot<'_>, gone: &[UnneededNode]) -> Self {
        let mut after = self.clone();
        for UnneededNode { node, pods, .. } in gone {
            after.is_being_removed[*node] = true;
            after.going += 1;
            after.draining += usize::from(!pods.is_empty());
            if let Some(group) = self.groups[*node] {
                after.may_exceed &= !group.all_or_nothing;
                let size = after.sizes.entry(&*group.name).or_default();
                size.target = size.target.saturating_sub(1);
                size.registered = size.registered.saturating_sub(1);
            }
            for pod in pods {
                after.budgets.spend(self.covering(*pod, snapshot.classes.of_pod(*pod)));
            }
        }
        after
    }

    /// Returns whether a group that keeps some nodes is at its minimum once `gone` are removed.
    pub(super) fn is_smallest_after(&self, gone: &[UnneededNode]) -> bool {
        let mut counts: BTreeMap<&str, (&Group, u32)> = BTreeMap::new();
        for group in gone.iter().filter_map(|found| self.groups[found.node]) {
            counts.entry(&*group.name).or_insert((group, 0)).1 += 1;
        }
        counts.into_values().any(|(group, gone)| {
            let Size { target, registered, .. } = self.size_of(group);
            registered > gone && target.saturating_sub(gone) <= group.min
        })
    }

    fn has_movable_pods(&self, snapshot: &Snapshot<'_>, node: NodeId) -> bool {
        let drain_outcome = |pod: &PodId| self.drain_outcome(*pod, snapshot.classes.of_pod(*pod));
        snapshot.pods_on(node).iter().map(drain_outcome).any(|drain_outcome| match drain_outcome {
            DrainOutcome::Moved
            | DrainOutcome::MovedWithinBudget
            | DrainOutcome::Replaced
            | DrainOutcome::Blocks(_) => true,
            DrainOutcome::Ignored | DrainOutcome::Daemon | DrainOutcome::AwaitedToEnd => false,
        })
    }

    /// Returns the existing nodes of the cluster, without upcoming ones.
    pub(super) fn nodes(&self) -> std::ops::Range<NodeId> {
        0..self.nodes.len()
    }

    pub(super) fn node(&self, node: NodeId) -> &'a Node {
        self.nodes[node]
    }

    pub(super) fn name(&self, node: NodeId) -> Box<str> {
        self.nodes[node].name.clone()
    }

    pub(super) fn group_of(&self, node: NodeId) -> Option<&'a Group> {
        self.groups[node]
    }

    pub(super) fn size_of(&self, group: &Group) -> Size {
        self.sizes.get(&*group.name).copied().unwrap_or_default()
    }

    pub(super) fn is_being_removed(&self, node: NodeId) -> bool {
        self.is_being_removed[node]
    }

    pub(super) fn is_ready(&self, node: NodeId) -> bool {
        match self.readiness(node) {
            Readiness::Ready => true,
            // An aborted removal does not affect the node's readiness.
            Readiness::Leaving => self.nodes[node].is_ready,
            Readiness::Starting | Readiness::Unready => false,
        }
    }

    pub(super) fn is_starting(&self, node: NodeId) -> bool {
        self.readiness(node) == Readiness::Starting
    }

    fn readiness(&self, node: NodeId) -> Readiness {
        readiness(self.nodes[node], self.input.settings, self.input.now)
    }

    /// Returns since when a node has been unneeded.
    pub(super) fn since(&self, node: NodeId) -> Timestamp {
        let known = self.input.status.unneeded_since.get(&self.nodes[node].name);
        known.copied().unwrap_or(self.input.now)
    }

    pub(super) fn pod(&self, pod: PodId) -> &'a Pod {
        &self.pods[pod]
    }

    /// Returns the budgets that cover a pod of a class. A game server is replaced and not evicted, so that none covers it.
    pub(super) fn covering(&self, pod: PodId, class: ClassId) -> &[BudgetId] {
        if self.pods[pod].game_server.is_some() {
            return &[];
        }
        self.covering[class].get_or_init(|| self.budgets.covering(&self.pods[pod].spec))
    }

    pub(super) fn drain_outcome(&self, pod: PodId, class: ClassId) -> DrainOutcome {
        self.rules.drain_outcome(&self.pods[pod], !self.covering(pod, class).is_empty())
    }
}

fn sizes<'a>(
    groups: &'a [Group],
    group_of: &[Option<&'a Group>],
    is_being_removed: &[bool],
) -> BTreeMap<&'a str, Size> {
    let mut sizes: BTreeMap<&str, Size> =
        groups.iter().map(|group| (&*group.name, Size::default())).collect();
    for (group, is_being_removed) in group_of.iter().zip(is_being_removed) {
        if let Some(size) = group.and_then(|group| sizes.get_mut(&*group.name)) {
            size.registered += 1;
            size.going += u32::from(*is_being_removed);
        }
    }
    for group in groups {
        if let Some(size) = sizes.get_mut(&*group.name) {
            size.target = group.status.target.unwrap_or(size.registered);
        }
    }
    sizes
}
