//! Rolls a fleet out from old sets to a new one.

use std::sync::Arc;

use super::Amount;

/// `spec.strategy` of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Old servers are deleted first.
    Recreate,
    /// A few at a time.
    RollingUpdate {
        /// `maxSurge`.
        max_surge: Amount,
        /// `maxUnavailable`.
        max_unavailable: Amount,
    },
}

/// The server counts in `status` of a GameServerSet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetCounts {
    /// Servers that are not being deleted.
    pub replicas: i32,
    /// Those in state Ready.
    pub ready: i32,
    /// Those in state Reserved.
    pub reserved: i32,
    /// Those in state Allocated.
    pub allocated: i32,
    /// Those that are shutting down.
    pub shutdown: i32,
}

/// One of a fleet's sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetView {
    /// Its name; empty for one that does not exist yet.
    pub name: Arc<str>,
    /// `spec.replicas`.
    pub replicas: i32,
    /// `status`.
    pub status: SetCounts,
}

/// The new sizes of a fleet's sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// `spec.replicas` of the set with the current template.
    pub active: i32,
    /// The new `spec.replicas` of each other set whose size changes, in the order given.
    pub resize: Vec<(Arc<str>, i32)>,
    /// Other sets that are empty and are deleted.
    pub delete: Vec<Arc<str>>,
}

/// Decides the sizes of a fleet's sets. `replicas` is the fleet's `spec.replicas` and `ready` its `status.readyReplicas`; `active`
/// is the set with the current template, `rest` are the others, oldest first.
pub fn rollout(
    replicas: i32,
    ready: i32,
    update: Update,
    active: &SetView,
    rest: &[SetView],
) -> Rollout {
    let (target, sizes) = targets(replicas, ready, update, active, rest);
    let resized = rest.iter().zip(sizes).filter(|(set, size)| set.replicas != *size);
    let is_empty = |set: &&SetView| set.status.replicas == 0 && set.status.shutdown == 0;
    Rollout {
        active: target.max(0),
        resize: resized.map(|(set, size)| (Arc::clone(&set.name), size)).collect(),
        delete: rest.iter().filter(is_empty).map(|set| Arc::clone(&set.name)).collect(),
    }
}

fn targets(
    replicas: i32,
    ready: i32,
    update: Update,
    active: &SetView,
    rest: &[SetView],
) -> (i32, Vec<i32>) {
    let same = || rest.iter().map(|set| set.replicas).collect();
    if rest.is_empty() {
        return (replicas, Vec::new());
    }
    if sum(rest, |set| set.replicas) == 0 {
        let held = sum(rest, |set| set.status.reserved.saturating_add(set.status.allocated));
        return (replicas.saturating_sub(held), same());
    }
    match update {
        Update::Recreate => {
            let allocated = sum(rest, |set| set.status.allocated);
            (replicas.saturating_sub(allocated), vec![0; rest.len()])
        }
        Update::RollingUpdate { max_surge, max_unavailable } => {
            let surge = max_surge.resolve(replicas, Round::Up);
            let unavailable = max_unavailable.resolve(ready, Round::Down).max(1).min(replicas);
            let target = grow(replicas, surge, active, rest);
            (target, shrink(replicas, ready, unavailable, active, rest))
        }
    }
}

/// Returns the current size of the new set.
fn grow(replicas: i32, surge: i32, active: &SetView, rest: &[SetView]) -> i32 {
    if active.replicas != active.status.replicas {
        return active.replicas;
    }
    if replicas == 0 {
        return 0;
    }
    let allocated = sum(rest, |set| set.status.allocated);
    if active.replicas >= replicas.saturating_sub(allocated) {
        return replicas.saturating_sub(allocated);
    }
    let mut target = active.replicas.saturating_add(surge).min(replicas);
    let total = sum(rest, |set| set.status.replicas).saturating_add(target);
    let most = replicas.saturating_add(surge);
    if total > most {
        target = target.saturating_sub(total.saturating_sub(most)).max(0);
    }
    if target.saturating_add(allocated) > replicas {
        target = replicas.saturating_sub(allocated).max(0);
    }
    target
}

/// Returns the remaining size of each old set.
fn shrink(
    replicas: i32,
    ready: i32,
    unavailable: i32,
    active: &SetView,
    rest: &[SetView],
) -> Vec<i32> {
    let mut sizes: Vec<i32> = rest.iter().map(|set| set.replicas).collect();
    let all_ready = sum(rest, |set| set.status.ready).saturating_add(active.status.ready);
    let min_available = ready.saturating_sub(unavailable).min(replicas);
    let has = active.status;
    let not_yet = [has.ready, has.reserved, has.allocated, has.shutdown]
        .into_iter()
        .fold(active.replicas, i32::saturating_sub);
    let budget = all_ready.saturating_sub(min_available).saturating_sub(not_yet);
    if budget <= 0 {
        return sizes;
    }
    remove_unhealthy(&mut sizes, budget, rest);
    remove_ready(&mut sizes, all_ready.saturating_sub(min_available), rest);
    sizes
}

/// Removes servers that are not Ready first.
fn remove_unhealthy(sizes: &mut [i32], budget: i32, rest: &[SetView]) {
    let mut left = budget;
    for (size, set) in sizes.iter_mut().zip(rest) {
        let healthy = [set.status.ready, set.status.allocated, set.status.reserved];
        let unhealthy = healthy.into_iter().fold(*size, i32::saturating_sub).clamp(0, left);
        if *size > 0 {
            *size -= unhealthy;
            left -= unhealthy;
        }
    }
}

