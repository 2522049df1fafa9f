//! Shares a change of a Deployment's size among its sets in the middle of a rollout.
//!
//! In proportion to their sizes; what rounding leaves over goes to the largest.

use std::cmp::Reverse;

use super::rollout::{Resize, SetSize};

/// Returns a size for each of the active sets, so that together they have `replicas` plus `max_surge`.
pub(super) fn share(replicas: i32, max_surge: i32, mut active: Vec<&SetSize>) -> Vec<Resize> {
    let allowed = if replicas > 0 { replicas + max_surge } else { 0 };
    let to_add = allowed - active.iter().map(|set| set.replicas).sum::<i32>();
    // Growth prefers the newer of two sets of the same size, shrinking the older.
    if to_add > 0 {
        active.sort_by_key(|set| Reverse((set.replicas, set.created_at)));
    } else {
        active.sort_by_key(|set| (Reverse(set.replicas), set.created_at));
    }
    let actual = active.iter().map(|set| set.actual).sum();
    let mut added = 0;
    let mut sizes: Vec<Resize> = Vec::with_capacity(active.len());
    for set in &active {
        let left = to_add - added;
        let part = proportion(set, replicas, max_surge, actual);
        let part = if to_add > 0 { part.min(left) } else { part.max(left) };
        let part = if to_add == 0 || left == 0 { 0 } else { part };
        added += part;
        sizes.push(Resize::new(set, set.replicas + part));
    }
    if let Some(largest) = sizes.first_mut() {
        largest.replicas = (largest.replicas + to_add - added).max(0);
    }
    sizes
}

/// Returns the change of a set that keeps its share of the whole.
fn proportion(set: &SetSize, replicas: i32, max_surge: i32, actual: i32) -> i32 {
    if replicas == 0 {
        return -set.replicas;
    }
    let before = set.max.filter(|max| *max > 0).unwrap_or(actual).max(1);
    let size = f64::from(set.replicas) * f64::from(replicas + max_surge) / f64::from(before);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a rounded number of pods; the cast saturates"
    )]
    let size = size.round() as i32;
    size - set.replicas
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::testing::set;

    #[test]
    fn the_whole_change_is_shared_and_no_more() {
        for (sizes, max, replicas, surge, expected) in [
            (vec![("a", 5), ("b", 5)], 10, 20, 0, vec![("b", 10), ("a", 10)]),
            (vec![("a", 5), ("b", 5)], 10, 6, 0, vec![("a", 3), ("b", 3)]),
            (vec![("a", 8), ("b", 5)], 13, 15, 3, vec![("a", 11), ("b", 7)]),
            (vec![("a", 5), ("b", 3)], 8, 0, 0, vec![("a", 0), ("b", 0)]),
            (vec![("a", 5), ("b", 5)], 10, 10, 0, vec![("a", 5), ("b", 5)]),
            (vec![("a", 4), ("b", 4), ("c", 4)], 12, 13, 0, vec![("c", 5), ("b", 4), ("a", 4)]),
        ] {
            let sets: Vec<SetSize> =
                sizes.iter().map(|(name, n)| SetSize { max: Some(max), ..set(name, *n) }).collect();
            let shared = share(replicas, surge, sets.iter().collect());
            let shared: Vec<_> = shared.iter().map(|r| (r.name.as_str(), r.replicas)).collect();
            assert_eq!(shared, expected, "{sizes:?} to {replicas}");
        }
    }
}
