//! Allocation by scanning all servers.
//!
//! The reference for the index, and sufficient for a single request on files.

use jiff::Timestamp;

use super::order::{compare, is_random};
use super::{Allocation, Request, Selector, apply};
use crate::gameserver::{GameServer, NodeLoad, Occupancy};
use crate::random::SeededRandom;

/// Allocates a server for a request and applies the request to it; `None` when no server matches.
pub fn allocate(
    request: &Request,
    servers: &[GameServer],
    nodes: &Occupancy,
    now: Timestamp,
) -> Option<Allocation> {
    let (chosen, selector) = choose(request, servers, nodes)?;
    let mut server = servers[chosen].clone();
    let warnings = apply(request, &mut server, now);
    Some(Allocation { server, selector, warnings })
}

/// Returns the server that a request gets, and the index of the selector that it matches: the first selector with a match
/// decides, and among its matches the server to try first.
pub fn choose(
    request: &Request,
    servers: &[GameServer],
    nodes: &Occupancy,
) -> Option<(usize, usize)> {
    request.selectors.iter().enumerate().find_map(|(index, selector)| {
        let load = |_, server: &GameServer| nodes.load(&server.node);
        Some((best(request, selector, servers.iter().enumerate(), load)?, index))
    })
}

/// Returns the first server among those that match one selector; `load` returns the load of a server's node.
pub(super) fn best<'a>(
    request: &Request,
    selector: &Selector,
    servers: impl Iterator<Item = (usize, &'a GameServer)>,
    load: impl Fn(usize, &GameServer) -> Option<NodeLoad>,
) -> Option<usize> {
    let found = servers.filter(|(_, s)| selector.takes(&request.namespace, s));
    if is_random(request.scheduling, &request.priorities) {
        let (evacuating, mut found): (Vec<_>, Vec<_>) = found.partition(|(_, s)| s.is_evacuating);
        if found.is_empty() {
            found = evacuating;
        }
        found.sort_unstable_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        return Some(found[SeededRandom::new(request.seed).below(found.len())?].0);
    }
    let first = found
        .map(|(index, server)| (index, server, load(index, server)))
        .min_by(|(_, a, a_load), (_, b, b_load)| compare(request, (*a, *a_load), (*b, *b_load)));
    first.map(|(index, ..)| index)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fleet::Scheduling;
    use crate::gameserver::{Counter, First, Priority, Source, State};

    fn server(name: &str, node: &str, state: State) -> GameServer {
        let mut server = GameServer::new("default", name, state);
        server.node = node.into();
        server
    }

    fn request(scheduling: Scheduling, states: &[State]) -> Request {
        let selectors = states.iter().map(|s| Selector { state: *s, ..Selector::default() });
        let namespace = "default".into();
        Request { namespace, scheduling, selectors: selectors.collect(), ..Request::default() }
    }

    fn chosen<'a>(request: &Request, servers: &'a [GameServer], nodes: &Occupancy) -> &'a str {
        choose(request, servers, nodes).map_or("none", |(chosen, _)| &*servers[chosen].name)
    }

    #[test]
    fn packed_prefers_the_node_with_most_allocated_then_most_ready() {
        let servers = [
            server("a", "one", State::Ready),
            server("b", "two", State::Ready),
            server("c", "two", State::Allocated),
            server("d", "three", State::Ready),
            server("e", "three", State::Ready),
        ];
        let nodes = Occupancy::from_servers(&servers);
        let packed = request(Scheduling::Packed, &[State::Ready]);
        assert_eq!(chosen(&packed, &servers, &nodes), "b");
        let calm = [servers[0].clone(), servers[3].clone(), servers[4].clone()];
        assert_eq!(chosen(&packed, &calm, &Occupancy::from_servers(&calm)), "d");
        let mut gone = nodes;
        gone.remove_node("two");
        assert_eq!(chosen(&packed, &servers, &gone), "d", "an unknown node is last");
    }

    #[test]
    fn the_first_selector_with_a_match_takes_precedence_over_the_order_of_servers() {
        let servers = [server("a", "n", State::Allocated), server("z", "n", State::Ready)];
        let nodes = Occupancy::from_servers(&servers);
        for (states, name, index) in [
            ([State::Ready, State::Allocated], "z", 0),
            ([State::Allocated, State::Ready], "a", 0),
            ([State::Reserved, State::Ready], "z", 1),
        ] {
            let request = request(Scheduling::Packed, &states);
            let (chosen, selector) = choose(&request, &servers, &nodes).unwrap();
            assert_eq!((&*servers[chosen].name, selector), (name, index), "{states:?}");
        }
    }

    #[test]
    fn priorities_decide_between_equal_nodes_and_over_all_when_distributed() {
        let with = |name: &str, node: &str, count: i64| {
            let mut server = server(name, node, State::Ready);
            server.counters.insert("rooms".into(), Counter { count, capacity: 10 });
            server
        };
        let servers = [
            with("a", "busy", 1),
            with("b", "busy", 5),
            with("c", "calm", 9),
            server("d", "busy", State::Ready),
        ];
        let nodes = Occupancy::from_servers(&servers);
        let by = |first| vec![Priority::by_available(Source::Counter, "rooms", Some(first))];
        let mut packed = request(Scheduling::Packed, &[State::Ready]);
        packed.priorities = by(First::Smallest);
        assert_eq!(chosen(&packed, &servers, &nodes), "b");
        packed.priorities = by(First::Largest);
        assert_eq!(chosen(&packed, &servers, &nodes), "a");
        let mut distributed = request(Scheduling::Distributed, &[State::Ready]);
        distributed.priorities = by(First::Smallest);
        assert_eq!(chosen(&distributed, &servers, &nodes), "c");
        distributed.priorities =
            vec![Priority::by_available(Source::List, "nokey", Some(First::Smallest))];
        assert_eq!(chosen(&distributed, &servers, &nodes), "a", "an unknown key leaves names: c14");
    }

    #[test]
    fn distributed_without_priorities_is_random_by_seed() {
        let servers: Vec<_> = (0..5).map(|n| server(&format!("s{n}"), "n", State::Ready)).collect();
        let nodes = Occupancy::from_servers(&servers);
        let with = |seed| Request { seed, ..request(Scheduling::Distributed, &[State::Ready]) };
        let all: BTreeSet<&str> =
            (0..100).map(|seed| chosen(&with(seed), &servers, &nodes)).collect();
        assert_eq!(all.len(), 5, "each comes up");
        let turned: Vec<_> = servers.iter().rev().cloned().collect();
        for seed in 0..20 {
            let one = with(seed);
            assert_eq!(chosen(&one, &servers, &nodes), chosen(&one, &turned, &nodes));
        }
        assert_eq!(chosen(&with(1), &[], &nodes), "none");
    }
}
