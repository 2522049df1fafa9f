//! Empties one node after another in a what-if that stays, and so finds the nodes that nobody needs.
//!
//! Passes are repeated until one finds nothing more, so that looking again right after the plan was carried out wants
//! nothing more either.

use std::cmp::Reverse;

use super::eligible;
use super::keep::Keep;
use super::look::Look;
use crate::nodes::budgets::{BudgetId, Budgets};
use crate::nodes::drain::{Blocking, Fate};
use crate::nodes::{NodeId, PodId, Snapshot};

/// A node that nobody needs.
#[derive(Clone)]
pub(super) struct Found {
    pub(super) node: NodeId,
    pub(super) utilization: f64,
    /// The pods that have to be moved off it.
    pub(super) pods: Vec<PodId>,
    /// Where each of them is once all unneeded nodes are gone.
    pub(super) places: Vec<NodeId>,
    /// A pod that has to end by itself first.
    pub(super) waits_for: Option<PodId>,
    /// Some of its pods move in spite of a budget that is used up.
    pub(super) is_risky: bool,
}

/// What happens to the pods of one node.
struct Load {
    moved: Vec<PodId>,
    waits_for: Option<PodId>,
}

/// The what-if so far.
struct Simulation<'l, 'a> {
    look: &'l Look<'a>,
    budgets: Budgets<'a>,
    /// What the rules said about each pod, once they were asked.
    fates: Vec<Option<Fate>>,
    /// Pods that were moved already, and count for no budget again.
    is_moved: Vec<bool>,
    found: Vec<Found>,
    kept: Vec<Option<Keep>>,
    moves_twice: bool,
}

/// What the search found.
pub(super) struct Outcome {
    /// The unneeded nodes, in the order in which they were emptied.
    pub(super) found: Vec<Found>,
    /// What keeps every other node.
    pub(super) kept: Vec<Option<Keep>>,
    /// Whether a pod was moved to a node that turned out to be unneeded too, and so moved on.
    pub(super) moves_twice: bool,
}

/// A node that may go, with what decides when it is tried: empty ones first, then those that could go before.
struct Candidate {
    node: NodeId,
    utilization: f64,
    has_pods: bool,
    has_waiting_pods: bool,
    is_new: bool,
}

/// Finds all unneeded nodes, and for each other node what keeps it.
pub(super) fn run(look: &Look<'_>, snapshot: &mut Snapshot<'_>) -> Outcome {
    let mut all = Simulation {
        look,
        budgets: look.budgets.clone(),
        fates: vec![None; snapshot.cluster.pods.len()],
        is_moved: vec![false; snapshot.cluster.pods.len()],
        found: Vec::new(),
        kept: vec![None; look.nodes().len()],
        moves_twice: false,
    };
    all.keep_what_is_not_there(snapshot);
    while all.pass(snapshot) {}
    for found in &mut all.found {
        all.kept[found.node] = None;
        found.places = found.pods.iter().filter_map(|pod| snapshot.node_of(*pod)).collect();
    }
    Outcome { found: all.found, kept: all.kept, moves_twice: all.moves_twice }
}

impl Simulation<'_, '_> {
    /// Nodes that the snapshot leaves out, since they have not started, are nobody's to remove.
    fn keep_what_is_not_there(&mut self, snapshot: &Snapshot<'_>) {
        let mut is_there = vec![false; self.kept.len()];
        let there = snapshot.nodes().take_while(|node| *node < self.kept.len());
        there.for_each(|node| is_there[node] = true);
        for node in (0..self.kept.len()).filter(|node| !is_there[*node]) {
            let keep = eligible::check(self.look, snapshot, node).err();
            self.kept[node] = Some(keep.unwrap_or(Keep::RecentlyAdded(self.look.given.now)));
        }
    }

