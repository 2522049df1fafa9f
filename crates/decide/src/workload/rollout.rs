//! The size of each ReplicaSet of a Deployment during a rollout.
//!
//! Never more pods than desired plus surge, never fewer available ones than desired minus unavailable. One step at a time: the status
//! of the sets determines when the next is due.

use jiff::Timestamp;

use super::deployment::Spec;
use super::{IntOrPercent, proportional};

/// How the pods of a Deployment are replaced, with the numbers for its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// All old pods end before the first new one starts.
    Recreate,
    /// Step by step.
    RollingUpdate {
        /// The most pods above the desired number.
        max_surge: i32,
        /// The most pods below the desired number that are available.
        max_unavailable: i32,
    },
}

impl Strategy {
    /// Returns a rolling update of so many replicas. If neither surge nor unavailability is allowed, one may be unavailable: otherwise
    /// nothing could ever move.
    pub fn rolling(replicas: i32, max_surge: IntOrPercent, max_unavailable: IntOrPercent) -> Self {
        let surge = max_surge.rounded_up(replicas);
        let unavailable = max_unavailable.rounded_down(replicas);
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        Self::RollingUpdate { max_surge: surge, max_unavailable: unavailable.min(replicas) }
    }

    /// Returns the most pods above the desired number.
    pub fn max_surge(self) -> i32 {
        match self {
            Self::Recreate => 0,
            Self::RollingUpdate { max_surge, .. } => max_surge,
        }
    }

    /// Returns the most pods below the desired number that are available.
    pub fn max_unavailable(self) -> i32 {
        match self {
            Self::Recreate => 0,
            Self::RollingUpdate { max_unavailable, .. } => max_unavailable,
        }
    }
}

/// A ReplicaSet of a Deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetSize {
    /// The name.
    pub name: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// `spec.replicas`.
    pub replicas: i32,
    /// `status.replicas`.
    pub actual: i32,
    /// `status.readyReplicas`.
    pub ready: i32,
    /// `status.availableReplicas`.
    pub available: i32,
    /// `status.terminatingReplicas`.
    pub terminating: i32,
    /// The Deployment's replicas when the set was last sized, from its annotation.
    pub desired: Option<i32>,
    /// The most pods of the Deployment when the set was last sized, from its annotation.
    pub max: Option<i32>,
}

/// A set and its new size; the size may be the present one, when only the set's annotations are out of date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resize {
    /// The set's name.
    pub name: String,
    /// The new size.
    pub replicas: i32,
}

impl Resize {
    pub(super) fn new(set: &SetSize, replicas: i32) -> Self {
        Self { name: set.name.clone(), replicas }
    }
}

/// Whether the Deployment was resized since a set of it was: then sets are scaled before the rollout goes on.
pub fn is_scaling(spec: &Spec, sets: &[SetSize]) -> bool {
    let active = sets.iter().filter(|set| set.replicas > 0);
    active.filter_map(|set| set.desired).any(|desired| desired != spec.replicas)
}

/// Returns the size of the set with the present template, of `present` replicas (0 if it is to be created).
pub fn size_of_new_set(spec: &Spec, present: i32, old: &[SetSize]) -> i32 {
    match spec.strategy {
        Strategy::Recreate => spec.replicas,
        Strategy::RollingUpdate { .. } if present >= spec.replicas => spec.replicas,
        Strategy::RollingUpdate { max_surge, .. } => {
            let room = spec.replicas + max_surge - total(old) - present;
            present + room.clamp(0, spec.replicas - present)
        }
    }
}

/// Returns the next step of a rolling update: the new set grows, or else the old ones shrink. Nothing is left to do now if it is empty.
pub fn rolling(spec: &Spec, new: &SetSize, old: &[SetSize]) -> Vec<Resize> {
    let size = size_of_new_set(spec, new.replicas, old);
    if size != new.replicas {
        return vec![Resize::new(new, size)];
    }
    shrink_old(spec, new, old)
}

