//! Which node does each pending pod get?
//!
//! The pods of a batch are decided together, on one snapshot: the most important first, then the oldest. As long as no pod has
//! affinity, spread constraints or volumes, all pods of a node count as one pod with the sum of their requests and ports, so that a
//! batch costs as much as there are nodes, not as there are pods.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use cluster::Key;
use decide::nodes::{Cluster, Node, Pod, PodTerm, Snapshot};

use crate::message;
use crate::scoring::NodeScorer;
use crate::state::{CachedPod, ClusterState, PendingPod};
use crate::write::{PodRef, PodWrite};

/// What was decided about a pending pod.
pub(crate) struct Placement {
    key: Key,
    /// Its node, or why no node takes it.
    node: Result<Box<str>, String>,
}

/// A pod of the batch.
struct Candidate<'a> {
    key: &'a Key,
    cached: &'a CachedPod,
    pending: &'a PendingPod,
}

impl ClusterState {
    /// Decides every active pod, and returns the writes that follow.
    pub(crate) fn schedule(&mut self) -> Vec<PodWrite> {
        self.refresh_volumes();
        let placements = self.place_batch();
        placements.into_iter().filter_map(|placement| self.accept(placement)).collect()
    }

    fn place_batch(&mut self) -> Vec<Placement> {
        let mut affinity = std::mem::take(&mut self.affinity);
        let batch = self.batch();
        let mut placements = Vec::with_capacity(batch.len());
        if !batch.is_empty() {
            let preferences = batch.iter().map(|candidate| &candidate.pending.preferences);
            let terms: BTreeSet<&PodTerm> = preferences
                .flat_map(|p| p.near.iter().chain(&p.apart))
                .map(|(_, term)| term)
                .collect();
            affinity.ensure(&terms, self.pods.values().map(|c| &c.pod), &self.namespaces);
            let cluster = self.cluster(&batch);
            let mut snapshot = Snapshot::new(&cluster, |_| true);
            let mut scorer = NodeScorer::new(self, &affinity, &terms);
            for (id, candidate) in batch.iter().enumerate() {
                let node = self.place(&mut snapshot, &mut scorer, id, candidate);
                placements.push(Placement { key: candidate.key.clone(), node });
            }
        }
        self.affinity = affinity;
        placements
    }

    /// Returns the pods to decide, in the order in which they are decided.
    fn batch(&self) -> Vec<Candidate<'_>> {
        let candidates = self.queue.active().filter_map(|key| {
            let cached = self.pods.get(key)?;
            let pending = cached.pending.as_deref().filter(|p| !p.is_write_in_flight)?;
            Some(Candidate { key, cached, pending })
        });
        let mut batch: Vec<_> = candidates.collect();
        batch.sort_by_key(|candidate| {
            let pod = &candidate.cached.pod;
            (Reverse(pod.priority.unwrap_or(0)), pod.created_at)
        });
        batch
    }

    fn place(
        &self,
        snapshot: &mut Snapshot<'_>,
        scorer: &mut NodeScorer<'_>,
        id: usize,
        candidate: &Candidate<'_>,
    ) -> Result<Box<str>, String> {
        let pod = &candidate.cached.pod;
        match scorer.best(snapshot, id, pod, &candidate.pending.preferences) {
            Some(node) => {
                let name: Box<str> = snapshot.name(node).into();
                snapshot.place(id, node);
                scorer.add(pod, &name);
                Ok(name)
            }
            None => {
                let refusals = snapshot.nodes().filter_map(|node| snapshot.why_not(id, node));
                let not_ready = self.nodes.values().filter(|node| !node.is_ready).count();
                Err(message::unschedulable(refusals, not_ready))
            }
        }
    }

    /// Returns the cluster as the predicates read it, the pods of the batch first.
    fn cluster(&self, batch: &[Candidate<'_>]) -> Cluster {
        let mut nodes: Vec<Node> = self.nodes.values().filter(|n| n.is_ready).cloned().collect();
        let mut pods: Vec<Pod> = batch.iter().map(|c| c.cached.pod.clone()).collect();
        if self.constrained_pods > 0 {
            let on_nodes = |cached: &&CachedPod| {
                cached.pending.as_ref().is_none_or(|pending| pending.assumed.is_some())
            };
            pods.extend(self.pods.values().filter(on_nodes).map(|cached| cached.pod.clone()));
        } else {
            for node in &mut nodes {
                let Some(usage) = self.usage.get(&node.name) else { continue };
                // All that runs there counts as one pod, so it takes one slot and the others are gone.
                node.allocatable.pods -= usage.pods - 1;
                pods.push(usage.as_pod(&node.name));
            }
        }
        Cluster { nodes, pods, namespaces: self.namespaces.clone(), ..Cluster::default() }
    }

    /// Lets a placement count from now on, and returns the write that it needs, if any.
    fn accept(&mut self, placement: Placement) -> Option<PodWrite> {
        let Placement { key, node } = placement;
        let cached = self.pods.get_mut(&key)?;
        let pod = PodRef { key: key.clone(), uid: cached.uid.clone() };
        let pending = cached.pending.as_deref_mut()?;
        match node {
            Ok(node) => {
                pending.is_write_in_flight = true;
                self.assume(&key, Some(node.clone()));
                Some(PodWrite::Bind { pod, node })
            }
            Err(message) => {
                self.queue.add_unschedulable(&key);
                let known = pending.condition.as_ref().filter(|c| &*c.status == "False");
                let is_known = known.is_some_and(|c| {
                    c.reason.as_deref() == Some("Unschedulable")
                        && c.message.as_deref() == Some(&message)
                });
                if is_known {
                    return None;
                }
                pending.is_write_in_flight = true;
                let unschedulable_since = known.and_then(|c| c.last_transition_time.clone());
                let resource_version = pending.resource_version.clone();
                Some(PodWrite::MarkUnschedulable {
                    pod,
                    resource_version,
                    message,
                    unschedulable_since,
                })
            }
        }
    }
}
