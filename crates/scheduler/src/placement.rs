//! Chooses a node for each pending pod.
//!
//! The pods of a batch are decided together, on one snapshot: the most important first, then the oldest. As long as no pod has
//! affinity, spread constraints or volumes, all pods of a node count as one pod with the sum of their requests and ports, so that a
//! batch costs as much as there are nodes, not as there are pods.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::BTreeSet;

use cluster::Key;
use decide::nodes::{Cluster, Node, Pod, PodTerm, Snapshot};

use crate::message;
use crate::scoring::NodeScorer;
use crate::state::{CachedPod, ClusterState, PendingPod};
use crate::victims::{Preemptor, Room};
use crate::write::{PodRef, PodWrite, Unschedulable};

/// What was decided about a pending pod.
pub(crate) struct Placement {
    key: Key,
    /// Its node, or why no node takes it.
    node: Result<Box<str>, PlacementFailure>,
}

/// Why no node takes a pod, and how room is made for it.
struct PlacementFailure {
    message: String,
    room: Option<Room>,
}

/// A pod of the batch.
pub(crate) struct Candidate<'a> {
    key: &'a Key,
    pub(crate) cached: &'a CachedPod,
    pub(crate) pending: &'a PendingPod,
    /// It only keeps the room that is being made for it, and is not decided now.
    is_waiting: bool,
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
            let all_pods = OnceCell::new();
            let mut preemptor = Preemptor::new(self, &batch, &all_pods);
            for (id, candidate) in batch.iter().enumerate() {
                let node = if candidate.is_waiting {
                    let nominated = candidate.pending.nominated.clone();
                    let room = nominated.map(|node| Room { node, victims: Vec::new() });
                    Err(PlacementFailure { message: String::new(), room })
                } else {
                    let placed = self.place(&snapshot, &mut scorer, id, candidate);
                    placed.map_err(|message| PlacementFailure {
                        message,
                        room: preemptor.make_room(id, candidate),
                    })
                };
                let reserved = match &node {
                    Ok(node) => Some(node),
                    Err(unplaced) => unplaced.room.as_ref().map(|room| &room.node),
                };
                // Those that are decided later may not take the room.
                if let Some(name) = reserved
                    && let Some(node) = snapshot.node(name)
                {
                    snapshot.place(id, node);
                    scorer.add(&candidate.cached.pod, name);
                    preemptor.place(id, name);
                }
                if !candidate.is_waiting {
                    placements.push(Placement { key: candidate.key.clone(), node });
                }
            }
        }
        self.affinity = affinity;
        placements
    }

    /// Returns the pods to decide, in the order in which they are decided.
    fn batch(&self) -> Vec<Candidate<'_>> {
        let candidate = |key, is_waiting| {
            let cached = self.pods.get(key)?;
            let pending = cached.pending.as_deref()?;
            Some(Candidate { key, cached, pending, is_waiting })
        };
        let active = self.queue.active().filter_map(|key| candidate(key, false));
        let mut batch: Vec<_> = active.filter(|c| !c.pending.is_write_in_flight).collect();
        if batch.is_empty() {
            return batch;
        }
        let decided: BTreeSet<&Key> = batch.iter().map(|candidate| candidate.key).collect();
        let waiting = self.nominated.iter().filter(|key| !decided.contains(key));
        batch.extend(waiting.filter_map(|key| candidate(key, true)));
        batch.sort_by_key(|candidate| {
            let pod = &candidate.cached.pod;
            (Reverse(pod.priority.unwrap_or(0)), pod.created_at)
        });
        batch
    }

    fn place(
        &self,
        snapshot: &Snapshot<'_>,
        scorer: &mut NodeScorer<'_>,
        id: usize,
        candidate: &Candidate<'_>,
    ) -> Result<Box<str>, String> {
        let pod = &candidate.cached.pod;
        // The node on which room was made for it comes first.
        let nominated = candidate.pending.nominated.as_deref();
        let nominated = nominated.and_then(|name| snapshot.node(name));
        let nominated = nominated.filter(|node| snapshot.why_not(id, *node).is_none());
        let best =
            nominated.or_else(|| scorer.best(snapshot, id, pod, &candidate.pending.preferences));
        match best {
            Some(node) => Ok(snapshot.name(node).into()),
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
            Err(PlacementFailure { message, room }) => {
                self.queue.add_unschedulable(&key);
                let (node, victims) =
                    room.map_or((None, Vec::new()), |r| (Some(r.node), r.victims));
                let known = pending.condition.as_ref().filter(|c| &*c.status == "False");
                let is_known = known.is_some_and(|c| {
                    c.reason.as_deref() == Some("Unschedulable")
                        && c.message.as_deref() == Some(&message)
                });
                if is_known && victims.is_empty() && pending.nominated == node {
                    return None;
                }
                pending.nominated.clone_from(&node);
                if node.is_some() {
                    self.nominated.insert(key.clone());
                } else {
                    self.nominated.remove(&key);
                }
                pending.is_write_in_flight = true;
                let why = Unschedulable {
                    resource_version: pending.resource_version.clone(),
                    message,
                    since: known.and_then(|c| c.last_transition_time.clone()),
                    nominated: node,
                    victims,
                };
                Some(PodWrite::MarkUnschedulable { pod, why })
            }
        }
    }
}
