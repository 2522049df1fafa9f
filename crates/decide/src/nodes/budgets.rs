//! Tracks how many pods may be evicted under the disruption budgets.

use std::collections::BTreeMap;

use super::{Budget, Operator, PodSpec, Requirement};

/// A budget, by its index in the cluster's list.
pub(super) type BudgetId = usize;

/// The budgets, and their remaining disruptions.
#[derive(Clone, Debug)]
pub(super) struct Budgets<'a> {
    budgets: &'a [Budget],
    /// Those that require a label, by namespace, key and value: a cluster can have a budget for each of its services.
    by_label: BTreeMap<(&'a str, &'a str, &'a str), Vec<BudgetId>>,
    /// The others, by namespace.
    rest: BTreeMap<&'a str, Vec<BudgetId>>,
    left: Vec<i64>,
}

impl<'a> Budgets<'a> {
    /// Starts with the disruptions that each budget allows now.
    pub(super) fn new(budgets: &'a [Budget]) -> Self {
        let mut by_label: BTreeMap<_, Vec<BudgetId>> = BTreeMap::new();
        let mut rest: BTreeMap<&str, Vec<BudgetId>> = BTreeMap::new();
        for (id, budget) in budgets.iter().enumerate() {
            let one_value = |r: &'a Requirement| match (r.operator, &*r.values) {
                (Operator::In, [value]) => Some((&*budget.namespace, &*r.key, &**value)),
                _ => None,
            };
            match budget.selector.requirements.iter().find_map(one_value) {
                Some(label) => by_label.entry(label).or_default().push(id),
                None => rest.entry(&budget.namespace).or_default().push(id),
            }
        }
        let left = budgets.iter().map(|b| i64::from(b.disruptions_allowed.max(0))).collect();
        Self { budgets, by_label, rest, left }
    }

    /// Returns the budgets that cover a pod.
    pub(super) fn covering(&self, pod: &PodSpec) -> Box<[BudgetId]> {
        if self.budgets.is_empty() {
            return Box::default();
        }
        let labels = pod.labels.iter();
        let near =
            labels.filter_map(|(key, value)| self.by_label.get(&(&*pod.namespace, key, value)));
        let near = near.chain(self.rest.get(&*pod.namespace)).flatten().copied();
        let mut all: Vec<BudgetId> =
            near.filter(|id| self.budgets[*id].selector.matches(&pod.labels)).collect();
        all.sort_unstable();
        all.into()
    }

    /// Returns whether all of these budgets allow a disruption.
    pub(super) fn allow(&self, budgets: &[BudgetId]) -> bool {
        budgets.iter().all(|id| self.left[*id] > 0)
    }

    /// Takes one disruption from each of these budgets. They may become negative for pods that are evicted regardless.
    pub(super) fn spend(&mut self, budgets: &[BudgetId]) {
        budgets.iter().for_each(|id| self.left[*id] -= 1);
    }

    /// Returns the disruptions of a pod that stays after all.
    pub(super) fn return_to(&mut self, budgets: &[BudgetId]) {
        budgets.iter().for_each(|id| self.left[*id] += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::LabelSelector;

    #[test]
    fn a_budget_covers_the_pods_it_selects_in_its_namespace() {
        let budget = |namespace: &str, app: &str, disruptions_allowed| Budget {
            namespace: namespace.into(),
            name: app.into(),
            selector: LabelSelector::of_labels([("app", app)]),
            disruptions_allowed,
            ..Budget::default()
        };
        let all =
            [budget("a", "x", 1), budget("a", "y", 1), budget("b", "x", 1), budget("a", "x", 0)];
        let mut budgets = Budgets::new(&all[..3]);
        let pod = PodSpec {
            namespace: "a".into(),
            labels: [("app", "x")].into_iter().collect(),
            ..PodSpec::default()
        };
        assert_eq!(*budgets.covering(&pod), [0]);
        assert!(budgets.allow(&[0]));
        budgets.spend(&[0]);
        assert!(!budgets.allow(&[0]) && budgets.allow(&[1]));
        budgets.return_to(&[0]);
        assert!(budgets.allow(&[0]));
        let everything = Budget { selector: LabelSelector::default(), ..budget("a", "all", 1) };
        let broad = [everything, budget("a", "x", 1)];
        assert_eq!(
            *Budgets::new(&broad).covering(&pod),
            [0, 1],
            "one that selects all pods counts"
        );
        let strict = Budgets::new(&all);
        assert_eq!(*strict.covering(&pod), [0, 3], "two budgets over one pod both count");
        assert!(!strict.allow(&[0, 3]));
    }
}
