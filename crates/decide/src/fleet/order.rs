//! The order in which servers are deleted when a fleet scales down.
//!
//! A caller rarely needs the whole order, so it is sorted lazily.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Scheduling;
use crate::gameserver::{GameServer, Missing, Occupancy, Priority, Rank, State};

/// Returns `servers` in deletion order.
///
/// Servers on nodes that the node autoscaler does not need come first, in the order in which it removes nodes: the longest unneeded
/// first. Then Packed empties the least busy node first, so that nodes become free. Distributed compares priorities over the whole
/// set, and then age: the oldest first.
pub fn deletion_order<'a, 'p, S: IntoIterator<Item = &'a GameServer>>(
    servers: S,
    scheduling: Scheduling,
    priorities: &'p [Priority],
    nodes: &Occupancy,
) -> impl Iterator<Item = &'a GameServer> + use<'a, 'p, S> {
    let servers = servers.into_iter();
    let groups = match scheduling {
        Scheduling::Packed => by_node(servers, nodes),
        Scheduling::Distributed => by_need(servers, nodes),
    };
    groups.into_iter().flat_map(move |group| sorted(group, scheduling, priorities))
}

/// Groups servers by how long their nodes have been unneeded; those on needed nodes come last.
fn by_need<'a>(
    servers: impl Iterator<Item = &'a GameServer>,
    nodes: &Occupancy,
) -> Vec<Vec<&'a GameServer>> {
    let mut groups: BTreeMap<Timestamp, Vec<&GameServer>> = BTreeMap::new();
    for server in servers {
        groups.entry(need(server.node.as_ref(), nodes)).or_default().push(server);
    }
    groups.into_values().collect()
}

/// Returns since when a node has been unneeded; the latest possible time for one that is needed.
fn need(node: &str, nodes: &Occupancy) -> Timestamp {
    nodes.unneeded_since(node).unwrap_or(Timestamp::MAX)
}

/// Groups servers by node: unknown nodes first, then the longest unneeded, then the least busy, then by name.
///
/// Agones orders servers on unknown nodes randomly; here they are grouped by node as well.
fn by_node<'a>(
    servers: impl Iterator<Item = &'a GameServer>,
    nodes: &Occupancy,
) -> Vec<Vec<&'a GameServer>> {
    let mut groups: BTreeMap<(u64, &str), Vec<&GameServer>> = BTreeMap::new();
    for server in servers {
        groups.entry((tail(&server.node), &server.node)).or_default().push(server);
    }
    let mut groups: Vec<_> = groups.into_iter().map(|((_, node), group)| (node, group)).collect();
    groups.sort_by_cached_key(|(node, _)| {
        let load = nodes.load(node).map(|load| load.total());
        (load.is_some(), need(node, nodes), load, *node)
    });
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Returns the end of a name as a number. Node names differ at their end, and numbers compare faster than strings.
fn tail(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let last = &bytes[bytes.len().saturating_sub(8)..];
    last.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Sorts the servers of one node, or of a whole set.
fn sorted<'a>(
    group: Vec<&'a GameServer>,
    scheduling: Scheduling,
    priorities: &[Priority],
) -> Box<dyn Iterator<Item = &'a GameServer> + 'a> {
    if is_total(&group, scheduling, priorities) {
        let keys = group.into_iter().map(|server| Key::new(server, scheduling, priorities));
        return Box::new(Lazily::new(keys.collect()));
    }
    let mut group = group;
    group.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    merge_sort(&mut group, &|a: &&GameServer, b: &&GameServer| {
        let by_state = match scheduling {
            Scheduling::Packed => unready_first(a, b),
            Scheduling::Distributed => Ordering::Equal,
        };
        by_state.then_with(|| Priority::compare(priorities, a, b)).then_with(|| match scheduling {
            Scheduling::Packed => a.name.cmp(&b.name),
            Scheduling::Distributed => a.created_at.cmp(&b.created_at),
        })
    });
    Box::new(group.into_iter())
}

/// The sort key of a server, where the comparison is a total order.
struct Key<'a> {
    /// Whether the server was ever Ready, where that is compared, followed by the first priority: that distinguishes most
    /// servers, and one number compares faster than several.
    code: u128,
    others: Box<[Rank]>,
    /// The age, which is only compared for Distributed.
    created_at: Option<Timestamp>,
    server: &'a GameServer,
}

