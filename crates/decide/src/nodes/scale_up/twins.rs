//! Which groups would all come to the same?
//!
//! A cloud has the same machines in every zone. As long as its zones are alike too, what one of such groups could do the
//! others could do as well, and the first by name would be chosen anyway: in a large cluster only that one is packed.

use super::Planning;
use super::option::mould;
use crate::nodes::Expander;
use crate::nodes::packing::Profiles;

impl Planning<'_, '_> {
    /// Leaves out groups to which another one by an earlier name is equal.
    pub(super) fn without_twins(&self, candidates: &[usize], profiles: &Profiles) -> Vec<usize> {
        let is_bound_to_nodes = self.waiting.keys().any(|class| profiles[*class].looks_at_nodes());
        // Chance takes every group into account, and nodes that are there can make zones differ.
        if is_bound_to_nodes || self.turn.settings.expanders.contains(&Expander::Random) {
            return candidates.to_vec();
        }
        let mut distinct: Vec<usize> = Vec::new();
        for group in candidates {
            if !distinct.iter().any(|other| self.are_twins(*other, *group)) {
                distinct.push(*group);
            }
        }
        distinct
    }

    fn are_twins(&self, a: usize, b: usize) -> bool {
        let (one, other) = (mould(self.turn, a), mould(self.turn, b));
        let groups = &self.turn.cluster.groups;
        let terms = |group: usize| {
            let of = &groups[group];
            (self.sizes[group], of.max, of.price, of.priority, of.all_or_nothing)
        };
        self.turn.snapshot.are_twins(one.model, other.model)
            && terms(a) == terms(b)
            && one.daemons == other.daemons
            && one.node.capacity == other.node.capacity
    }
}
