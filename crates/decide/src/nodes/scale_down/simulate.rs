//! Finds unneeded nodes by emptying one after another in a cumulative simulation.
//!
//! Passes are repeated until one finds nothing more, so that an evaluation right after the plan was carried out finds nothing
//! more either.

use std::cmp::Reverse;

use super::context::ScaleDownContext;
use super::eligible;
use super::unremovable::UnremovableReason;
use crate::nodes::budgets::{BudgetId, Budgets};
use crate::nodes::drain::{Blocking, DrainOutcome};
use crate::nodes::{NodeId, PodId, Snapshot};

/// An unneeded node.
#[derive(Clone)]
pub(super) struct UnneededNode {
    pub(super) node: NodeId,
    pub(super) utilization: f64,
    /// The pods that have to be moved.
    pub(super) pods: Vec<PodId>,
    /// The node of each of them once all unneeded nodes are gone.
    pub(super) places: Vec<NodeId>,
    /// A pod that has to complete first.
    pub(super) waits_for: Option<PodId>,
    /// Some of its pods are evicted despite an exhausted budget.
    pub(super) is_risky: bool,
}

/// The pods of one node by what happens to them.
struct Load {
    moved: Vec<PodId>,
    waits_for: Option<PodId>,
}

/// The state of the simulation.
struct Simulation<'l, 'a> {
    context: &'l ScaleDownContext<'a>,
    budgets: Budgets<'a>,
    /// The drain outcome of each pod, computed on first use.
    fates: Vec<Option<DrainOutcome>>,
    /// Pods that were moved already, and count for no budget again.
    is_moved: Vec<bool>,
    found: Vec<UnneededNode>,
    kept: Vec<Option<UnremovableReason>>,
    moves_twice: bool,
}

/// The result of the search.
pub(super) struct SearchResult {
    /// The unneeded nodes, in the order in which they were emptied.
    pub(super) found: Vec<UnneededNode>,
    /// The reason why each other node is kept.
    pub(super) kept: Vec<Option<UnremovableReason>>,
    /// Whether a pod was moved to a node that turned out to be unneeded too, and was moved again.
    pub(super) moves_twice: bool,
}

/// A candidate, with the facts that decide when it is tried: empty ones first, then previously unneeded ones.
struct Candidate {
    node: NodeId,
    utilization: f64,
    has_pods: bool,
    has_waiting_pods: bool,
    is_new: bool,
}

/// Finds all unneeded nodes, and the reason why each other node is kept.
pub(super) fn run(context: &ScaleDownContext<'_>, snapshot: &mut Snapshot<'_>) -> SearchResult {
    let mut all = Simulation::new(context, snapshot);
    all.keep_what_is_not_there(snapshot);
    while all.pass(snapshot) {}
    for found in &mut all.found {
        all.kept[found.node] = None;
        found.places = found.pods.iter().filter_map(|pod| snapshot.node_of(*pod)).collect();
    }
    SearchResult { found: all.found, kept: all.kept, moves_twice: all.moves_twice }
}

/// Empties one node, and returns the pods that were moved.
pub(super) fn drain(
    context: &ScaleDownContext<'_>,
    snapshot: &mut Snapshot<'_>,
    node: NodeId,
) -> Result<Vec<PodId>, UnremovableReason> {
    let mut all = Simulation::new(context, snapshot);
    let candidate = Candidate {
        node,
        utilization: 0.0,
        has_pods: true,
        has_waiting_pods: false,
        is_new: false,
    };
    let found = all.empty(snapshot, &candidate)?;
    match found.waits_for {
        Some(pod) => {
            let name = context.pod(pod).full_name();
            Err(UnremovableReason::BlockedByOnCompletionPod(name.into()))
        }
        None => Ok(found.pods),
    }
}

impl<'l, 'a> Simulation<'l, 'a> {
    fn new(context: &'l ScaleDownContext<'a>, snapshot: &Snapshot<'_>) -> Self {
        Self {
            context,
            budgets: context.budgets.clone(),
            fates: vec![None; snapshot.cluster.pods.len()],
            is_moved: vec![false; snapshot.cluster.pods.len()],
            found: Vec::new(),
            kept: vec![None; context.nodes().len()],
            moves_twice: false,
        }
    }
}

impl Simulation<'_, '_> {
    /// Keeps nodes that are not in the snapshot, because they have not started.
    fn keep_what_is_not_there(&mut self, snapshot: &Snapshot<'_>) {
        let mut is_there = vec![false; self.kept.len()];
        let there = snapshot.nodes().take_while(|node| *node < self.kept.len());
        there.for_each(|node| is_there[node] = true);
        for node in (0..self.kept.len()).filter(|node| !is_there[*node]) {
            let keep = eligible::check(self.context, snapshot, node).err();
            self.kept[node] =
                Some(keep.unwrap_or(UnremovableReason::RecentlyAdded(self.context.input.now)));
        }
    }

