//! How a fleet moves from old sets of servers to a new one.

use std::sync::Arc;

use super::Amount;

/// `spec.strategy` of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Old servers go first.
    Recreate,
    /// A few at a time.
    RollingUpdate {
        /// `maxSurge`.
        max_surge: Amount,
        /// `maxUnavailable`.
        max_unavailable: Amount,
    },
}

/// `status` of a GameServerSet.
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
    /// Servers on their way out.
    pub shutdown: i32,
}

/// One of a fleet's sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetView {
    /// Its name; empty for one that is yet to be made.
    pub name: Arc<str>,
    /// `spec.replicas`.
    pub replicas: i32,
    /// `status`.
    pub status: SetCounts,
}

/// What becomes of a fleet's sets in one pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// `spec.replicas` of the set with the present template.
    pub active: i32,
    /// The new `spec.replicas` of each other set whose size changes, in the order given.
    pub resize: Vec<(Arc<str>, i32)>,
    /// The other sets that are empty and go.
    pub delete: Vec<Arc<str>>,
}

/// Decides the sizes of a fleet's sets. `replicas` is the fleet's `spec.replicas` and `ready` its `status.readyReplicas`; `active`
/// is the set with the present template, `rest` are the others, oldest first.
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
        return (replicas - sum(rest, |set| set.status.reserved + set.status.allocated), same());
    }
    match update {
        Update::Recreate => (replicas - sum(rest, |set| set.status.allocated), vec![0; rest.len()]),
        Update::RollingUpdate { max_surge, max_unavailable } => {
            let surge = max_surge.of(replicas, Round::Up);
            let unavailable = max_unavailable.of(ready, Round::Down).max(1).min(replicas);
            let target = grow(replicas, surge, active, rest);
            (target, shrink(replicas, ready, unavailable, active, rest))
        }
    }
}

/// How many servers the new set may have by now.
fn grow(replicas: i32, surge: i32, active: &SetView, rest: &[SetView]) -> i32 {
    if active.replicas != active.status.replicas {
        return active.replicas;
    }
    if replicas == 0 {
        return 0;
    }
    let allocated = sum(rest, |set| set.status.allocated);
    if active.replicas >= replicas - allocated {
        return replicas - allocated;
    }
    let mut target = active.replicas.saturating_add(surge).min(replicas);
    let total = sum(rest, |set| set.status.replicas).saturating_add(target);
    let most = replicas.saturating_add(surge);
    if total > most {
        target = (target - (total - most)).max(0);
    }
    if target + allocated > replicas {
        target = (replicas - allocated).max(0);
    }
    target
}

/// How many servers each old set may still have.
fn shrink(
    replicas: i32,
    ready: i32,
    unavailable: i32,
    active: &SetView,
    rest: &[SetView],
) -> Vec<i32> {
    let mut sizes: Vec<i32> = rest.iter().map(|set| set.replicas).collect();
    let all_ready = sum(rest, |set| set.status.ready) + active.status.ready;
    let min_available = (ready - unavailable).min(replicas);
    let has = active.status;
    let not_yet = active.replicas - has.ready - has.reserved - has.allocated - has.shutdown;
    let budget = all_ready - min_available - not_yet;
    if budget <= 0 {
        return sizes;
    }
    remove_unhealthy(&mut sizes, budget, rest);
    remove_ready(&mut sizes, all_ready - min_available, rest);
    sizes
}

/// Takes away first what no player could use anyway.
fn remove_unhealthy(sizes: &mut [i32], budget: i32, rest: &[SetView]) {
    let mut left = budget;
    for (size, set) in sizes.iter_mut().zip(rest) {
        let healthy = set.status.ready + set.status.allocated + set.status.reserved;
        let unhealthy = (*size - healthy).clamp(0, left);
        if *size > 0 {
            *size -= unhealthy;
            left -= unhealthy;
        }
    }
}

/// Takes away Ready servers, set by set; a set that is still moving is waited for.
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

fn sum(sets: &[SetView], of: impl Fn(&SetView) -> i32) -> i32 {
    sets.iter().map(of).fold(0, i32::saturating_add)
}

/// Which way a percentage of servers is rounded.
enum Round {
    Up,
    Down,
}

impl Amount {
    fn of(self, whole: i32, round: Round) -> i32 {
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
