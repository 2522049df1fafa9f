//! Selects the active set of a fleet and plans the sizes of all.

use std::sync::Arc;

use jiff::Timestamp;

use super::{SetCounts, SetView, Update, rollout};

/// One of a fleet's sets, with the facts that determine whether it is active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetSet {
    /// Its name, size and counts.
    pub view: SetView,
    /// `metadata.creationTimestamp`.
    pub created_at: Option<Timestamp>,
    /// Whether its template equals the fleet's.
    pub has_current_template: bool,
    /// Whether it is being deleted.
    pub is_being_deleted: bool,
    /// Whether it owns game servers, regardless of its counts, which may lag.
    pub has_servers: bool,
}

/// The plan for a fleet's sets. Sets are identified by their index in the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPlan {
    /// The set with the current template: the oldest of several. `None`: it has to be created.
    pub active: Option<usize>,
    /// `spec.replicas` of the active set.
    pub replicas: i32,
    /// The new `spec.replicas` of each other set whose size changes, oldest first.
    pub resize: Vec<(usize, i32)>,
    /// Other sets that are empty and are deleted.
    pub delete: Vec<usize>,
    /// All sets but the active one, oldest first.
    pub rest: Vec<usize>,
}

/// Plans a fleet's sets. `replicas` is the fleet's `spec.replicas` and `ready` its `status.readyReplicas`.
pub fn plan_sets(replicas: i32, ready: i32, update: Update, sets: &[FleetSet]) -> SetPlan {
    let mut rest: Vec<usize> = (0..sets.len()).collect();
    let age = |index: &usize| (sets[*index].created_at, Arc::clone(&sets[*index].view.name));
    rest.sort_by_key(age);
    let is_active =
        |index: &usize| sets[*index].has_current_template && !sets[*index].is_being_deleted;
    let active = rest.iter().position(is_active).map(|at| rest.remove(at));
    let none = SetView { name: "".into(), replicas: 0, status: SetCounts::default() };
    let active_view = active.map_or(&none, |index| &sets[index].view);
    let views: Vec<SetView> = rest.iter().map(|index| sets[*index].view.clone()).collect();
    let done = rollout(replicas, ready, update, active_view, &views);
    let find = |name: &Arc<str>| rest.iter().copied().find(|index| sets[*index].view.name == *name);
    let is_removable = |index: &usize| !sets[*index].has_servers && !sets[*index].is_being_deleted;
    SetPlan {
        active,
        replicas: done.active,
        resize: done.resize.iter().filter_map(|(name, to)| Some((find(name)?, *to))).collect(),
        delete: done.delete.iter().filter_map(find).filter(is_removable).collect(),
        rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Amount;

    const QUARTER: Update = Update::RollingUpdate {
        max_surge: Amount::Percent(25),
        max_unavailable: Amount::Percent(25),
    };

    /// Returns a set of Ready servers, created at a certain second.
    fn set(name: &str, second: i64, ready: i32) -> FleetSet {
        let status = SetCounts { replicas: ready, ready, ..SetCounts::default() };
        FleetSet {
            view: SetView { name: name.into(), replicas: ready, status },
            created_at: Timestamp::from_second(second).ok(),
            has_current_template: false,
            is_being_deleted: false,
            has_servers: ready > 0,
        }
    }

    fn current(set: FleetSet) -> FleetSet {
        FleetSet { has_current_template: true, ..set }
    }

    fn marked(set: FleetSet) -> FleetSet {
        FleetSet { is_being_deleted: true, ..set }
    }

    #[test]
    fn the_oldest_set_with_the_current_template_is_active() {
        for (sets, active, rest) in [
            (vec![], None, vec![]),
            (vec![set("a", 1, 2)], None, vec![0]),
            (vec![set("a", 1, 2), current(set("b", 2, 0))], Some(1), vec![0]),
            (vec![current(set("b", 2, 0)), current(set("a", 1, 0))], Some(1), vec![0]),
            (vec![current(set("b", 1, 0)), current(set("a", 1, 0))], Some(1), vec![0]),
            (vec![marked(current(set("a", 1, 0))), current(set("b", 2, 0))], Some(1), vec![0]),
            (vec![marked(current(set("a", 1, 0)))], None, vec![0]),
            (vec![set("c", 3, 1), set("a", 1, 1), set("b", 2, 1)], None, vec![1, 2, 0]),
        ] {
            let plan = plan_sets(4, 4, QUARTER, &sets);
            assert_eq!((plan.active, plan.rest), (active, rest), "{sets:?}");
        }
    }

    #[test]
    fn only_a_set_without_servers_is_deleted_and_only_once() {
        let lagging = FleetSet { has_servers: true, ..set("b", 2, 0) };
        let sets = [current(set("a", 1, 4)), lagging, marked(set("c", 3, 0)), set("d", 4, 0)];
        assert_eq!(plan_sets(4, 4, QUARTER, &sets).delete, [3]);
    }

    #[test]
    fn sizes_are_those_of_the_rollout() {
        let sets = [set("old", 1, 9), current(set("new", 2, 3))];
        let plan = plan_sets(10, 12, QUARTER, &sets);
        let done = rollout(10, 12, QUARTER, &sets[1].view, &[sets[0].view.clone()]);
        assert_eq!((plan.replicas, plan.resize), (done.active, vec![(0, 6)]));
    }
}
