//! Converts the terms of pods into the counters that they read and update.

use std::collections::BTreeMap;

use super::NodeId;
use super::classes::Classes;
use super::counters::{Counter, Region, Scope, SpreadCounter};
use super::matchers::{Matcher, Matchers};
use super::topology::Topologies;
use crate::nodes::{Labels, PodSpec};

/// The counters of one class of pods.
#[derive(Default)]
pub(in crate::nodes) struct Terms {
    /// The plain counters that a pod of this class counts for.
    pub(in crate::nodes) counts_for: Box<[usize]>,
    /// The spread counters that it counts for.
    pub(in crate::nodes) spreads_for: Box<[usize]>,
    /// Each of these counters must be above 0 in the node's domain.
    pub(in crate::nodes) affinity: Box<[usize]>,
    /// It may be the first pod that matches its own affinity.
    pub(in crate::nodes) affine_to_self: bool,
    /// These must be 0 in the node's domain.
    pub(in crate::nodes) anti: Box<[Anti]>,
    /// These too: counters of pods with anti-affinity to this class.
    pub(in crate::nodes) unwanted_by: Box<[usize]>,
    pub(in crate::nodes) spread: Box<[SpreadRule]>,
}

/// One term of anti-affinity.
#[derive(Clone, Copy)]
pub(in crate::nodes) struct Anti {
    pub(in crate::nodes) counter: usize,
    /// Pods of this class match their own term.
    pub(in crate::nodes) means_itself: bool,
}

/// One spread constraint.
#[derive(Clone, Copy)]
pub(in crate::nodes) struct SpreadRule {
    pub(in crate::nodes) counter: usize,
    pub(in crate::nodes) max_skew: u32,
    pub(in crate::nodes) min_domains: u32,
    /// Whether it counts itself (1) or not (0).
    pub(in crate::nodes) own: u32,
}

/// All counters, by index.
#[derive(Default)]
pub(in crate::nodes) struct Counters {
    pub(in crate::nodes) plain: Vec<Counter>,
    pub(in crate::nodes) spread: Vec<SpreadCounter>,
    pub(in crate::nodes) regions: Vec<Region>,
}

/// What a plain counter counts: pods that match a matcher, or pods that have a term with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Counted {
    Meant,
    Holder,
}

/// The indices assigned so far while the terms of all classes are converted.
#[derive(Default)]
struct TermConverter {
    counters: Counters,
    matchers: Matchers,
    plain: BTreeMap<(usize, usize, Counted), usize>,
    spread: BTreeMap<(usize, usize), usize>,
    regions: BTreeMap<Scope, usize>,
    /// The counters of each matcher.
    meant_by: Vec<Vec<usize>>,
    held_by: Vec<Vec<usize>>,
    spread_by: Vec<Vec<usize>>,
}

impl Counters {
    /// Converts the terms of all classes and stores their counters in them.
    pub(super) fn new(
        classes: &mut Classes,
        topologies: &mut Topologies,
        namespaces: &BTreeMap<Box<str>, Labels>,
    ) -> Self {
        let mut reading = TermConverter::default();
        let mut holds: Vec<Vec<usize>> = Vec::with_capacity(classes.len());
        for class in classes.iter_mut() {
            let spec = &*class.spec;
            let numbers = (class.selector, class.tolerations);
            let affinity = reading.affinity(spec, topologies);
            let (anti, held) = reading.anti(spec, topologies, namespaces);
            let spread = reading.spread(spec, numbers, topologies);
            let all = Matcher::of_terms(spec, &spec.affinity);
            let affine_to_self = all.matches(spec, namespaces);
            class.terms = Terms { affinity, affine_to_self, anti, spread, ..Terms::default() };
            holds.push(held);
        }
        for (class, held) in classes.iter_mut().zip(holds) {
            let meaning = reading.matchers.meaning(&class.spec, namespaces);
            let of = |lists: &[Vec<usize>]| -> Vec<usize> {
                meaning.iter().flat_map(|m| lists[*m].iter().copied()).collect()
            };
            let mut counts_for = of(&reading.meant_by);
            counts_for.extend(held);
            class.terms.counts_for = counts_for.into();
            class.terms.unwanted_by = of(&reading.held_by).into();
            class.terms.spreads_for = of(&reading.spread_by).into();
        }
        reading.counters
    }

    /// Counts a new node in the regions that consider it.
    pub(super) fn push_node(
        &mut self,
        node: NodeId,
        topologies: &Topologies,
        is_included: impl Fn(Option<usize>, Option<usize>) -> bool,
    ) {
        for region in &mut self.regions {
            let Scope { topology, keys, selector, tolerations } = &region.scope;
            let has_keys = keys.iter().all(|key| topologies.domain(*key, node) != super::NO_DOMAIN);
            let counts = has_keys && is_included(*selector, *tolerations);
            let domain = if counts { topologies.domain(*topology, node) } else { super::NO_DOMAIN };
            region.domain_of.push(domain);
            region.add_nodes(domain, 1);
        }
    }