impl<'a> Key<'a> {
    fn new(server: &'a GameServer, scheduling: Scheduling, priorities: &[Priority]) -> Self {
        let mut ranks = priorities.iter().map(|p| p.rank(server));
        let is_packed = scheduling == Scheduling::Packed;
        let is_ready = !(is_packed && server.state.is_before_ready());
        Self {
            code: u128::from(is_ready) << 127 | ranks.next().map_or(0, Rank::code),
            others: ranks.collect(),
            created_at: (!is_packed).then_some(server.created_at),
            server,
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.code
            .cmp(&other.code)
            .then_with(|| self.others.cmp(&other.others))
            .then_with(|| self.created_at.cmp(&other.created_at))
            .then_with(|| self.server.name.cmp(&other.server.name))
    }
}

/// Sorts in ever larger pieces, on demand.
struct Lazily<'a> {
    keys: Vec<Key<'a>>,
    next: usize,
    sorted: usize,
}

impl<'a> Lazily<'a> {
    fn new(keys: Vec<Key<'a>>) -> Self {
        Self { keys, next: 0, sorted: 0 }
    }

    fn sort_more(&mut self) {
        let piece = (self.sorted * 3).max(128);
        let rest = &mut self.keys[self.sorted..];
        if piece < rest.len() {
            rest.select_nth_unstable_by(piece, Key::compare);
        }
        let piece = piece.min(rest.len());
        rest[..piece].sort_unstable_by(Key::compare);
        self.sorted += piece;
    }
}

impl<'a> Iterator for Lazily<'a> {
    type Item = &'a GameServer;

    fn next(&mut self) -> Option<&'a GameServer> {
        if self.next == self.sorted {
            self.sort_more();
        }
        let key = self.keys.get(self.next)?;
        self.next += 1;
        Some(key.server)
    }
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

/// Returns whether the comparison is a total order in this group, so that a sort key per server exists. Two of Agones' rules
/// break it: a server that is neither Ready nor starting is compared with both by name, and a priority without an order skips
/// servers without the key.
fn is_total(group: &[&GameServer], scheduling: Scheduling, priorities: &[Priority]) -> bool {
    let skips = priorities.iter().any(|p| p.missing == Missing::Undecided);
    let is_odd = |s: &&GameServer| !s.state.is_before_ready() && s.state != State::Ready;
    let mixes = scheduling == Scheduling::Packed
        && group.iter().any(|s| s.state.is_before_ready())
        && group.iter().any(is_odd);
    !skips && !mixes
}