/// Shrinks the old sets: first by the pods that are not available, then by available ones that are no longer needed.
fn shrink_old(spec: &Spec, new: &SetSize, old: &[SetSize]) -> Vec<Resize> {
    let min_available = spec.replicas - spec.strategy.max_unavailable();
    let new_unavailable = new.replicas - new.available;
    let removable = total(old) + new.replicas - min_available - new_unavailable;
    if total(old) == 0 || removable <= 0 {
        return Vec::new();
    }
    let mut sizes: Vec<(&SetSize, i32)> = old.iter().map(|set| (set, set.replicas)).collect();
    sizes.sort_by(|(a, _), (b, _)| (a.created_at, &a.name).cmp(&(b.created_at, &b.name)));
    let mut unhealthy = removable;
    for (set, size) in &mut sizes {
        let gone = (*size - set.available).clamp(0, unhealthy);
        *size -= gone;
        unhealthy -= gone;
    }
    let available = new.available + old.iter().map(|set| set.available).sum::<i32>();
    let mut healthy = (available - min_available).max(0);
    for (_, size) in &mut sizes {
        let gone = (*size).min(healthy);
        *size -= gone;
        healthy -= gone;
    }
    let changed = sizes.into_iter().filter(|(set, size)| set.replicas != *size);
    changed.map(|(set, size)| Resize::new(set, size)).collect()
}

/// Returns the next step of a Recreate: the old sets shrink to nothing, and once none of their pods runs the new one grows.
pub fn recreate(
    spec: &Spec,
    new: Option<&SetSize>,
    old: &[SetSize],
    old_pods_run: bool,
) -> Vec<Resize> {
    let active: Vec<&SetSize> = old.iter().filter(|set| set.replicas > 0).collect();
    if !active.is_empty() {
        return active.into_iter().map(|set| Resize::new(set, 0)).collect();
    }
    let new = new.filter(|new| !old_pods_run && new.replicas != spec.replicas);
    new.map(|new| Resize::new(new, spec.replicas)).into_iter().collect()
}

/// Resizes the sets of a Deployment whose own size has changed, or which is paused: the only active set takes all of it, and several
/// share it in proportion to their sizes.
pub fn scale(spec: &Spec, new: Option<&SetSize>, old: &[SetSize]) -> Vec<Resize> {
    let active: Vec<&SetSize> = old.iter().chain(new).filter(|set| set.replicas > 0).collect();
    let latest = || old.iter().max_by_key(|set| set.created_at);
    let only = match active.as_slice() {
        [] => new.or_else(latest),
        [only] => Some(*only),
        _ => None,
    };
    if let Some(only) = only {
        // Also with its present size: the set notes the Deployment's size, so that the rollout goes on.
        return vec![Resize::new(only, spec.replicas)];
    }
    if new.is_some_and(|new| is_saturated(spec, new)) {
        return old.iter().filter(|set| set.replicas > 0).map(|set| Resize::new(set, 0)).collect();
    }
    match spec.strategy {
        Strategy::Recreate => Vec::new(),
        Strategy::RollingUpdate { max_surge, .. } => {
            proportional::share(spec.replicas, max_surge, active)
        }
    }
}

/// Whether the new set alone is all that is desired.
fn is_saturated(spec: &Spec, new: &SetSize) -> bool {
    [Some(new.replicas), new.desired, Some(new.available)].iter().all(|n| *n == Some(spec.replicas))
}

