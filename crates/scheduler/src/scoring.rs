//! Scores the feasible nodes of a pod.
//!
//! The basics of kube-scheduler's scores, each from 0 to 100 over the nodes that are compared: what the pod prefers of other pods and
//! of nodes counts twice, taints that are better avoided three times, free room once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::nodes::Preferences;
use decide::nodes::{Effect, Node, NodeId, Pod, PodTerm, Snapshot};

use crate::state::{AffinityCounts, ClusterState, Namespaces, selects};

/// How many nodes that would take a pod are compared.
const MOST_COMPARED: usize = 200;

/// What scores depend on, kept up to date while the pods of a batch are placed.
pub(crate) struct NodeScorer<'a> {
    nodes: &'a BTreeMap<Arc<str>, Node>,
    namespaces: &'a Namespaces,
    /// How many pods match each preferred term, by the value of its topology key.
    domains: BTreeMap<&'a PodTerm, BTreeMap<Box<str>, i64>>,
    /// The cpu and memory that are requested on each node.
    requested: BTreeMap<Box<str>, (i64, i64)>,
    /// Where the next search starts, so that pods without preferred affinity spread over all nodes.
    start: NodeId,
}

impl<'a> NodeScorer<'a> {
    pub(crate) fn new(
        state: &'a ClusterState,
        affinity: &AffinityCounts,
        terms: &BTreeSet<&'a PodTerm>,
    ) -> Self {
        let mut domains = BTreeMap::new();
        for term in terms {
            let counts: &mut BTreeMap<Box<str>, i64> = domains.entry(*term).or_default();
            for (node, count) in affinity.nodes(term) {
                let node = state.nodes.get(node);
                if let Some(domain) = node.and_then(|node| node.labels.get(&term.topology_key)) {
                    *counts.entry(domain.into()).or_default() += count;
                }
            }
        }
        let usage = state.usage.iter();
        let requested =
            usage.map(|(node, u)| (node.clone(), (u.requests.cpu, u.requests.memory))).collect();
        let (nodes, namespaces) = (&state.nodes, &state.namespaces);
        Self { nodes, namespaces, domains, requested, start: 0 }
    }

    /// Counts a pod that was placed on a node.
    pub(crate) fn add(&mut self, pod: &Pod, name: &str) {
        let Some(node) = self.nodes.get(name) else { return };
        let (cpu, memory) = self.requested.entry(name.into()).or_default();
        *cpu += pod.spec.requests.cpu;
        *memory += pod.spec.requests.memory;
        for (term, domains) in &mut self.domains {
            if selects(term, pod, self.namespaces)
                && let Some(domain) = node.labels.get(&term.topology_key)
            {
                *domains.entry(domain.into()).or_default() += 1;
            }
        }
    }

    /// Returns the best node for a pod; of equals, the first by name.
    pub(crate) fn best(
        &mut self,
        snapshot: &Snapshot<'_>,
        id: usize,
        pod: &Pod,
        preferences: &Preferences,
    ) -> Option<NodeId> {
        let has_affinity = !preferences.near.is_empty() || !preferences.apart.is_empty();
        let start = if has_affinity { 0 } else { self.start };
        let mut fitting = Vec::new();
        let mut next = start;
        let mut has_wrapped = start == 0;
        while fitting.len() < MOST_COMPARED {
            match snapshot.first_fit(id, next, |node| !has_wrapped || start == 0 || node < start) {
                Some(node) => {
                    fitting.push(node);
                    next = node + 1;
                }
                None if has_wrapped => break,
                None => (next, has_wrapped) = (0, true),
            }
        }
        self.start = if fitting.len() < MOST_COMPARED { 0 } else { next };
        self.highest(snapshot, &fitting, pod, preferences)
    }

    fn highest(
        &self,
        snapshot: &Snapshot<'_>,
        fitting: &[NodeId],
        pod: &Pod,
        preferences: &Preferences,
    ) -> Option<NodeId> {
        if fitting.len() < 2 {
            return fitting.first().copied();
        }
        let nodes: Vec<&Node> = fitting.iter().map(|id| snapshot.node_spec(*id)).collect();
        let scores =
            |score: &dyn Fn(&Node) -> i64| normalize(nodes.iter().map(|n| score(n)).collect());
        let pod_affinity = scores(&|node| self.pod_affinity(node, preferences));
        let node_affinity = scores(&|node| {
            let terms = preferences.nodes.iter();
            let matching = terms.filter(|(_, term)| term.matches(&node.name, &node.labels));
            matching.map(|(weight, _)| weight).sum()
        });
        let taints = scores(&|node| {
            let avoided = node.taints.iter().filter(|t| t.effect == Effect::PreferNoSchedule);
            -i64::try_from(avoided.filter(|t| !t.tolerated_by(&pod.spec.tolerations)).count())
                .unwrap_or(0)
        });
        let total = |at: usize| {
            let room = self.free_percent(nodes[at], pod);
            2 * pod_affinity[at] + 2 * node_affinity[at] + 3 * taints[at] + room
        };
        let best = (0..fitting.len()).max_by_key(|at| (total(*at), Reverse(fitting[*at])));
        best.map(|at| fitting[at])
    }

    fn pod_affinity(&self, node: &Node, preferences: &Preferences) -> i64 {
        let score = |(weight, term): &(i64, PodTerm)| {
            let count = node
                .labels
                .get(&term.topology_key)
                .and_then(|domain| self.domains.get(term)?.get(domain).copied());
            weight * count.unwrap_or(0)
        };
        let near: i64 = preferences.near.iter().map(score).sum();
        let apart: i64 = preferences.apart.iter().map(score).sum();
        near - apart
    }

    /// Returns how much of a node would still be free, in per cent.
    fn free_percent(&self, node: &Node, pod: &Pod) -> i64 {
        let (cpu, memory) = self.requested.get(&node.name).copied().unwrap_or_default();
        let free = |requested: i64, allocatable: i64| {
            if allocatable > 0 {
                (allocatable - requested).max(0).saturating_mul(100) / allocatable
            } else {
                0
            }
        };
        let cpu = free(cpu + pod.spec.requests.cpu, node.allocatable.cpu);
        (cpu + free(memory + pod.spec.requests.memory, node.allocatable.memory)) / 2
    }
}

/// Stretches scores to 0 to 100.
fn normalize(mut scores: Vec<i64>) -> Vec<i64> {
    let lowest = scores.iter().copied().min().unwrap_or(0);
    let span = scores.iter().copied().max().unwrap_or(0) - lowest;
    for score in &mut scores {
        *score = if span == 0 { 0 } else { (*score - lowest) * 100 / span };
    }
    scores
}
