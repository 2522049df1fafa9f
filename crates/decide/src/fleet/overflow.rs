//! Selects the Allocated servers that are marked as overflow when their set became too small for them.

use std::borrow::Borrow;
use std::sync::Arc;

use super::{ServerSet, deletion_order};
use crate::gameserver::{GameServer, Occupancy, State, StringMap};

/// Returns the names of the servers that get the labels and annotations of `allocationOverflow`, in deletion order. Servers that
/// have them already count; a mark is never removed.
pub fn overflow(
    set: &ServerSet,
    labels: &StringMap,
    annotations: &StringMap,
    servers: &[impl Borrow<GameServer>],
    nodes: &Occupancy,
) -> Vec<Arc<str>> {
    if labels.is_empty() && annotations.is_empty() {
        return Vec::new();
    }
    let servers = servers.iter().map(Borrow::borrow);
    let allocated = servers.filter(|s| s.state == State::Allocated && !s.is_being_deleted());
    let is_marked =
        |s: &&GameServer| has_all(&s.labels, labels) && has_all(&s.annotations, annotations);
    let (marked, others): (Vec<&GameServer>, Vec<_>) = allocated.partition(is_marked);
    let target = usize::try_from(set.replicas).unwrap_or(0);
    let over = (marked.len() + others.len()).saturating_sub(target);
    deletion_order(others, set.scheduling, &set.priorities, &set.mode.ranking(nodes))
        .take(over.saturating_sub(marked.len()))
        .map(|server| Arc::clone(&server.name))
        .collect()
}

fn has_all(has: &StringMap, wanted: &StringMap) -> bool {
    wanted.iter().all(|(key, value)| has.get(key) == Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::testing::server;
    use crate::fleet::{Mode, Scheduling};

    fn check(replicas: i32, servers: &[GameServer], labels: &[(&str, &str)]) -> String {
        let set = ServerSet {
            replicas,
            scheduling: Scheduling::Packed,
            priorities: Vec::new(),
            has_deletion_timestamp: false,
            mode: Mode::Repaired,
        };
        let labels: StringMap =
            labels.iter().map(|(k, v)| (Arc::from(*k), Arc::from(*v))).collect();
        overflow(&set, &labels, &StringMap::new(), servers, &Occupancy::from_servers(servers))
            .join(" ")
    }

    #[test]
    fn the_excess_of_allocated_servers_is_marked() {
        let mut servers = vec![
            server("a", State::Allocated),
            server("b", State::Allocated),
            server("c", State::Allocated),
            server("d", State::Ready),
        ];
        let marks = [("overflow", "yes")];
        assert_eq!(check(3, &servers, &marks), "");
        assert_eq!(check(1, &servers, &marks), "a b");
        assert_eq!(check(0, &servers, &marks), "a b c");
        assert_eq!(check(0, &servers, &[]), "", "nothing to mark with");
        servers[1].labels.insert("overflow".into(), "yes".into());
        assert_eq!(check(1, &servers, &marks), "a", "one is marked already");
        servers[1].labels.insert("overflow".into(), "no".into());
        assert_eq!(check(1, &servers, &marks), "a b", "another value is no mark");
    }
}
