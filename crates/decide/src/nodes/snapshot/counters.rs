//! Counts pods per topology domain.
//!
//! A plain counter counts the pods that match an affinity or anti-affinity term, or the pods that have such a term. A spread counter
//! also knows the minimum over all domains of the nodes in its constraint's scope (its region).

use super::topology::NO_DOMAIN;

/// Counts pods per domain.
#[derive(Default)]
pub(in crate::nodes) struct Counter {
    pub(in crate::nodes) topology: usize,
    counts: Vec<u32>,
    /// Over all domains.
    pub(in crate::nodes) total: u32,
}

impl Counter {
    pub(super) fn new(topology: usize) -> Self {
        Self { topology, ..Self::default() }
    }

    /// Returns the count in a domain.
    pub(in crate::nodes) fn at(&self, domain: u32) -> u32 {
        self.counts.get(domain as usize).copied().unwrap_or(0)
    }

    /// Changes the count in a domain.
    pub(in crate::nodes) fn add(&mut self, domain: u32, change: i32) {
        if domain != NO_DOMAIN {
            *grown(&mut self.counts, domain) = self.at(domain).strict_add_signed(change);
            self.total = self.total.strict_add_signed(change);
        }
    }
}

/// The nodes that a spread constraint considers.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::nodes) struct Scope {
    pub(in crate::nodes) topology: usize,
    /// All keys of the pod's constraints: a node without one of them is not considered.
    pub(in crate::nodes) keys: Box<[usize]>,
    /// A selector's index, when only selected nodes count.
    pub(in crate::nodes) selector: Option<usize>,
    /// The index of tolerations, when only nodes with tolerated taints count.
    pub(in crate::nodes) tolerations: Option<usize>,
}

/// The nodes that a spread constraint considers, by domain.
#[derive(Default)]
pub(in crate::nodes) struct Region {
    pub(in crate::nodes) scope: Scope,
    /// The domain of each node, `NO_DOMAIN` for those not considered.
    pub(super) domain_of: Vec<u32>,
    nodes_in: Vec<u32>,
    /// How many domains have a node.
    present: u32,
}

impl Region {
    pub(super) fn new(scope: Scope) -> Self {
        Self { scope, ..Self::default() }
    }

    /// Returns the domain of a node, `NO_DOMAIN` if it is not considered.
    pub(in crate::nodes) fn domain_of(&self, node: usize) -> u32 {
        self.domain_of[node]
    }

    /// Returns the number of nodes in a domain.
    pub(in crate::nodes) fn nodes_in(&self, domain: u32) -> u32 {
        self.nodes_in.get(domain as usize).copied().unwrap_or(0)
    }

    /// Returns the number of domains with a node.
    pub(in crate::nodes) fn present(&self) -> u32 {
        self.present
    }

    /// Changes the number of nodes in a domain.
    pub(in crate::nodes) fn add_nodes(&mut self, domain: u32, change: i32) {
        if domain == NO_DOMAIN {
            return;
        }
        let nodes = grown(&mut self.nodes_in, domain);
        let before = *nodes;
        *nodes = before.strict_add_signed(change);
        match (before, *nodes) {
            (0, 1..) => self.present += 1,
            (1.., 0) => self.present -= 1,
            _ => {}
        }
    }
}

/// Counts pods per domain of a region, and tracks the minimum.
#[derive(Default)]
pub(in crate::nodes) struct SpreadCounter {
    pub(in crate::nodes) region: usize,
    counts: Vec<u32>,
    /// How many domains have each count above 0.
    with_count: Vec<u32>,
    /// How many domains have a count above 0.
    occupied: u32,
    /// The minimum count above 0, if any domain has one.
    least: usize,
}

impl SpreadCounter {
    pub(super) fn new(region: usize) -> Self {
        Self { region, ..Self::default() }
    }

    /// Returns the count in a domain.
    pub(in crate::nodes) fn at(&self, domain: u32) -> u32 {
        self.counts.get(domain as usize).copied().unwrap_or(0)
    }

    /// Returns the minimum over the domains of its region that have a node, 0 if there are none.
    pub(in crate::nodes) fn least(&self, region: &Region) -> u32 {
        if region.present > self.occupied || self.occupied == 0 {
            return 0;
        }
        u32::try_from(self.least).expect("counts are u32")
    }

    /// Returns the minimum over the other domains, `None` if there are none.
    pub(in crate::nodes) fn least_elsewhere(&self, region: &Region, domain: u32) -> Option<u32> {
        let here = self.at(domain);
        let is_present = region.nodes_in(domain) > 0;
        if region.present <= u32::from(is_present) {
            return None;
        }
        let occupied = self.occupied - u32::from(here > 0);
        if region.present - u32::from(is_present) > occupied {
            return Some(0);
        }
        let alone = here as usize == self.least && self.with_count[self.least] == 1;
        let from = if alone { self.least + 1 } else { self.least };
        let next = (from..self.with_count.len()).find(|n| self.with_count[*n] > 0);
        next.map(|n| u32::try_from(n).expect("counts are u32"))
    }

    /// Changes the count in a domain.
    pub(in crate::nodes) fn add(&mut self, domain: u32, change: i32) {
        if domain == NO_DOMAIN || change == 0 {
            return;
        }
        let count = grown(&mut self.counts, domain);
        let before = *count as usize;
        *count = count.strict_add_signed(change);
        let after = *count as usize;
        if before > 0 {
            self.with_count[before] -= 1;
            self.occupied -= 1;
        }
        if after > 0 {
            if self.with_count.len() <= after {
                self.with_count.resize(after + 1, 0);
            }
            self.with_count[after] += 1;
            self.occupied += 1;
        }
        if after > 0 && (after < self.least || self.occupied == 1) {
            self.least = after;
        } else if before == self.least && self.with_count[before] == 0 {
            let next = (before..self.with_count.len()).find(|n| self.with_count[*n] > 0);
            self.least = next.unwrap_or(0);
        }
    }
}

fn grown(counts: &mut Vec<u32>, domain: u32) -> &mut u32 {
    let at = domain as usize;
    if counts.len() <= at {
        counts.resize(at + 1, 0);
    }
    &mut counts[at]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_minimum_equals_that_of_all_domains(
            changes in prop::collection::vec((0_u32..5, -1_i32..=2), 0..80),
            nodes in prop::collection::vec(0_u32..2, 5),
        ) {
            let mut region = Region::default();
            (0..).zip(&nodes).for_each(|(domain, n)| region.add_nodes(domain, n.cast_signed()));
            let (mut counter, mut counts) = (SpreadCounter::default(), [0_i32; 5]);
            for (domain, change) in changes {
                // Only domains with nodes have pods.
                let count = &mut counts[domain as usize];
                if nodes[domain as usize] == 0 || *count + change < 0 { continue }
                *count += change;
                counter.add(domain, change);
                let there = |d: &usize| nodes[*d] > 0;
                let least = (0..5).filter(there).map(|d| counts[d]).min().unwrap_or(0);
                prop_assert_eq!(counter.least(&region).cast_signed(), least);
                for d in 0..5_u32 {
                    let others = (0..5).filter(there).filter(|o| *o != d as usize).map(|o| counts[o]).min();
                    prop_assert_eq!(counter.least_elsewhere(&region, d).map(u32::cast_signed), others);
                }
            }
        }
    }
}
