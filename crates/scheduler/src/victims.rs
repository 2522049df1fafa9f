//! Makes room for a pod that fits on no node, by deleting less important ones.
//!
//! Victims are chosen among single pods, while nodes are chosen on sums. So all pods are read once more, but only in a batch in
//! which a pod could preempt another.

use std::cell::OnceCell;

use decide::nodes::{Budget, Cluster, Node, Pod, PodId, Snapshot};

use crate::placement::Candidate;
use crate::preemption::{self, priority};
use crate::state::{CachedPod, ClusterState};
use crate::write::PodRef;

/// A node on which room is made for a pod, and the pods that are deleted there.
pub(crate) struct Room {
    pub(crate) node: Box<str>,
    pub(crate) victims: Vec<PodRef>,
}

/// All pods of the cluster, those of the batch first.
pub(crate) struct AllPods {
    cluster: Cluster,
    /// The pods after those of the batch, as they may be deleted.
    bound: Vec<BoundPod>,
    budgets: Vec<Budget>,
}

struct BoundPod {
    pod: PodRef,
    /// Its node is confirmed: it can be deleted.
    is_confirmed: bool,
}

/// Makes room for the pods of one batch.
pub(crate) struct Preemptor<'a> {
    state: &'a ClusterState,
    batch: &'a [Candidate<'a>],
    all: &'a OnceCell<AllPods>,
    snapshot: Option<Snapshot<'a>>,
    /// The nodes that pods of the batch have got so far.
    placed: Vec<(PodId, Box<str>)>,
}

impl<'a> Preemptor<'a> {
    /// Reads nothing until it is needed.
    pub(crate) fn new(
        state: &'a ClusterState,
        batch: &'a [Candidate<'a>],
        all: &'a OnceCell<AllPods>,
    ) -> Self {
        Self { state, batch, all, snapshot: None, placed: Vec::new() }
    }

    /// Lets a pod of the batch count on a node.
    pub(crate) fn place(&mut self, id: PodId, node: &str) {
        if let Some(snapshot) = &mut self.snapshot {
            place(snapshot, id, node);
        }
        self.placed.push((id, node.into()));
    }

    /// Chooses a node on which less important pods are deleted for a pod that fits on none.
    pub(crate) fn make_room(&mut self, id: PodId, candidate: &Candidate<'_>) -> Option<Room> {
        let own = priority(&candidate.cached.pod);
        if candidate.pending.never_preempts || !self.state.has_pods_below(own) {
            return None;
        }
        // The victims of an earlier preemption have not ended yet.
        if let Some(node) = &candidate.pending.nominated
            && self.state.has_terminating_below(node, own)
        {
            return Some(Room { node: node.clone(), victims: Vec::new() });
        }
        let (state, batch) = (self.state, self.batch);
        let all = self.all.get_or_init(|| read(state, batch));
        let placed = &self.placed;
        let snapshot = self.snapshot.get_or_insert_with(|| {
            let mut snapshot = Snapshot::new(&all.cluster, |_| true);
            placed.iter().for_each(|(id, node)| place(&mut snapshot, *id, node));
            snapshot
        });
        let bound = |pod: PodId| Some(&all.bound[pod.checked_sub(batch.len())?]);
        let may_evict = |pod| bound(pod).is_some_and(|bound| bound.is_confirmed);
        let pods = &all.cluster.pods;
        let chosen = preemption::choose(snapshot, pods, id, &all.budgets, may_evict)?;
        let victims = chosen.victims.iter().filter(|pod| !pods[**pod].spec.terminating);
        let victims = victims.filter_map(|pod| Some(bound(*pod)?.pod.clone())).collect();
        Some(Room { node: snapshot.name(chosen.node).into(), victims })
    }
}

fn place(snapshot: &mut Snapshot<'_>, id: PodId, node: &str) {
    if let Some(node) = snapshot.node(node) {
        snapshot.place(id, node);
    }
}

fn read(state: &ClusterState, batch: &[Candidate<'_>]) -> AllPods {
    let nodes: Vec<Node> = state.nodes.values().filter(|node| node.is_ready).cloned().collect();
    let mut pods: Vec<Pod> = batch.iter().map(|candidate| candidate.cached.pod.clone()).collect();
    let mut bound = Vec::new();
    for (key, cached) in &state.pods {
        let CachedPod { uid, pod, pending, .. } = cached;
        if pending.as_ref().is_none_or(|pending| pending.assumed.is_some()) {
            pods.push(pod.clone());
            let pod = PodRef { key: key.clone(), uid: uid.clone() };
            bound.push(BoundPod { pod, is_confirmed: pending.is_none() });
        }
    }
    let namespaces = state.namespaces.clone();
    let cluster = Cluster { nodes, pods, namespaces, ..Cluster::default() };
    AllPods { cluster, bound, budgets: state.budgets() }
}
