//! Checks whether a pod fits on a node, in the order of the scheduler's plugins.

use super::index::Room;
use super::volumes::VolumeProblem;
use super::{ClassId, NO_DOMAIN, NodeId, Snapshot};
use crate::nodes::{Effect, Refusal};

/// The first rule that fails.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::nodes) enum Check {
    Cordoned,
    Taint,
    Selector,
    Port(u16),
    Slots,
    Resource(usize),
    Volume(VolumeProblem),
    /// These have the topology's index.
    Spread(usize),
    Affinity(usize),
    Anti(usize),
}

impl Snapshot<'_> {
    /// Returns the first rule that rejects pods of a class on a node.
    pub(in crate::nodes) fn check(&self, class: ClassId, node: NodeId) -> Option<Check> {
        self.check_static(class, node)
            .or_else(|| self.check_room(class, node))
            .or_else(|| self.check_spread(class, node))
            .or_else(|| self.check_pod_affinity(class, node))
    }

    /// Checks cordons, taints and selectors, which do not change when pods are added or removed.
    pub(in crate::nodes) fn check_static(&self, class: ClassId, node: NodeId) -> Option<Check> {
        let (class, node) = (&self.classes[class], &self.nodes[node]);
        if node.is_closed {
            return Some(Check::Cordoned);
        }
        if !self.filters.is_open(node.shape) {
            if self.filters.is_cordoned(class.tolerations, node.shape) {
                return Some(Check::Cordoned);
            }
            if self.filters.untolerated(class.tolerations, node.shape).is_some() {
                return Some(Check::Taint);
            }
        }
        let selects = self.filters.selects(class.selector, node.shape, &node.source);
        (!selects).then_some(Check::Selector)
    }

    /// Checks ports, resources and volumes.
    pub(in crate::nodes) fn check_room(&self, class: ClassId, id: NodeId) -> Option<Check> {
        let (class, node) = (&self.classes[class], &self.nodes[id]);
        if !class.ports.is_empty()
            && let Some(port) = self.ports.clash(&class.ports, &node.ports)
        {
            return Some(Check::Port(port));
        }
        if node.slots < 1 {
            return Some(Check::Slots);
        }
        // A resource that is not requested always fits, even on an overcommitted node.
        let short = |(wanted, free): (&i64, &i64)| *wanted > 0 && wanted > free;
        if let Some(at) = class.request.iter().zip(self.free(id)).position(short) {
            return Some(Check::Resource(at));
        }
        if class.volumes.is_empty() {
            return None;
        }
        self.volumes.problem(&class.volumes, &node.source, &node.volumes).map(Check::Volume)
    }

    fn check_spread(&self, class: ClassId, node: NodeId) -> Option<Check> {
        let rules = &self.classes[class].terms.spread;
        rules.iter().find_map(|rule| {
            let counter = &self.counters.spread[rule.counter];
            let region = &self.counters.regions[counter.region];
            let domain = self.topologies.domain(region.scope.topology, node);
            let few = region.present() < rule.min_domains;
            let least = if few { 0 } else { counter.least(region) };
            let fits = domain != NO_DOMAIN
                && counter.at(domain) + rule.own <= least.saturating_add(rule.max_skew);
            (!fits).then_some(Check::Spread(region.scope.topology))
        })
    }

    /// Checks pod affinity, pod anti-affinity, and the anti-affinity of existing pods.
    fn check_pod_affinity(&self, class: ClassId, node: NodeId) -> Option<Check> {
        let terms = &self.classes[class].terms;
        let domain_of = |counter: usize| {
            let counter = &self.counters.plain[counter];
            (counter, self.topologies.domain(counter.topology, node))
        };
        let lonely = |counter: &&usize| {
            let (counter, domain) = domain_of(**counter);
            domain == NO_DOMAIN || counter.at(domain) == 0
        };
        if let Some(missing) = terms.affinity.iter().find(lonely)
            && !self.is_first_of_its_kind(class, node)
        {
            return Some(Check::Affinity(self.counters.plain[*missing].topology));
        }
        let crowded = |counter: &usize| {
            let (counter, domain) = domain_of(*counter);
            domain != NO_DOMAIN && counter.at(domain) > 0
        };
        let mut counters =
            terms.anti.iter().map(|anti| anti.counter).chain(terms.unwanted_by.iter().copied());
        counters.find(crowded).map(|counter| Check::Anti(self.counters.plain[counter].topology))
    }

    /// Returns whether a pod with affinity to its own class may be the first: the node has the keys, and no pod matches anywhere.
    fn is_first_of_its_kind(&self, class: ClassId, node: NodeId) -> bool {
        let terms = &self.classes[class].terms;
        terms.affine_to_self
            && terms.affinity.iter().all(|counter| {
                let counter = &self.counters.plain[*counter];
                counter.total == 0 && self.topologies.domain(counter.topology, node) != NO_DOMAIN
            })
    }

    /// Returns the first node from `from` on on which a pod of the class fits, among those that `may` allows.
    pub(in crate::nodes) fn first_fit_of(
        &self,
        class: ClassId,
        from: NodeId,
        may: impl Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        self.index
            .first(self.wanted(class), from, |node| may(node) && self.check(class, node).is_none())
    }

    /// Returns whether some node matches a class and has room for it, regardless of other pods.
    pub(in crate::nodes) fn nodes_could_take(&self, class: ClassId) -> bool {
        let could = |node| {
            self.check_static(class, node).is_none() && self.check_room(class, node).is_none()
        };
        self.index.first(self.wanted(class), 0, could).is_some()
    }

    /// Returns whether two nodes are equivalent for every class: equal shapes, equal free resources, and equal counts in their
    /// zones.
    pub(in crate::nodes) fn are_equivalent(&self, a: NodeId, b: NodeId) -> bool {
        let (one, other) = (&self.nodes[a], &self.nodes[b]);
        one.shape == other.shape
            && one.slots == other.slots
            && self.free(a) == self.free(b)
            && one.ports == other.ports
            && !self.filters.ask_for_names()
            && self.counters.are_alike(&self.topologies, a, b)
    }

    fn wanted(&self, class: ClassId) -> Room {
        let request = &self.classes[class].request;
        let asked = |amount: i64| if amount > 0 { amount } else { i64::MIN };
        Room { cpu: asked(request[0]), memory: asked(request[1]), slots: 1 }
    }

    /// Converts a failed check into its reason.
    pub(in crate::nodes) fn refusal(&self, class: ClassId, node: NodeId, check: Check) -> Refusal {
        let key = |topology: usize| self.topologies.key(topology).into();
        match check {
            Check::Cordoned => Refusal::Unschedulable,
            Check::Taint => {
                let class = &self.classes[class];
                let taint = self.filters.untolerated(class.tolerations, self.nodes[node].shape);
                let words = taint.map(|taint| {
                    let effect = match taint.effect {
                        Effect::NoSchedule => "NoSchedule",
                        Effect::PreferNoSchedule => "PreferNoSchedule",
                        Effect::NoExecute => "NoExecute",
                    };
                    format!("{}={}:{effect}", taint.key, taint.value)
                });
                Refusal::TaintNotTolerated(words.unwrap_or_default().into())
            }
            Check::Selector => Refusal::NodeSelectorMismatch,
            Check::Port(port) => Refusal::HostPortTaken(port),
            Check::Slots => Refusal::TooManyPods,
            Check::Resource(0) => Refusal::InsufficientCpu,
            Check::Resource(1) => Refusal::InsufficientMemory,
            Check::Resource(at) => Refusal::InsufficientResource(self.classes.resource(at).into()),
            Check::Volume(VolumeProblem::Limit(v)) => {
                Refusal::VolumeLimit(self.volumes.driver(v).into())
            }
            Check::Volume(VolumeProblem::Taken(v) | VolumeProblem::Unreachable(v)) => {
                Refusal::VolumeZone(self.volumes.name(v).into())
            }
            Check::Spread(topology) => Refusal::TopologySpread(key(topology)),
            Check::Affinity(topology) => Refusal::PodAffinity(key(topology)),
            Check::Anti(topology) => Refusal::PodAntiAffinity(key(topology)),
        }
    }
}
