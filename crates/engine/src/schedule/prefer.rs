//! Of the nodes that would take a pod, which suits it best?
//!
//! The basics of kube-scheduler's scores, each from 0 to 100 over the nodes that were looked at: what the pod prefers
//! of other pods and of nodes counts twice, taints that are better avoided three times, free room once.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::nodes::Preferences;
use decide::nodes::{Effect, Labels, Node, NodeId, Pod, PodTerm, Snapshot};

/// How many nodes that would take a pod are compared.
const COMPARED: usize = 200;

/// What preferences count, kept up to date while pods are placed.
pub(super) struct Preferring<'a> {
    nodes: &'a BTreeMap<Arc<str>, Node>,
    namespaces: &'a BTreeMap<Box<str>, Labels>,
    /// Each wish about pods once, with how many such pods each value of its topology key has.
    company: BTreeMap<&'a PodTerm, BTreeMap<Box<str>, i64>>,
    /// What is requested on each node, of cpu and memory.
    used: BTreeMap<Box<str>, (i64, i64)>,
    /// Where the next look starts, so that pods without wishes spread over all nodes.
    from: NodeId,
}

impl<'a> Preferring<'a> {
    pub(super) fn new<'p>(
        likes: impl Iterator<Item = &'a Preferences>,
        placed: impl Iterator<Item = &'p Pod>,
        nodes: &'a BTreeMap<Arc<str>, Node>,
        namespaces: &'a BTreeMap<Box<str>, Labels>,
    ) -> Self {
        let terms = likes.flat_map(|likes| likes.near.iter().chain(&likes.apart));
        let company = terms.map(|(_, term)| (term, BTreeMap::new())).collect();
        let mut all = Self { nodes, namespaces, company, used: BTreeMap::new(), from: 0 };
        for pod in placed {
            if let decide::nodes::Scheduling::On(node) = &pod.scheduling {
                all.placed(pod, node);
            }
        }
        all
    }

    /// Counts a pod on a node.
    pub(super) fn placed(&mut self, pod: &Pod, name: &str) {
        let Some(node) = self.nodes.get(name) else { return };
        let used = self.used.entry(name.into()).or_default();
        used.0 += pod.spec.requests.cpu;
        used.1 += pod.spec.requests.memory;
        for (term, domains) in &mut self.company {
            if is_meant(term, pod, self.namespaces)
                && let Some(domain) = domain(node, &term.topology_key)
            {
                *domains.entry(domain.into()).or_default() += 1;
            }
        }
    }

    /// Finds the node that suits a pod best; of equals, the first by name.
    pub(super) fn best(
        &mut self,
        snapshot: &Snapshot<'_>,
        id: usize,
        pod: &Pod,
        likes: &Preferences,
    ) -> Option<NodeId> {
        let has_wishes = !likes.near.is_empty() || !likes.apart.is_empty();
        let start = if has_wishes { 0 } else { self.from };
        let mut fitting = Vec::new();
        let mut next = start;
        let mut has_turned = start == 0;
        while fitting.len() < COMPARED {
            match snapshot.first_fit(id, next, |node| !has_turned || start == 0 || node < start) {
                Some(node) => {
                    fitting.push(node);
                    next = node + 1;
                }
                None if has_turned => break,
                None => (next, has_turned) = (0, true),
            }
        }
        self.from = if fitting.len() < COMPARED { 0 } else { next };
        self.choose(snapshot, &fitting, pod, likes)
    }

    fn choose(
        &self,
        snapshot: &Snapshot<'_>,
        fitting: &[NodeId],
        pod: &Pod,
        likes: &Preferences,
    ) -> Option<NodeId> {
        if fitting.len() < 2 {
            return fitting.first().copied();
        }
        let looks: Vec<&Node> = fitting.iter().map(|id| snapshot.looks(*id)).collect();
        let score = |of: &dyn Fn(&Node) -> i64| normal(looks.iter().map(|node| of(node)).collect());
        let company = score(&|node| self.company(node, likes));
        let place = score(&|node| {
            let wished =
                likes.nodes.iter().filter(|(_, term)| term.matches(&node.name, &node.labels));
            wished.map(|(weight, _)| weight).sum()
        });
        let taints = score(&|node| {
            let avoided = node.taints.iter().filter(|t| t.effect == Effect::PreferNoSchedule);
            -i64::try_from(avoided.filter(|t| !t.tolerated_by(&pod.spec.tolerations)).count())
                .unwrap_or(0)
        });
        let total = |at: usize| {
            2 * company[at] + 2 * place[at] + 3 * taints[at] + self.free(looks[at], pod)
        };
        let best =
            (0..fitting.len()).max_by_key(|at| (total(*at), std::cmp::Reverse(fitting[*at])));
        best.map(|at| fitting[at])
    }

    fn company(&self, node: &Node, likes: &Preferences) -> i64 {
        let count = |(weight, term): &(i64, PodTerm)| {
            let there = domain(node, &term.topology_key)
                .and_then(|domain| self.company.get(term)?.get(domain).copied());
            weight * there.unwrap_or(0)
        };
        likes.near.iter().map(count).sum::<i64>() - likes.apart.iter().map(count).sum::<i64>()
    }

    /// Gives how much of a node would still be free, in hundredths.
    fn free(&self, node: &Node, pod: &Pod) -> i64 {
        let (cpu, memory) = self.used.get(&node.name).copied().unwrap_or_default();
        let part = |used: i64, of: i64| {
            if of > 0 { (of - used).max(0).saturating_mul(100) / of } else { 0 }
        };
        let cpu = part(cpu + pod.spec.requests.cpu, node.allocatable.cpu);
        (cpu + part(memory + pod.spec.requests.memory, node.allocatable.memory)) / 2
    }
}

/// Stretches scores to 0 to 100.
fn normal(mut scores: Vec<i64>) -> Vec<i64> {
    let least = scores.iter().copied().min().unwrap_or(0);
    let span = scores.iter().copied().max().unwrap_or(0) - least;
    for score in &mut scores {
        *score = if span == 0 { 0 } else { (*score - least) * 100 / span };
    }
    scores
}

/// Gives the value of a topology key.
fn domain<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    node.labels.get(key)
}

fn is_meant(term: &PodTerm, pod: &Pod, namespaces: &BTreeMap<Box<str>, Labels>) -> bool {
    let namespace = &pod.spec.namespace;
    let in_namespace = term.namespaces.contains(namespace)
        || term.namespace_selector.as_ref().is_some_and(|selector| {
            selector.is_empty()
                || namespaces.get(namespace).is_some_and(|labels| selector.matches(labels))
        });
    in_namespace && term.selector.matches(&pod.spec.labels)
}