/// Removes Ready servers, set by set; waits for a set that is still changing.
fn remove_ready(sizes: &mut [i32], total: i32, rest: &[SetView]) {
    let mut left = total;
    for (size, set) in sizes.iter_mut().zip(rest) {
        if left <= 0 || (*size > 0 && *size != set.status.replicas) {
            return;
        }
        if *size <= 0 || set.status.shutdown != 0 {
            continue;
        }
        let fewer = left.min(*size);
        let only_players = set.status.replicas == set.status.allocated;
        *size = if only_players { 0 } else { *size - fewer };
        left -= fewer;
    }
}

fn sum(sets: &[SetView], count: impl Fn(&SetView) -> i32) -> i32 {
    sets.iter().map(count).fold(0, i32::saturating_add)
}

/// How a percentage is rounded.
enum Round {
    Up,
    Down,
}

impl Amount {
    fn resolve(self, whole: i32, round: Round) -> i32 {
        let amount = match (self, round) {
            (Self::Count(count), _) => count,
            (Self::Percent(percent), Round::Up) => {
                (i64::from(whole) * percent + 99).div_euclid(100)
            }
            (Self::Percent(percent), Round::Down) => (i64::from(whole) * percent).div_euclid(100),
        };
        i32::try_from(amount).unwrap_or(i32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUARTER: Update = Update::RollingUpdate {
        max_surge: Amount::Percent(25),
        max_unavailable: Amount::Percent(25),
    };

    /// Returns a complete set with these numbers of Ready, Allocated and Reserved servers.
    fn set(name: &str, ready: i32, allocated: i32, reserved: i32) -> SetView {
        let replicas = ready + allocated + reserved;
        let status = SetCounts { replicas, ready, reserved, allocated, shutdown: 0 };
        SetView { name: name.into(), replicas, status }
    }

    fn sizes(done: &Rollout) -> (i32, Vec<(&str, i32)>) {
        (done.active, done.resize.iter().map(|(name, size)| (&**name, *size)).collect())
    }

    #[test]
    fn without_old_sets_the_active_set_has_the_fleets_size() {
        let done = rollout(7, 7, QUARTER, &set("new", 3, 0, 0), &[]);
        assert_eq!(sizes(&done), (7, vec![]));
    }

    #[test]
    fn servers_in_use_in_old_sets_are_kept() {
        let mut old = set("old", 0, 2, 1);
        old.replicas = 0;
        let done = rollout(5, 5, QUARTER, &set("new", 1, 0, 0), std::slice::from_ref(&old));
        assert_eq!(sizes(&done), (2, vec![]));
        let done = rollout(2, 2, QUARTER, &set("new", 1, 0, 0), &[old]);
        assert_eq!(done.active, 0, "never below 0");
    }

    #[test]
    fn recreate_empties_old_sets_first() {
        let old = [set("a", 3, 2, 0), set("b", 1, 0, 0)];
        let done = rollout(6, 6, Update::Recreate, &set("new", 0, 0, 0), &old);
        assert_eq!(sizes(&done), (4, vec![("a", 0), ("b", 0)]));
    }

    #[test]
    fn empty_old_sets_are_deleted() {
        let mut leaving = set("leaving", 0, 0, 0);
        leaving.status.shutdown = 1;
        let done = rollout(2, 2, QUARTER, &set("new", 2, 0, 0), &[set("gone", 0, 0, 0), leaving]);
        assert_eq!(done.delete.iter().map(|n| &**n).collect::<Vec<_>>(), ["gone"]);
    }

    #[test]
    fn a_rolling_update_surges_by_its_share_rounded_up() {
        for (fleet, surge, up_to) in [(10, 25, 3), (10, 50, 5), (3, 25, 1), (1, 99, 1)] {
            let update = Update::RollingUpdate {
                max_surge: Amount::Percent(surge),
                max_unavailable: Amount::Percent(25),
            };
            let old = [set("old", fleet, 0, 0)];
            let done = rollout(fleet, fleet, update, &set("new", 0, 0, 0), &old);
            assert_eq!(done.active, up_to, "{surge}% of {fleet}");
        }
    }

    #[test]
    fn a_rolling_update_waits_for_its_new_servers() {
        let mut new = set("new", 1, 0, 0);
        new.replicas = 3;
        let done = rollout(10, 11, QUARTER, &new, &[set("old", 10, 0, 0)]);
        assert_eq!(done.active, 3, "two are not there yet");
    }

    #[test]
    fn old_servers_are_removed_within_max_unavailable() {
        // 12 Ready of which a quarter, 3, may be unavailable: 2 more than the fleet needs, and 3 new ones are Ready.
        let done = rollout(10, 12, QUARTER, &set("new", 3, 0, 0), &[set("old", 9, 0, 0)]);
        assert_eq!(done.resize, [(Arc::from("old"), 6)]);
    }

    #[test]
    fn an_old_set_with_only_servers_in_use_is_scaled_to_zero() {
        let done = rollout(4, 4, QUARTER, &set("new", 4, 0, 0), &[set("old", 0, 2, 0)]);
        assert_eq!(done.resize, [(Arc::from("old"), 0)]);
        assert_eq!(done.active, 2, "what old players hold is subtracted");
    }

    #[test]
    fn an_update_ends_with_only_new_servers() {
        let (mut new, mut old) = (set("new", 0, 0, 0), set("old", 10, 0, 0));
        for _ in 0..20 {
            let ready = new.status.ready + old.status.ready;
            let done = rollout(10, ready, QUARTER, &new, std::slice::from_ref(&old));
            assert!(done.active + old.replicas <= 13, "the surge holds");
            new = set("new", done.active, 0, 0);
            let left = done.resize.first().map_or(old.replicas, |(_, size)| *size);
            assert!(new.status.ready + left >= 7, "what may be unavailable holds");
            old = set("old", left, 0, 0);
        }
        assert_eq!((new.replicas, old.replicas), (10, 0));
    }
}