fn total(sets: &[SetSize]) -> i32 {
    sets.iter().map(|set| set.replicas).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::testing::{rolling as spec, set};

    fn unhealthy(name: &str, replicas: i32, available: i32) -> SetSize {
        SetSize { available, ..set(name, replicas) }
    }

    fn sizes(resized: Vec<Resize>) -> Vec<(String, i32)> {
        resized.into_iter().map(|r| (r.name, r.replicas)).collect()
    }

    #[test]
    fn a_strategy_allows_at_least_one_move() {
        let percent = IntOrPercent::Percent(25);
        for (replicas, max_surge, max_unavailable) in [(0, 0, 0), (1, 1, 0), (4, 1, 1), (10, 3, 2)]
        {
            let expected = Strategy::RollingUpdate { max_surge, max_unavailable };
            assert_eq!(Strategy::rolling(replicas, percent, percent), expected, "{replicas}");
        }
        let nothing = Strategy::rolling(3, IntOrPercent::Int(0), IntOrPercent::Percent(1));
        assert_eq!(nothing, Strategy::RollingUpdate { max_surge: 0, max_unavailable: 1 });
    }

    #[test]
    fn the_new_set_grows_as_far_as_surge_allows() {
        for (replicas, surge, present, old, size) in [
            (10, 3, 0, 10, 3),
            (10, 0, 0, 10, 0),
            (10, 3, 3, 8, 5),
            (3, 1, 0, 0, 3),
            (3, 1, 5, 0, 3),
            (10, 2, 4, 20, 4),
        ] {
            assert_eq!(size_of_new_set(&spec(replicas, surge, 0), present, &[set("o", old)]), size);
        }
    }

    #[test]
    fn old_sets_shrink_while_enough_pods_are_available() {
        let spec = spec(10, 0, 2);
        for (new, old, expected) in [
            (set("new", 0), vec![set("o", 10)], vec![("o", 8)]),
            // Nothing is given up for new pods that are not available.
            (unhealthy("new", 2, 0), vec![set("o", 8)], vec![]),
            (unhealthy("new", 2, 1), vec![set("o", 8)], vec![("o", 7)]),
            // Pods that are not available go first, whatever is available.
            (set("new", 0), vec![unhealthy("o", 10, 3)], vec![("o", 8)]),
            // The older set goes first.
            (set("new", 4), vec![set("b", 3), set("a", 3)], vec![("a", 1)]),
        ] {
            let expected: Vec<_> = expected.into_iter().map(|(n, s)| (n.to_owned(), s)).collect();
            assert_eq!(sizes(shrink_old(&spec, &new, &old)), expected, "{new:?} {old:?}");
        }
    }

    #[test]
    fn a_rollout_finishes_within_its_bounds() {
        for (replicas, surge, unavailable) in
            [(1, 1, 0), (1, 0, 1), (10, 3, 2), (7, 0, 1), (5, 5, 5), (100, 25, 25)]
        {
            let spec = spec(replicas, surge, unavailable);
            let (mut new, mut old) = (set("new", 0), set("o", replicas));
            for _ in 0..1000 {
                let steps = rolling(&spec, &new, std::slice::from_ref(&old));
                if steps.is_empty() {
                    break;
                }
                for step in steps {
                    let set = if step.name == "new" { &mut new } else { &mut old };
                    *set = SetSize {
                        created_at: set.created_at,
                        ..super::tests::set(&step.name, step.replicas)
                    };
                }
                assert!(new.replicas + old.replicas <= replicas + surge, "{spec:?}");
                assert!(new.available + old.available >= replicas - unavailable, "{spec:?}");
            }
            assert_eq!((new.replicas, old.replicas), (replicas, 0), "{spec:?}");
        }
    }

    #[test]
    fn recreate_waits_until_no_old_pod_runs() {
        let spec = Spec { strategy: Strategy::Recreate, ..spec(3, 0, 0) };
        let (new, old, none) = (set("new", 0), [set("o", 3)], [set("o", 0)]);
        assert_eq!(sizes(recreate(&spec, Some(&new), &old, true)), [("o".to_owned(), 0)]);
        assert_eq!(recreate(&spec, Some(&new), &none, true), []);
        assert_eq!(sizes(recreate(&spec, Some(&new), &none, false)), [("new".to_owned(), 3)]);
    }

    #[test]
    fn a_new_size_goes_to_the_only_active_set_or_to_all_in_proportion() {
        let spec = spec(20, 0, 1);
        let of = |set: SetSize| SetSize { desired: Some(10), max: Some(10), ..set };
        let new = of(set("new", 4));
        assert!(is_scaling(&spec, std::slice::from_ref(&new)));
        assert_eq!(sizes(scale(&spec, Some(&new), &[set("o", 0)])), [("new".to_owned(), 20)]);
        let shared = sizes(scale(&spec, Some(&new), &[of(set("o", 6))]));
        assert_eq!(shared, [("o".to_owned(), 12), ("new".to_owned(), 8)]);
        let done = SetSize { desired: Some(20), ..set("new", 20) };
        assert_eq!(sizes(scale(&spec, Some(&done), &[set("o", 6)])), [("o".to_owned(), 0)]);
    }
}