    /// Returns whether the zones of two nodes are equivalent: equal pods and equal numbers of nodes.
    pub(super) fn are_alike(&self, topologies: &Topologies, a: NodeId, b: NodeId) -> bool {
        let is_alike = |counts: &dyn Fn(u32) -> (u32, u32), a: u32, b: u32| {
            (a == super::NO_DOMAIN) == (b == super::NO_DOMAIN) && counts(a) == counts(b)
        };
        let mut plain = self.plain.iter().filter(|c| !topologies.is_hostname(c.topology));
        let mut spread = self.spread.iter().map(|c| (c, &self.regions[c.region]));
        plain.all(|c| {
            let domain = |node| topologies.domain(c.topology, node);
            is_alike(&|d| (c.at(d), 0), domain(a), domain(b))
        }) && spread.all(|(c, region)| {
            topologies.is_hostname(region.scope.topology)
                || is_alike(
                    &|d| (c.at(d), region.nodes_in(d)),
                    region.domain_of(a),
                    region.domain_of(b),
                )
        })
    }

    /// Removes the newest node, which has no pods.
    pub(super) fn pop_node(&mut self) {
        for region in &mut self.regions {
            if let Some(domain) = region.domain_of.pop() {
                region.add_nodes(domain, -1);
            }
        }
    }

    /// Counts a node in its regions, or removes it.
    pub(super) fn node_there(&mut self, node: NodeId, change: i32) {
        for region in &mut self.regions {
            region.add_nodes(region.domain_of[node], change);
        }
    }

    /// Counts a pod on a node, or removes it.
    pub(super) fn count(
        &mut self,
        terms: &Terms,
        node: NodeId,
        topologies: &Topologies,
        change: i32,
    ) {
        for counter in &terms.counts_for {
            let counter = &mut self.plain[*counter];
            counter.add(topologies.domain(counter.topology, node), change);
        }
        for counter in &terms.spreads_for {
            let counter = &mut self.spread[*counter];
            counter.add(self.regions[counter.region].domain_of[node], change);
        }
    }
}

impl TermConverter {
    fn matcher(&mut self, matcher: Matcher) -> usize {
        let number = self.matchers.number(matcher);
        if number == self.meant_by.len() {
            self.meant_by.push(Vec::new());
            self.held_by.push(Vec::new());
            self.spread_by.push(Vec::new());
        }
        number
    }

    fn counter(&mut self, matcher: usize, topology: usize, counted: Counted) -> usize {
        *self.plain.entry((matcher, topology, counted)).or_insert_with(|| {
            let number = self.counters.plain.len();
            self.counters.plain.push(Counter::new(topology));
            match counted {
                Counted::Meant => self.meant_by[matcher].push(number),
                Counted::Holder => self.held_by[matcher].push(number),
            }
            number
        })
    }

    /// A pod satisfies the affinity only if it matches all terms, so each term counts the pods that match all of them.
    fn affinity(&mut self, spec: &PodSpec, topologies: &mut Topologies) -> Box<[usize]> {
        if spec.affinity.is_empty() {
            return Box::default();
        }
        let matcher = self.matcher(Matcher::of_terms(spec, &spec.affinity));
        let counter = |term: &crate::nodes::PodTerm| {
            self.counter(matcher, topologies.number(&term.topology_key), Counted::Meant)
        };
        spec.affinity.iter().map(counter).collect()
    }

    /// Returns the terms, and the counters of the pods that have them.
    fn anti(
        &mut self,
        spec: &PodSpec,
        topologies: &mut Topologies,
        namespaces: &BTreeMap<Box<str>, Labels>,
    ) -> (Box<[Anti]>, Vec<usize>) {
        let mut holds = Vec::new();
        let mut anti = Vec::with_capacity(spec.anti_affinity.len());
        for term in &spec.anti_affinity {
            let matcher = self.matcher(Matcher::of_terms(spec, [term]));
            let topology = topologies.number(&term.topology_key);
            let counter = self.counter(matcher, topology, Counted::Meant);
            holds.push(self.counter(matcher, topology, Counted::Holder));
            let means_itself = self.matchers.matches(matcher, spec, namespaces);
            anti.push(Anti { counter, means_itself });
        }
        holds.sort_unstable();
        holds.dedup();
        (anti.into(), holds)
    }

    fn spread(
        &mut self,
        spec: &PodSpec,
        (selector, tolerations): (usize, usize),
        topologies: &mut Topologies,
    ) -> Box<[SpreadRule]> {
        let mut keys: Vec<usize> =
            spec.spread.iter().map(|rule| topologies.number(&rule.topology_key)).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut rules = Vec::with_capacity(spec.spread.len());
        for rule in &spec.spread {
            let topology = topologies.number(&rule.topology_key);
            let scope = Scope {
                topology,
                keys: keys.clone().into(),
                selector: rule.honor_affinity.then_some(selector),
                tolerations: rule.honor_taints.then_some(tolerations),
            };
            let regions = &mut self.counters.regions;
            let region = *self.regions.entry(scope.clone()).or_insert_with(|| {
                regions.push(Region::new(scope));
                regions.len() - 1
            });
            let matcher = self.matcher(Matcher::of_spread(spec, &rule.selector));
            let counters = &mut self.counters.spread;
            let counter = *self.spread.entry((matcher, region)).or_insert_with(|| {
                self.spread_by[matcher].push(counters.len());
                counters.push(SpreadCounter::new(region));
                counters.len() - 1
            });
            let own = u32::from(rule.selector.matches(&spec.labels));
            let (max_skew, min_domains) = (rule.max_skew, rule.min_domains);
            rules.push(SpreadRule { counter, max_skew, min_domains, own });
        }
        rules.into()
    }
}
