//! What is looked at again and again while nodes are judged: groups and their sizes, budgets, what pods mean.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Given;
use super::simulate::Found;
use crate::nodes::budgets::{BudgetId, Budgets};
use crate::nodes::drain::{Fate, Rules};
use crate::nodes::snapshot::ClassId;
use crate::nodes::{Group, Node, NodeId, Pod, PodId, Readiness, Snapshot, readiness, timers};

/// The cluster as scale-down sees it. It does not change while a plan is made.
#[derive(Clone)]
pub(super) struct Look<'a> {
    pub(super) given: Given<'a>,
    pub(super) rules: Rules<'a>,
    pub(super) budgets: Budgets<'a>,
    pods: &'a [Pod],
    /// By number; `None` where the snapshot does not have the node.
    nodes: Vec<&'a Node>,
    groups: Vec<Option<&'a Group>>,
    is_going: Vec<bool>,
    /// How many nodes are being removed, and off how many of them pods still have to be moved.
    pub(super) going: usize,
    pub(super) draining: usize,
    /// Whether a group that goes as a whole may exceed how many go at once; one may.
    pub(super) may_exceed: bool,
    sizes: BTreeMap<&'a str, Size>,
    /// The budgets over each class of pods, once they were asked for.
    covering: Vec<OnceCell<Box<[BudgetId]>>>,
}

/// How large a group is.
#[derive(Clone, Copy, Default)]
pub(super) struct Size {
    /// How many nodes are asked for.
    pub(super) target: u32,
    /// How many of them are being removed.
    pub(super) going: u32,
    /// How many there are.
    pub(super) registered: u32,
}

impl<'a> Look<'a> {
    pub(super) fn new(snapshot: &Snapshot<'a>, given: Given<'a>) -> Self {
        let cluster = snapshot.cluster;
        let by_name: BTreeMap<&str, &Group> =
            cluster.groups.iter().map(|group| (&*group.name, group)).collect();
        let mut nodes: Vec<&Node> = cluster.nodes.iter().collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        let groups: Vec<_> = nodes
            .iter()
            .map(|node| node.group.as_ref().and_then(|name| by_name.get(&**name).copied()))
            .collect();
        let is_going: Vec<bool> =
            nodes.iter().map(|node| timers::is_going(node, given.now)).collect();
        let budgets = Budgets::new(&cluster.budgets);
        let mut look = Self {
            given,
            rules: Rules::new(&given.settings.scale_down, &cluster.workloads, given.now),
            budgets,
            going: 0,
            draining: 0,
            may_exceed: true,
            pods: &cluster.pods,
            sizes: sizes(&cluster.groups, &groups, &is_going),
            nodes,
            groups,
            is_going,
            covering: vec![OnceCell::new(); snapshot.classes.len()],
        };
        for node in look.nodes().filter(|node| look.is_going[*node]) {
            look.going += 1;
            look.draining += usize::from(look.has_movable_pods(snapshot, node));
        }
        look
    }

    /// Gives the cluster as it is seen in the same turn after `gone` are removed and their pods are moved.
    pub(super) fn after(&self, snapshot: &Snapshot<'_>, gone: &[Found]) -> Self {
        let mut after = self.clone();
        for Found { node, pods, .. } in gone {
            after.is_going[*node] = true;
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

    /// Tells whether a group that keeps some nodes has reached its smallest size once `gone` are removed.
    pub(super) fn is_smallest_after(&self, gone: &[Found]) -> bool {
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
        let fate = |pod: &PodId| self.fate(*pod, snapshot.classes.of_pod(*pod));
        snapshot.pods_on(node).iter().map(fate).any(|fate| match fate {
            Fate::Moved | Fate::MovedWithinBudget | Fate::Blocks(_) => true,
            Fate::Ignored | Fate::Daemon | Fate::AwaitedToEnd => false,
        })
    }

    /// Lists the nodes of the cluster; none that is only expected.
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

    pub(super) fn is_going(&self, node: NodeId) -> bool {
        self.is_going[node]
    }

    pub(super) fn is_ready(&self, node: NodeId) -> bool {
        match self.readiness(node) {
            Readiness::Ready => true,
            // A removal that came to nothing says nothing about the node.
            Readiness::Leaving => self.nodes[node].is_ready,
            Readiness::Starting | Readiness::Unready => false,
        }
    }

    pub(super) fn is_starting(&self, node: NodeId) -> bool {
        self.readiness(node) == Readiness::Starting
    }

    fn readiness(&self, node: NodeId) -> Readiness {
        readiness(self.nodes[node], self.given.settings, self.given.now)
    }

    /// Says since when a node has been unneeded.
    pub(super) fn since(&self, node: NodeId) -> Timestamp {
        let known = self.given.status.unneeded_since.get(&self.nodes[node].name);
        known.copied().unwrap_or(self.given.now)
    }

    pub(super) fn pod(&self, pod: PodId) -> &'a Pod {
        &self.pods[pod]
    }

    /// Lists the budgets over a pod of a class.
    pub(super) fn covering(&self, pod: PodId, class: ClassId) -> &[BudgetId] {
        self.covering[class].get_or_init(|| self.budgets.covering(&self.pods[pod].spec))
    }

    pub(super) fn fate(&self, pod: PodId, class: ClassId) -> Fate {
        self.rules.fate(&self.pods[pod], !self.covering(pod, class).is_empty())
    }
}

fn sizes<'a>(
    groups: &'a [Group],
    group_of: &[Option<&'a Group>],
    is_going: &[bool],
) -> BTreeMap<&'a str, Size> {
    let mut sizes: BTreeMap<&str, Size> =
        groups.iter().map(|group| (&*group.name, Size::default())).collect();
    for (group, is_going) in group_of.iter().zip(is_going) {
        if let Some(size) = group.and_then(|group| sizes.get_mut(&*group.name)) {
            size.registered += 1;
            size.going += u32::from(*is_going);
        }
    }
    for group in groups {
        if let Some(size) = sizes.get_mut(&*group.name) {
            size.target = group.status.target.unwrap_or(size.registered);
        }
    }
    sizes
}