    /// Tries every candidate once; returns whether an unneeded node was found.
    fn pass(&mut self, snapshot: &mut Snapshot<'_>) -> bool {
        let candidates = self.candidates(snapshot);
        snapshot.prefer(&destinations(self.context, snapshot, &candidates));
        let before = self.found.len();
        for candidate in candidates {
            match self.empty(snapshot, &candidate) {
                Ok(found) => self.found.push(found),
                // The first reason is the one that holds for the cluster as it is.
                Err(keep) => drop(self.kept[candidate.node].get_or_insert(keep)),
            }
        }
        self.found.len() > before
    }

    fn candidates(&mut self, snapshot: &Snapshot<'_>) -> Vec<Candidate> {
        let mut all = Vec::new();
        let there: Vec<NodeId> =
            snapshot.nodes().take_while(|node| *node < self.context.nodes().end).collect();
        for node in there {
            match eligible::check(self.context, snapshot, node) {
                Ok(utilization) => all.push(self.candidate(snapshot, node, utilization)),
                Err(keep) => drop(self.kept[node].get_or_insert(keep)),
            }
        }
        all.sort_by_key(|c| (c.has_pods, c.has_waiting_pods, c.is_new, c.node));
        all
    }

    fn candidate(&mut self, snapshot: &Snapshot<'_>, node: NodeId, utilization: f64) -> Candidate {
        let mut has_pods = false;
        let mut has_waiting_pods = false;
        for pod in snapshot.pods_on(node) {
            match self.drain_outcome(snapshot, *pod) {
                DrainOutcome::Ignored | DrainOutcome::Daemon => {}
                DrainOutcome::AwaitedToEnd => has_waiting_pods = true,
                DrainOutcome::Moved
                | DrainOutcome::MovedWithinBudget
                | DrainOutcome::Replaced
                | DrainOutcome::Blocks(_) => has_pods = true,
            }
        }
        let is_new =
            !self.context.input.status.unneeded_since.contains_key(&self.context.node(node).name);
        Candidate { node, utilization, has_pods, has_waiting_pods, is_new }
    }

    fn drain_outcome(&mut self, snapshot: &Snapshot<'_>, pod: PodId) -> DrainOutcome {
        let context = self.context;
        *self.fates[pod]
            .get_or_insert_with(|| context.drain_outcome(pod, snapshot.classes.of_pod(pod)))
    }

    /// Moves the pods of a node elsewhere and removes the node, or changes nothing.
    fn empty(
        &mut self,
        snapshot: &mut Snapshot<'_>,
        candidate: &Candidate,
    ) -> Result<UnneededNode, UnremovableReason> {
        let node = candidate.node;
        let load = self.load(snapshot, node)?;
        let is_risky = self.spend(snapshot, &load.moved)?;
        if let Err(pod) = move_all(snapshot, node, &load.moved, &[]) {
            self.give_back(snapshot, &load.moved);
            return Err(UnremovableReason::NoPlaceToMovePods(
                self.context.pod(pod).full_name().into(),
            ));
        }
        snapshot.remove_node(node);
        // Pods that were moved here by this simulation belong to their original node.
        let pods: Vec<PodId> =
            load.moved.iter().copied().filter(|pod| !self.is_moved[*pod]).collect();
        self.moves_twice |= pods.len() < load.moved.len();
        pods.iter().for_each(|pod| self.is_moved[*pod] = true);
        let (utilization, waits_for) = (candidate.utilization, load.waits_for);
        Ok(UnneededNode { node, utilization, pods, places: Vec::new(), waits_for, is_risky })
    }

    /// Classifies the pods of a node; the first pod by name that blocks the removal is returned.
    fn load(&mut self, snapshot: &Snapshot<'_>, node: NodeId) -> Result<Load, UnremovableReason> {
        let mut moved = Vec::with_capacity(snapshot.pods_on(node).len());
        let mut waits_for = None;
        let mut blocks: Option<(String, Blocking)> = None;
        for pod in snapshot.pods_on(node) {
            match self.drain_outcome(snapshot, *pod) {
                DrainOutcome::Ignored | DrainOutcome::Daemon => {}
                DrainOutcome::AwaitedToEnd => waits_for = waits_for.or(Some(*pod)),
                DrainOutcome::Moved | DrainOutcome::MovedWithinBudget | DrainOutcome::Replaced => {
                    moved.push(*pod);
                }
                DrainOutcome::Blocks(why) => {
                    let name = self.context.pod(*pod).full_name();
                    if blocks.as_ref().is_none_or(|(first, _)| name < *first) {
                        blocks = Some((name, why));
                    }
                }
            }
        }
        if let Some((name, why)) = blocks {
            return Err(UnremovableReason::BlockedByPod(name.into(), why));
        }
        sort(self.context, snapshot, &mut moved);
        Ok(Load { moved, waits_for })
    }

    /// Takes the pods off their budgets, all or none. Returns whether some are evicted despite an exhausted budget.
    fn spend(
        &mut self,
        snapshot: &Snapshot<'_>,
        pods: &[PodId],
    ) -> Result<bool, UnremovableReason> {
        let mut is_risky = false;
        for (at, pod) in pods.iter().enumerate() {
            let context = self.context;
            let over = context.covering(*pod, snapshot.classes.of_pod(*pod));
            if over.is_empty() || self.is_moved[*pod] {
                continue;
            }
            if !self.budgets.allow(over) {
                if self.drain_outcome(snapshot, *pod) == DrainOutcome::MovedWithinBudget {
                    self.give_back(snapshot, &pods[..at]);
                    let name = self.first_over(snapshot, pods, over);
                    return Err(UnremovableReason::BlockedByPod(name, Blocking::NotEnoughPdb));
                }
                is_risky = true;
            }
            self.budgets.spend(over);
        }
        Ok(is_risky)
    }