/// Sorts by a comparison that may be inconsistent: the result depends on the input alone, while the standard library may panic on
/// such a comparison.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::testing::{rooms, server};
    use crate::gameserver::{First, Measure, Source};

    fn on(node: &str, mut server: GameServer) -> GameServer {
        server.node = node.into();
        server
    }

    fn born(second: i64, mut server: GameServer) -> GameServer {
        server.created_at = Timestamp::new(second, 0).unwrap();
        server
    }

    fn names(
        servers: &[GameServer],
        how: Scheduling,
        by: &[Priority],
        nodes: &Occupancy,
    ) -> String {
        let order = deletion_order(servers, how, by, nodes);
        order.map(|s| s.name.to_string()).collect::<Vec<_>>().join(" ")
    }

    /// Checks the order of names, which must not depend on the order of servers.
    fn check(servers: &[GameServer], how: Scheduling, by: &[Priority], expected: &str) {
        let nodes = Occupancy::from_servers(servers);
        let mut turned = servers.to_vec();
        for _ in servers {
            turned.rotate_left(1);
            assert_eq!(names(&turned, how, by, &nodes), expected);
        }
    }

    fn by_rooms(first: First) -> [Priority; 1] {
        [Priority::by_available(Source::Counter, "rooms", Some(first))]
    }

    #[test]
    fn packed_empties_the_least_busy_node_first() {
        let servers = [
            on("busy", server("a", State::Ready)),
            on("busy", server("b", State::Allocated)),
            on("calm", server("c", State::Ready)),
            on("bare", server("d", State::Starting)),
            on("also", server("e", State::Ready)),
        ];
        check(&servers, Scheduling::Packed, &[], "d e c a b");
    }

    #[test]
    fn servers_on_nodes_that_should_go_are_deleted_first() {
        let servers = [
            on("calm", born(3, server("a", State::Ready))),
            on("old", born(2, server("b", State::Ready))),
            on("old", born(1, server("c", State::Ready))),
            on("new", born(4, server("d", State::Ready))),
        ];
        let mut nodes = Occupancy::from_servers(&servers);
        assert_eq!(names(&servers, Scheduling::Packed, &[], &nodes), "a d b c");
        let at = |second| Timestamp::from_second(second).ok();
        nodes.set_unneeded("new", at(20));
        nodes.set_unneeded("old", at(10));
        assert_eq!(names(&servers, Scheduling::Packed, &[], &nodes), "b c d a");
        assert_eq!(names(&servers, Scheduling::Distributed, &[], &nodes), "c b d a");
        assert_eq!(names(&servers, Scheduling::Packed, &[], &nodes.all_needed()), "a d b c");
        nodes.set_unneeded("old", None);
        assert_eq!(names(&servers, Scheduling::Packed, &[], &nodes), "d a b c");
    }

    #[test]
    fn packed_deletes_servers_on_unknown_nodes_first() {
        let servers = [
            on("gone", server("z", State::Ready)),
            on("gone", server("y", State::Ready)),
            on("here", server("a", State::Starting)),
        ];
        let mut nodes = Occupancy::from_servers(&servers);
        nodes.remove_node("gone");
        assert_eq!(names(&servers, Scheduling::Packed, &[], &nodes), "y z a");
    }

    #[test]
    fn packed_deletes_unready_servers_of_a_node_first_then_by_priorities_then_by_name() {
        let servers = [
            rooms("a", State::Ready, 0, 10),
            rooms("b", State::Ready, 9, 10),
            rooms("c", State::Ready, 9, 10),
            rooms("d", State::Scheduled, 0, 10),
            server("e", State::Ready),
        ];
        let how = Scheduling::Packed;
        check(&servers, how, &by_rooms(First::Smallest), "d b c a e");
        check(&servers, how, &by_rooms(First::Largest), "d a b c e");
        check(&servers, how, &[], "d a b c e");
    }

    #[test]
    fn distributed_deletes_the_oldest_first_b1() {
        let servers = [
            born(30, server("a", State::Ready)),
            born(10, server("b", State::Starting)),
            born(20, on("other", server("c", State::Ready))),
        ];
        check(&servers, Scheduling::Distributed, &[], "b c a");
    }

    #[test]
    fn ascending_deletes_the_fullest_first_and_servers_without_the_key_last_b2() {
        let servers = [
            born(1, server("none", State::Ready)),
            born(2, rooms("empty", State::Ready, 0, 10)),
            born(3, rooms("full", State::Ready, 10, 10)),
            born(4, rooms("old", State::Ready, 10, 10)),
        ];
        let how = Scheduling::Distributed;
        check(&servers, how, &by_rooms(First::Smallest), "full old empty none");
        check(&servers, how, &by_rooms(First::Largest), "empty full old none");
    }

    #[test]
    fn priorities_of_the_first_design_keep_the_larger_number() {
        let servers = [
            rooms("two", State::Ready, 2, 100),
            rooms("nine", State::Ready, 9, 10),
            server("none", State::Ready),
        ];
        let keep_bigger = [Priority {
            source: Source::Counter,
            key: "rooms".into(),
            measure: Measure::Used,
            first: First::Smallest,
            missing: Missing::First,
        }];
        check(&servers, Scheduling::Distributed, &keep_bigger, "none two nine");
    }

    #[test]
    fn later_priorities_break_ties() {
        let mut servers = [rooms("a", State::Ready, 5, 10), rooms("b", State::Ready, 5, 10)];
        for (server, count) in servers.iter_mut().zip([1, 2]) {
            let seats = crate::gameserver::Counter { count, capacity: 10 };
            server.counters.insert("seats".into(), seats);
        }
        let seats = Priority::by_available(Source::Counter, "seats", Some(First::Smallest));
        let [rooms] = by_rooms(First::Smallest);
        check(&servers, Scheduling::Distributed, &[rooms, seats], "b a");
    }

    #[test]
    fn inconsistent_comparisons_still_lead_to_one_order_b3() {
        let cycle = [
            server("a", State::Ready),
            server("b", State::Error),
            server("c", State::Starting),
            server("d", State::Unhealthy),
        ];
        let nodes = Occupancy::from_servers(&cycle);
        let first = names(&cycle, Scheduling::Packed, &[], &nodes);
        check(&cycle, Scheduling::Packed, &[], &first);
        let skips = [Priority::by_available(Source::Counter, "rooms", None)];
        let servers = [
            born(3, rooms("a", State::Ready, 1, 10)),
            born(2, server("b", State::Ready)),
            born(1, rooms("c", State::Ready, 5, 10)),
        ];
        let nodes = Occupancy::from_servers(&servers);
        let first = names(&servers, Scheduling::Distributed, &skips, &nodes);
        check(&servers, Scheduling::Distributed, &skips, &first);
    }

    #[test]
    fn a_long_order_does_not_depend_on_how_far_it_is_read() {
        let servers: Vec<GameServer> = (0..2000)
            .map(|n| born(n * 7919 % 2003, server(&format!("s{n}"), State::Ready)))
            .collect();
        let nodes = Occupancy::from_servers(&servers);
        let order: Vec<_> =
            deletion_order(&servers, Scheduling::Distributed, &[], &nodes).collect();
        assert_eq!(order.len(), 2000);
        assert!(order.is_sorted_by_key(|s| s.created_at));
    }
}
