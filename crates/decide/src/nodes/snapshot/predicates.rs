//! Whether a pod may be on a node, rule by rule in the order of the scheduler's plugins.

use super::index::Room;
use super::volumes::Trouble;
use super::{ClassId, NO_DOMAIN, NodeId, Snapshot};
use crate::nodes::{Effect, Refusal};

/// The first rule that says no.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::nodes) enum Check {
    Cordoned,
    Taint,
    Selector,
    Port(u16),
    Slots,
    Resource(usize),
    Volume(Trouble),
    /// These name the topology.
    Spread(usize),
    Affinity(usize),
    Anti(usize),
}

impl Snapshot<'_> {
    /// Finds the first rule that keeps pods of a class off a node.
    pub(in crate::nodes) fn check(&self, class: ClassId, node: NodeId) -> Option<Check> {
        self.check_looks(class, node)
            .or_else(|| self.check_room(class, node))
            .or_else(|| self.check_spread(class, node))
            .or_else(|| self.check_company(class, node))
    }

    /// Cordons, taints, selectors: what does not change as pods come and go.
    pub(in crate::nodes) fn check_looks(&self, class: ClassId, node: NodeId) -> Option<Check> {
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
        let selects = self.filters.selects(class.selector, node.shape, &node.like);
        (!selects).then_some(Check::Selector)
    }

    /// Ports, resources, volumes.
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
        // What is not asked for always fits, even on a node that promised too much.
        let short = |(wanted, free): (&i64, &i64)| *wanted > 0 && wanted > free;
        if let Some(at) = class.request.iter().zip(self.free(id)).position(short) {
            return Some(Check::Resource(at));
        }
        if class.volumes.is_empty() {
            return None;
        }
        self.volumes.trouble(&class.volumes, &node.like, &node.volumes).map(Check::Volume)
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

    /// Pod affinity, pod anti-affinity, and the anti-affinity of pods that are there.
    fn check_company(&self, class: ClassId, node: NodeId) -> Option<Check> {
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

    /// A pod that wants to be near its like may start anywhere with the keys, as long as none of them is anywhere.
    fn is_first_of_its_kind(&self, class: ClassId, node: NodeId) -> bool {
        let terms = &self.classes[class].terms;
        terms.affine_to_self
            && terms.affinity.iter().all(|counter| {
                let counter = &self.counters.plain[*counter];
                counter.total == 0 && self.topologies.domain(counter.topology, node) != NO_DOMAIN
            })
    }

    /// Finds the first node from `from` on that takes a pod of the class, among those that `may` allows.
    pub(in crate::nodes) fn first_fit_of(
        &self,
        class: ClassId,
        from: NodeId,
        may: impl Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        self.index
            .first(self.wanted(class), from, |node| may(node) && self.check(class, node).is_none())
    }

    /// Tells whether some node looks right for a class and has room for it, whatever other pods say.
    pub(in crate::nodes) fn nodes_could_take(&self, class: ClassId) -> bool {
        let could = |node| {
            self.check_looks(class, node).is_none() && self.check_room(class, node).is_none()
        };
        self.index.first(self.wanted(class), 0, could).is_some()
    }

    /// Tells whether two nodes are the same to every class: they look alike, have as much left, and as many pods of each
    /// sort are in their zones.
    pub(in crate::nodes) fn are_twins(&self, a: NodeId, b: NodeId) -> bool {
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

    /// Puts what a rule said into words.
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
            Check::Volume(Trouble::Limit(v)) => Refusal::VolumeLimit(self.volumes.driver(v).into()),
            Check::Volume(Trouble::Taken(v) | Trouble::Unreachable(v)) => {
                Refusal::VolumeZone(self.volumes.name(v).into())
            }
            Check::Spread(topology) => Refusal::TopologySpread(key(topology)),
            Check::Affinity(topology) => Refusal::PodAffinity(key(topology)),
            Check::Anti(topology) => Refusal::PodAntiAffinity(key(topology)),
        }
    }
}
