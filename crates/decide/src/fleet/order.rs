//! Which servers go first when a fleet shrinks.
//!
//! A walk rarely needs the whole order, so only as much is sorted as the walk gets to see.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Scheduling;
use crate::gameserver::{GameServer, Missing, Occupancy, Priority, Rank, State};

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
    groups.into_iter().flat_map(move |group| sorted(group, scheduling, priorities))
}

/// Groups servers by node: nodes nobody knows first, then the least busy, then by name.
///
/// Upstream leaves the order among servers on unknown nodes to chance; here they go node by node as well.
fn by_node<'a>(
    servers: impl Iterator<Item = &'a GameServer>,
    nodes: &Occupancy,
) -> Vec<Vec<&'a GameServer>> {
    let mut groups: BTreeMap<(u64, &str), Vec<&GameServer>> = BTreeMap::new();
    for server in servers {
        groups.entry((tail(&server.node), &server.node)).or_default().push(server);
    }
    let mut groups: Vec<_> = groups.into_iter().map(|((_, node), group)| (node, group)).collect();
    groups.sort_by_cached_key(|(node, _)| (nodes.load(node).map(|load| load.total()), *node));
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Gives the end of a name as a number. Names of nodes differ at their end, and numbers compare faster than words.
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
        let keys = group.into_iter().map(|server| Key::of(server, scheduling, priorities));
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

/// What a server is compared by where the comparison is sound, found once.
struct Key<'a> {
    /// False for a server on a packed node that has yet to become Ready.
    is_ready: bool,
    /// The first priority has its place here, since few have more.
    first: Option<Rank>,
    others: Box<[Rank]>,
    /// The age counts only where servers are Distributed.
    created_at: Option<Timestamp>,
    server: &'a GameServer,
}

impl<'a> Key<'a> {
    fn of(server: &'a GameServer, scheduling: Scheduling, priorities: &[Priority]) -> Self {
        let mut ranks = priorities.iter().map(|p| p.rank(server));
        let is_packed = scheduling == Scheduling::Packed;
        Self {
            is_ready: !(is_packed && server.state.is_before_ready()),
            first: ranks.next(),
            others: ranks.collect(),
            created_at: (!is_packed).then_some(server.created_at),
            server,
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        let ranks = |key: &Self| (key.is_ready, key.first);
        ranks(self)
            .cmp(&ranks(other))
            .then_with(|| self.others.cmp(&other.others))
            .then_with(|| self.created_at.cmp(&other.created_at))
            .then_with(|| self.server.name.cmp(&other.server.name))
    }
}

/// Sorts in ever larger pieces, each when it is asked for.
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

/// Whether the comparison contradicts itself nowhere in this group, and can be read off one key for each server. Two of
/// upstream's rules can: a server that is neither Ready nor on its way there is compared with both by name, and a
/// priority without an order skips servers without the key.
fn is_total(group: &[&GameServer], scheduling: Scheduling, priorities: &[Priority]) -> bool {
    let skips = priorities.iter().any(|p| p.missing == Missing::Undecided);
    let is_odd = |s: &&GameServer| !s.state.is_before_ready() && s.state != State::Ready;
    let mixes = scheduling == Scheduling::Packed
        && group.iter().any(|s| s.state.is_before_ready())
        && group.iter().any(is_odd);
    !skips && !mixes
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
