//! A simple reference implementation of the scheduler's rules: each check visits every pod.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_decide::nodes::{Effect, Node, PodSpec, PodTerm, SpreadConstraint, Taint};

/// Nodes and the pods on them.
#[derive(Clone, Default)]
pub(super) struct World<'a> {
    pub(super) nodes: Vec<&'a Node>,
    /// Each pod's spec and the index of its node.
    pub(super) pods: Vec<(&'a PodSpec, usize)>,
}

impl World<'_> {
    /// Returns the code of the first rule that rejects the pod on the node.
    pub(super) fn refuses(&self, pod: &PodSpec, at: usize) -> Option<&'static str> {
        let node = self.nodes[at];
        let cordon = Taint {
            key: "node.kubernetes.io/unschedulable".into(),
            value: "".into(),
            effect: Effect::NoSchedule,
        };
        if node.unschedulable && !cordon.tolerated_by(&pod.tolerations) {
            return Some("Unschedulable");
        }
        if !tolerates(pod, node) {
            return Some("TaintNotTolerated");
        }
        if !selects(pod, node) {
            return Some("NodeSelectorMismatch");
        }
        let here: Vec<&PodSpec> = self.on(at).collect();
        if here.iter().any(|other| ports_clash(pod, other)) {
            return Some("HostPortTaken");
        }
        if here.len() as i64 + 1 > node.allocatable.pods {
            return Some("TooManyPods");
        }
        let used = |of: fn(&PodSpec) -> i64| here.iter().map(|p| of(p)).sum::<i64>();
        let (cpu, memory) = (used(|p| p.requests.cpu), used(|p| p.requests.memory));
        if pod.requests.cpu > 0 && pod.requests.cpu > node.allocatable.cpu - cpu {
            return Some("InsufficientCpu");
        }
        if pod.requests.memory > 0 && pod.requests.memory > node.allocatable.memory - memory {
            return Some("InsufficientMemory");
        }
        if pod.spread.iter().any(|rule| !self.spreads(pod, rule, node)) {
            return Some("TopologySpread");
        }
        if !self.has_company(pod, node) {
            return Some("PodAffinity");
        }
        self.is_crowded(pod, node).then_some("PodAntiAffinity")
    }

    fn on(&self, at: usize) -> impl Iterator<Item = &PodSpec> {
        self.pods.iter().filter(move |(_, node)| *node == at).map(|(pod, _)| *pod)
    }

    fn spreads(&self, pod: &PodSpec, rule: &SpreadConstraint, node: &Node) -> bool {
        let Some(domain) = node.labels.get(&rule.topology_key) else { return false };
        let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
        for (at, other) in self.nodes.iter().enumerate() {
            let has_keys = pod.spread.iter().all(|r| other.labels.get(&r.topology_key).is_some());
            let is_counted = (!rule.honor_affinity || selects(pod, other))
                && (!rule.honor_taints || tolerates(pod, other));
            if has_keys && is_counted {
                let meant = |p: &&PodSpec| {
                    p.namespace == pod.namespace
                        && !p.terminating
                        && rule.selector.matches(&p.labels)
                };
                let domain = other.labels.get(&rule.topology_key).expect("it has the keys");
                *counts.entry(domain).or_default() += self.on(at).filter(meant).count() as i64;
            }
        }
        let few = (counts.len() as u32) < rule.min_domains;
        let least = if few { 0 } else { counts.values().copied().min().unwrap_or(0) };
        let own = i64::from(rule.selector.matches(&pod.labels));
        counts.get(domain).copied().unwrap_or(0) + own - least <= i64::from(rule.max_skew)
    }

    fn has_company(&self, pod: &PodSpec, node: &Node) -> bool {
        let wanted = |other: &PodSpec| pod.affinity.iter().all(|term| means(pod, term, other));
        let near = |term: &PodTerm| {
            let key = &term.topology_key;
            let domain = node.labels.get(key);
            domain.is_some()
                && self
                    .pods
                    .iter()
                    .any(|(p, at)| wanted(p) && self.nodes[*at].labels.get(key) == domain)
        };
        let has_keys = pod.affinity.iter().all(|t| node.labels.get(&t.topology_key).is_some());
        let anywhere = self.pods.iter().any(|(p, at)| {
            let keyed = |t: &PodTerm| self.nodes[*at].labels.get(&t.topology_key).is_some();
            wanted(p) && pod.affinity.iter().any(keyed)
        });
        pod.affinity.iter().all(near) || (!anywhere && wanted(pod) && has_keys)
    }

    fn is_crowded(&self, pod: &PodSpec, node: &Node) -> bool {
        let shares = |term: &PodTerm, at: usize| {
            let domain = node.labels.get(&term.topology_key);
            domain.is_some() && self.nodes[at].labels.get(&term.topology_key) == domain
        };
        self.pods.iter().any(|(other, at)| {
            let mine = pod.anti_affinity.iter().any(|t| means(pod, t, other) && shares(t, *at));
            let theirs = other.anti_affinity.iter().any(|t| means(other, t, pod) && shares(t, *at));
            mine || theirs
        })
    }

    /// Returns the uncordoned nodes on which the pod fits.
    pub(super) fn takers(&self, pod: &PodSpec) -> BTreeSet<&str> {
        let takes = |at: &usize| !self.nodes[*at].unschedulable && self.refuses(pod, *at).is_none();
        (0..self.nodes.len()).filter(takes).map(|at| &*self.nodes[at].name).collect()
    }
}

fn tolerates(pod: &PodSpec, node: &Node) -> bool {
    node.taints
        .iter()
        .all(|t| t.effect == Effect::PreferNoSchedule || t.tolerated_by(&pod.tolerations))
}

fn selects(pod: &PodSpec, node: &Node) -> bool {
    pod.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
        && pod
            .node_affinity
            .as_ref()
            .is_none_or(|terms| terms.iter().any(|term| term.matches(&node.name, &node.labels)))
}

fn ports_clash(a: &PodSpec, b: &PodSpec) -> bool {
    let every = |ip: &str| ip.is_empty() || ip == "0.0.0.0";
    a.host_ports.iter().any(|a| {
        b.host_ports.iter().any(|b| {
            (a.port, &a.protocol) == (b.port, &b.protocol)
                && (a.ip == b.ip || every(&a.ip) || every(&b.ip))
        })
    })
}

/// Returns whether a term matches a pod; the clusters here only have terms about the pod's own namespace.
fn means(holder: &PodSpec, term: &PodTerm, other: &PodSpec) -> bool {
    holder.namespace == other.namespace && term.selector.matches(&other.labels)
}