    fn give_back(&mut self, snapshot: &Snapshot<'_>, pods: &[PodId]) {
        for pod in pods.iter().filter(|pod| !self.is_moved[**pod]) {
            let class = snapshot.classes.of_pod(*pod);
            self.budgets.return_to(self.context.covering(*pod, class));
        }
    }

    /// Returns the first pod under the same budgets.
    fn first_over(&self, snapshot: &Snapshot<'_>, pods: &[PodId], over: &[BudgetId]) -> Box<str> {
        let same = pods.iter().filter(|pod| {
            let class = snapshot.classes.of_pod(**pod);
            !self.is_moved[**pod] && self.context.covering(**pod, class) == over
        });
        same.map(|pod| self.context.pod(*pod).full_name()).min().unwrap_or_default().into()
    }
}

/// Sorts pods in the order in which they are moved: by priority, then large ones first, then by name.
fn sort(context: &ScaleDownContext<'_>, snapshot: &Snapshot<'_>, pods: &mut [PodId]) {
    let kind = |pod: PodId| (snapshot.classes.of_pod(pod), context.pod(pod).priority);
    // Pods of one class are interchangeable, so their names need not be compared.
    if pods.windows(2).all(|two| kind(two[0]) == kind(two[1])) {
        return;
    }
    let key = |pod: &PodId| {
        let observed = context.pod(*pod);
        let size = (observed.spec.requests.cpu, observed.spec.requests.memory);
        (Reverse((observed.priority.unwrap_or(0), size)), &observed.spec.namespace, &observed.name)
    };
    pods.sort_by(|a, b| key(a).cmp(&key(b)));
}

/// Orders the nodes that pods may move to: those that stay anyway first, then candidates, the last one first, since it is tried
/// last. No pod is moved to a node that is being removed or has not started.
fn destinations(
    context: &ScaleDownContext<'_>,
    snapshot: &Snapshot<'_>,
    candidates: &[Candidate],
) -> Vec<NodeId> {
    let mut may_go = vec![false; context.nodes().len()];
    candidates.iter().for_each(|candidate| may_go[candidate.node] = true);
    let stays = snapshot.nodes().take_while(|node| *node < context.nodes().end);
    let stays = stays.filter(|node| !may_go[*node] && takes_pods(context, *node));
    stays.chain(candidates.iter().rev().map(|candidate| candidate.node)).collect()
}

/// Returns whether pods may be moved to a node at all.
pub(super) fn takes_pods(context: &ScaleDownContext<'_>, node: NodeId) -> bool {
    !context.is_being_removed(node) && !context.is_starting(node)
}

/// Moves pods off a node and closes it, or changes nothing and returns the pod that does not fit. Each pod moves to its named
/// node, if it has one and fits, and otherwise to the first that fits.
pub(super) fn move_all(
    snapshot: &mut Snapshot<'_>,
    node: NodeId,
    pods: &[PodId],
    places: &[NodeId],
) -> Result<(), PodId> {
    if let Some(hopeless) = hopeless(snapshot, node, pods) {
        return Err(hopeless);
    }
    let mark = snapshot.mark();
    let leaving: Vec<PodId> = snapshot.pods_on(node).to_vec();
    // From the last to the first, so that each is the last in the list when it is removed.
    leaving.iter().rev().for_each(|pod| snapshot.remove(*pod));
    snapshot.close(node);
    for (at, pod) in pods.iter().enumerate() {
        let class = snapshot.classes.of_pod(*pod);
        let named = places.get(at).copied();
        let named = named.filter(|place| snapshot.check(class, *place).is_none());
        match named.or_else(|| snapshot.first_fit(*pod, 0, |_| true)) {
            Some(place) => snapshot.place(*pod, place),
            None => {
                snapshot.undo_to(mark);
                return Err(*pod);
            }
        }
    }
    Ok(())
}

/// Returns a pod that no other node takes, without moving anything: without affinity and volumes, leaving its node does not
/// help.
fn hopeless(snapshot: &Snapshot<'_>, node: NodeId, pods: &[PodId]) -> Option<PodId> {
    let mut last = None;
    pods.iter().copied().find(|pod| {
        let class = snapshot.classes.of_pod(*pod);
        if last.replace(class) == Some(class) {
            return false;
        }
        let kind = &snapshot.classes[class];
        let is_alone = kind.terms.affinity.is_empty()
            && kind.terms.anti.is_empty()
            && kind.terms.unwanted_by.is_empty()
            && kind.terms.spread.is_empty()
            && kind.spec.volumes.is_empty();
        is_alone && snapshot.first_fit(*pod, 0, |place| place != node).is_none()
    })
}
