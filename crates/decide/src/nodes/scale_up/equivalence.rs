//! Finds equivalent groups.
//!
//! A cloud has the same machine types in every zone. As long as the zones are equivalent too, so are the groups, and the first by
//! name would be chosen anyway: in a large cluster only that one is packed.

use super::Planning;
use super::option::node_template;
use crate::nodes::Expander;
use crate::nodes::packing::Profiles;

impl Planning<'_, '_> {
    /// Drops groups to which another one with an earlier name is equivalent.
    pub(super) fn without_equivalent(
        &self,
        candidates: &[usize],
        profiles: &Profiles,
    ) -> Vec<usize> {
        let is_bound_to_nodes =
            self.waiting.keys().any(|class| profiles[*class].depends_on_existing_nodes());
        // Random choice considers every group, and existing nodes can make zones differ.
        if is_bound_to_nodes || self.evaluation.settings.expanders.contains(&Expander::Random) {
            return candidates.to_vec();
        }
        let mut distinct: Vec<usize> = Vec::new();
        for group in candidates {
            if !distinct.iter().any(|other| self.are_equivalent(*other, *group)) {
                distinct.push(*group);
            }
        }
        distinct
    }

    fn are_equivalent(&self, a: usize, b: usize) -> bool {
        let (one, other) = (node_template(self.evaluation, a), node_template(self.evaluation, b));
        let groups = &self.evaluation.cluster.groups;
        let terms = |group: usize| {
            let of = &groups[group];
            (self.sizes[group], of.max, of.price, of.priority, of.all_or_nothing)
        };
        self.evaluation.snapshot.are_equivalent(one.model, other.model)
            && terms(a) == terms(b)
            && one.daemons == other.daemons
            && one.node.capacity == other.node.capacity
    }
}
