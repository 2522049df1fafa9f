//! Which servers go first when a fleet shrinks.
//!
//! A walk rarely needs the whole order, so servers of a node are sorted only when the walk gets there.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::Scheduling;
use crate::gameserver::{GameServer, Missing, Occupancy, Priority, State};

/// Gives `servers` in the order in which they would be deleted.
///
/// Packed empties the least busy node first, so that nodes fall free. Distributed goes by the priorities over the whole
/// set, and then by age: the oldest first.
pub fn deletion_order<'a>(
    servers: impl IntoIterator<Item = &'a GameServer>,
    scheduling: Scheduling,
    priorities: &[Priority],
    nodes: &Occupancy,
) -> impl Iterator<Item = &'a GameServer> {
    let servers = servers.into_iter();
    let groups = match scheduling {
        Scheduling::Packed => by_node(servers, nodes),
        Scheduling::Distributed => vec![servers.collect()],
    };
    groups.into_iter().flat_map(move |mut group| {
        sort(&mut group, scheduling, priorities);
        group
    })
}

/// Groups servers by node: nodes nobody knows first, then the least busy, then by name.
///
/// Upstream leaves the order among servers on unknown nodes to chance; here they go node by node as well.
fn by_node<'a>(
    servers: impl Iterator<Item = &'a GameServer>,
    nodes: &Occupancy,
) -> Vec<Vec<&'a GameServer>> {
    let mut groups: BTreeMap<&str, Vec<&GameServer>> = BTreeMap::new();
    servers.for_each(|server| groups.entry(&server.node).or_default().push(server));
    let mut groups: Vec<_> = groups.into_iter().collect();
    // The sort is stable, and the groups come out of the map by name.
    groups.sort_by_key(|(node, _)| nodes.load(node).map(|load| load.total()));
    groups.into_iter().map(|(_, group)| group).collect()
}

/// A server with the numbers it is compared by.
struct Ranked<'a> {
    server: &'a GameServer,
    numbers: Vec<Option<i64>>,
}

fn sort(group: &mut Vec<&GameServer>, scheduling: Scheduling, priorities: &[Priority]) {
    let rank =
        |server| Ranked { server, numbers: priorities.iter().map(|p| p.number(server)).collect() };
    let mut ranked: Vec<Ranked<'_>> = group.drain(..).map(rank).collect();
    let compare = |a: &Ranked<'_>, b: &Ranked<'_>| match scheduling {
        Scheduling::Packed => unready_first(a.server, b.server)
            .then_with(|| by_numbers(priorities, a, b))
            .then_with(|| a.server.name.cmp(&b.server.name)),
        Scheduling::Distributed => by_numbers(priorities, a, b)
            .then_with(|| a.server.created_at.cmp(&b.server.created_at))
            .then_with(|| a.server.name.cmp(&b.server.name)),
    };
    if is_total(&ranked, scheduling, priorities) {
        ranked.sort_unstable_by(compare);
    } else {
        ranked.sort_unstable_by(|a, b| a.server.name.cmp(&b.server.name));
        merge_sort(&mut ranked, &compare);
    }
    group.extend(ranked.into_iter().map(|r| r.server));
}

/// Prefers a server that has yet to become Ready over a Ready one; others are not compared by state.
fn unready_first(a: &GameServer, b: &GameServer) -> Ordering {
    if a.state.is_before_ready() && b.state == State::Ready {
        Ordering::Less
    } else if b.state.is_before_ready() && a.state == State::Ready {
        Ordering::Greater
    } else {
        Ordering::Equal
    }
}

fn by_numbers(priorities: &[Priority], a: &Ranked<'_>, b: &Ranked<'_>) -> Ordering {
    let pairs = a.numbers.iter().zip(&b.numbers);
    let mut compared = priorities.iter().zip(pairs).map(|(p, (a, b))| p.compare_numbers(*a, *b));
    compared.find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
}

/// Whether the comparison contradicts itself nowhere in this group. Two of upstream's rules can: a server that is neither Ready
/// nor on its way there is compared with both by name, and a priority without an order skips servers without the key.
fn is_total(group: &[Ranked<'_>], scheduling: Scheduling, priorities: &[Priority]) -> bool {
    let skips = priorities.iter().any(|p| p.missing == Missing::Undecided);
    let has = |is: fn(State) -> bool| group.iter().any(|r| is(r.server.state));
    let cycles = scheduling == Scheduling::Packed
        && has(State::is_before_ready)
        && has(|s| s == State::Ready)
        && has(|s| !s.is_before_ready() && s != State::Ready);
    !skips && !cycles
}

/// Sorts by a comparison that may contradict itself: the answer depends on the input alone, and the standard library's right
/// to panic on such a comparison is not called upon.
fn merge_sort<T>(items: &mut Vec<T>, compare: &impl Fn(&T, &T) -> Ordering) {
    if items.len() < 2 {
        return;
    }
    let mut back = items.split_off(items.len() / 2);
    merge_sort(items, compare);
    merge_sort(&mut back, compare);
    let mut merged = Vec::with_capacity(items.len() + back.len());
    let (mut left, mut right) = (items.drain(..).peekable(), back.into_iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        let next = if compare(a, b).is_le() { left.next() } else { right.next() };
        merged.extend(next);
    }
    merged.extend(left);
    merged.extend(right);
    *items = merged;
}
