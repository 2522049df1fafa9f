//! The assumptions that placements rely on: no node is in a zone that a spread constraint would have to count as empty.
//!
//! The nodes of a plan start in any order, so a zone opened for a later class exists for the earlier classes too.

use std::collections::BTreeSet;

use super::Profile;
use crate::nodes::snapshot::NO_DOMAIN;
use crate::nodes::{NodeId, Snapshot};

/// The spread constraints by zone that placements rely on.
#[derive(Default)]
pub(super) struct SpreadAssumptions(BTreeSet<SpreadAssumption>);

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SpreadAssumption {
    counter: usize,
    domain: u32,
    max_skew: u32,
}

impl SpreadAssumptions {
    /// Records that pods were placed on a node, or on one like it.
    pub(super) fn note(&mut self, snapshot: &Snapshot<'_>, profile: &Profile, node: NodeId) {
        for (rule, _) in &profile.domain.spread {
            let region = snapshot.counters.spread[rule.counter].region;
            let topology = snapshot.counters.regions[region].scope.topology;
            let domain = snapshot.topologies.domain(topology, node);
            self.0.insert(SpreadAssumption {
                counter: rule.counter,
                domain,
                max_skew: rule.max_skew,
            });
        }
    }

    /// Returns whether the first nodes in the zone of a model, with so many pods, would have kept other pods out.
    pub(super) fn is_violated_by(
        &self,
        snapshot: &Snapshot<'_>,
        model: NodeId,
        (profile, pods): (&Profile, u32),
    ) -> bool {
        self.0.iter().any(|hold| {
            let rules = &profile.domain.spread;
            let is_own = rules.iter().any(|(rule, _)| rule.counter == hold.counter && rule.own > 0);
            let region = snapshot.counters.spread[hold.counter].region;
            opens(snapshot, region, model) && hold.needs(snapshot) > if is_own { pods } else { 0 }
        })
    }

    /// Returns the regions in which an empty zone would have kept pods out.
    pub(super) fn regions(&self, snapshot: &Snapshot<'_>) -> BTreeSet<usize> {
        let sensitive_regions = self.0.iter().filter(|hold| hold.needs(snapshot) > 0);
        sensitive_regions.map(|hold| snapshot.counters.spread[hold.counter].region).collect()
    }
}

impl SpreadAssumption {
    /// Returns how many pods every other zone must have.
    fn needs(&self, snapshot: &Snapshot<'_>) -> u32 {
        snapshot.counters.spread[self.counter].at(self.domain).saturating_sub(self.max_skew)
    }
}

/// Returns whether a node like the model would be the first in its zone.
pub(super) fn opens(snapshot: &Snapshot<'_>, region: usize, model: NodeId) -> bool {
    let region = &snapshot.counters.regions[region];
    let domain = region.domain_of(model);
    domain != NO_DOMAIN && region.nodes_in(domain) == 0
}