    /// Tries every node that may go once; tells whether one was found.
    fn pass(&mut self, snapshot: &mut Snapshot<'_>) -> bool {
        let candidates = self.candidates(snapshot);
        snapshot.prefer(&destinations(self.look, snapshot, &candidates));
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
            snapshot.nodes().take_while(|node| *node < self.look.nodes().end).collect();
        for node in there {
            match eligible::check(self.look, snapshot, node) {
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
            match self.fate(snapshot, *pod) {
                Fate::Ignored | Fate::Daemon => {}
                Fate::AwaitedToEnd => has_waiting_pods = true,
                Fate::Moved | Fate::MovedWithinBudget | Fate::Blocks(_) => has_pods = true,
            }
        }
        let is_new =
            !self.look.given.status.unneeded_since.contains_key(&self.look.node(node).name);
        Candidate { node, utilization, has_pods, has_waiting_pods, is_new }
    }

    fn fate(&mut self, snapshot: &Snapshot<'_>, pod: PodId) -> Fate {
        let look = self.look;
        *self.fates[pod].get_or_insert_with(|| look.fate(pod, snapshot.classes.of_pod(pod)))
    }

    /// Moves the pods of a node elsewhere and takes the node away, or changes nothing.
    fn empty(&mut self, snapshot: &mut Snapshot<'_>, candidate: &Candidate) -> Result<Found, Keep> {
        let node = candidate.node;
        let load = self.load(snapshot, node)?;
        let is_risky = self.spend(snapshot, &load.moved)?;
        if let Err(pod) = move_all(snapshot, node, &load.moved, &[]) {
            self.give_back(snapshot, &load.moved);
            return Err(Keep::NoPlaceToMovePods(self.look.pod(pod).full_name().into()));
        }
        snapshot.remove_node(node);
        // Pods that were only moved here in this what-if are the business of the node they come from.
        let pods: Vec<PodId> =
            load.moved.iter().copied().filter(|pod| !self.is_moved[*pod]).collect();
        self.moves_twice |= pods.len() < load.moved.len();
        pods.iter().for_each(|pod| self.is_moved[*pod] = true);
        let (utilization, waits_for) = (candidate.utilization, load.waits_for);
        Ok(Found { node, utilization, pods, places: Vec::new(), waits_for, is_risky })
    }

    /// Sorts out what happens to each pod of a node; the first pod by name that keeps the node does.
    fn load(&mut self, snapshot: &Snapshot<'_>, node: NodeId) -> Result<Load, Keep> {
        let mut moved = Vec::with_capacity(snapshot.pods_on(node).len());
        let mut waits_for = None;
        let mut blocks: Option<(String, Blocking)> = None;
        for pod in snapshot.pods_on(node) {
            match self.fate(snapshot, *pod) {
                Fate::Ignored | Fate::Daemon => {}
                Fate::AwaitedToEnd => waits_for = waits_for.or(Some(*pod)),
                Fate::Moved | Fate::MovedWithinBudget => moved.push(*pod),
                Fate::Blocks(why) => {
                    let name = self.look.pod(*pod).full_name();
                    if blocks.as_ref().is_none_or(|(first, _)| name < *first) {
                        blocks = Some((name, why));
                    }
                }
            }
        }
        if let Some((name, why)) = blocks {
            return Err(Keep::BlockedByPod(name.into(), why));
        }
        sort(self.look, snapshot, &mut moved);
        Ok(Load { moved, waits_for })
    }

    /// Takes the pods off their budgets, all or none. Tells whether some move in spite of a budget that is used up.
    fn spend(&mut self, snapshot: &Snapshot<'_>, pods: &[PodId]) -> Result<bool, Keep> {
        let mut is_risky = false;
        for (at, pod) in pods.iter().enumerate() {
            let look = self.look;
            let over = look.covering(*pod, snapshot.classes.of_pod(*pod));
            if over.is_empty() || self.is_moved[*pod] {
                continue;
            }
            if !self.budgets.allow(over) {
                if self.fate(snapshot, *pod) == Fate::MovedWithinBudget {
                    self.give_back(snapshot, &pods[..at]);
                    let name = self.first_over(snapshot, pods, over);
                    return Err(Keep::BlockedByPod(name, Blocking::NotEnoughPdb));
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
            self.budgets.return_to(self.look.covering(*pod, class));
        }
    }

    /// Names the first pod under the same budgets.
    fn first_over(&self, snapshot: &Snapshot<'_>, pods: &[PodId], over: &[BudgetId]) -> Box<str> {
        let same = pods.iter().filter(|pod| {
            let class = snapshot.classes.of_pod(**pod);
            !self.is_moved[**pod] && self.look.covering(**pod, class) == over
        });
        same.map(|pod| self.look.pod(*pod).full_name()).min().unwrap_or_default().into()
    }
}

/// Puts pods into the order in which they look for another place: important ones first, then large ones, then by name.
fn sort(look: &Look<'_>, snapshot: &Snapshot<'_>, pods: &mut [PodId]) {
    let kind = |pod: PodId| (snapshot.classes.of_pod(pod), look.pod(pod).priority);
    // Pods of one kind are the same to every node, so their names need not be compared.
    if pods.windows(2).all(|two| kind(two[0]) == kind(two[1])) {
        return;
    }
    let key = |pod: &PodId| {
        let seen = look.pod(*pod);
        let size = (seen.spec.requests.cpu, seen.spec.requests.memory);
        (Reverse((seen.priority.unwrap_or(0), size)), &seen.spec.namespace, &seen.name)
    };
    pods.sort_by(|a, b| key(a).cmp(&key(b)));
}

/// Orders the nodes that pods may move to: those that stay anyway first, and of those that may go the last one first,
/// since it is tried last. No pod is moved to a node that is being removed or has not started.
fn destinations(look: &Look<'_>, snapshot: &Snapshot<'_>, candidates: &[Candidate]) -> Vec<NodeId> {
    let mut may_go = vec![false; look.nodes().len()];
    candidates.iter().for_each(|candidate| may_go[candidate.node] = true);
    let stays = snapshot.nodes().take_while(|node| *node < look.nodes().end);
    let stays = stays.filter(|node| !may_go[*node] && takes_pods(look, *node));
    stays.chain(candidates.iter().rev().map(|candidate| candidate.node)).collect()
}

/// Tells whether pods may be moved to a node at all.
pub(super) fn takes_pods(look: &Look<'_>, node: NodeId) -> bool {
    !look.is_going(node) && !look.is_starting(node)
}

/// Moves pods off a node and lets it take no more, or changes nothing and gives the pod that found no place. Each pod
/// goes to the place that is named for it, if one is and it fits, and otherwise to the first that does.
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
    // From the last to the first, so that each is the last one on the list when it goes.
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

/// Finds a pod that no other node takes, without moving anything: where neither other pods nor volumes play a part,
/// leaving its node does not help.
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
