//! How many pods may still be moved without breaking a disruption budget.

use std::collections::BTreeMap;

use super::{Budget, PodSpec};

/// A budget, by its place in the cluster's list.
pub(super) type BudgetId = usize;

/// The budgets, and what is left of each.
#[derive(Clone, Debug)]
pub(super) struct Budgets<'a> {
    budgets: &'a [Budget],
    by_namespace: BTreeMap<&'a str, Vec<BudgetId>>,
    left: Vec<i64>,
}

impl<'a> Budgets<'a> {
    /// Starts with what each budget allows now.
    pub(super) fn new(budgets: &'a [Budget]) -> Self {
        let mut by_namespace: BTreeMap<&str, Vec<BudgetId>> = BTreeMap::new();
        for (id, budget) in budgets.iter().enumerate() {
            by_namespace.entry(&budget.namespace).or_default().push(id);
        }
        let left = budgets.iter().map(|b| i64::from(b.disruptions_allowed.max(0))).collect();
        Self { budgets, by_namespace, left }
    }

    /// Lists the budgets that cover a pod.
    pub(super) fn covering(&self, pod: &PodSpec) -> Box<[BudgetId]> {
        let near = self.by_namespace.get(&*pod.namespace).into_iter().flatten().copied();
        near.filter(|id| self.budgets[*id].selector.matches(&pod.labels)).collect()
    }

    /// Tells whether each of these budgets has something left.
    pub(super) fn allow(&self, budgets: &[BudgetId]) -> bool {
        budgets.iter().all(|id| self.left[*id] > 0)
    }

    /// Takes one disruption off each of these budgets. It may go below nothing for pods that move in spite of them.
    pub(super) fn spend(&mut self, budgets: &[BudgetId]) {
        budgets.iter().for_each(|id| self.left[*id] -= 1);
    }

    /// Gives back what was spent on a pod that stays after all.
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
        let strict = Budgets::new(&all);
        assert_eq!(*strict.covering(&pod), [0, 3], "two budgets over one pod both count");
        assert!(!strict.allow(&[0, 3]));
    }
}
