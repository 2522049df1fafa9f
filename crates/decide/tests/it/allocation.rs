//! The index allocates the same servers as the full scan.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use plimsoll_decide::allocation::{
    CounterAction, CounterBounds, CounterVerb, Index, ListAction, ListBounds, Request, Requirement,
    Selector, allocate,
};
use plimsoll_decide::fleet::Scheduling;
use plimsoll_decide::gameserver::{
    Counter, First, GameServer, List, Occupancy, Priority, Source, State,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// The reference implementation: servers in a map, and the load of their nodes.
#[derive(Default)]
struct Plain {
    servers: BTreeMap<Arc<str>, GameServer>,
    nodes: Occupancy,
}

impl Plain {
    fn put(&mut self, server: GameServer) {
        self.remove(&server.name);
        self.nodes.add(&server);
        self.servers.insert(Arc::clone(&server.name), server);
    }

    fn remove(&mut self, name: &str) {
        if let Some(gone) = self.servers.remove(name) {
            self.nodes.remove(&gone);
        }
    }

    fn allocate(&mut self, request: &Request) -> Option<(GameServer, usize)> {
        let servers: Vec<GameServer> = self.servers.values().cloned().collect();
        let done = allocate(request, &servers, &self.nodes, Timestamp::UNIX_EPOCH)?;
        self.put(done.server.clone());
        Some((done.server, done.selector))
    }
}

#[derive(Clone, Debug)]
enum Change {
    Put(GameServer),
    Remove(String),
    Forget(String),
    Allocate { shape: usize, seed: u64 },
}

fn server() -> impl Strategy<Value = GameServer> {
    let state = prop_oneof![
        6 => Just(State::Ready),
        3 => Just(State::Allocated),
        1 => Just(State::Starting),
        1 => Just(State::Shutdown),
    ];
    let counter = proptest::option::of((0..4_i64, 0..5_i64));
    let list = proptest::option::of((0..3_usize, 0..4_i64));
    let who = (0..30_u8, 0..5_u8, 0..3_u8, 0..2_u8);
    let flags = (any::<bool>(), any::<bool>());
    (who, state, counter, list, flags).prop_map(|(who, state, counter, list, flags)| {
        let (name, node, fleet, namespace) = who;
        let (blue, is_evacuating) = flags;
        let mut server = GameServer::new(format!("ns{namespace}"), format!("s{name}"), state);
        // Names are unique within a namespace only, and the reference keeps one map.
        server.name = format!("s{namespace}{name}").into();
        server.node = format!("n{node}").into();
        server.labels.insert("fleet".into(), format!("f{fleet}").into());
        server.is_evacuating = is_evacuating;
        if blue {
            server.labels.insert("colour".into(), "blue".into());
        }
        if let Some((count, capacity)) = counter {
            server.counters.insert("rooms".into(), Counter { count, capacity });
        }
        if let Some((len, capacity)) = list {
            let values = ["a", "b", "c"][..len].iter().map(|v| Arc::from(*v)).collect();
            server.lists.insert("players".into(), List { capacity, values });
        }
        server
    })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        5 => server().prop_map(Change::Put),
        1 => (0..2_u8, 0..30_u8).prop_map(|(ns, s)| Change::Remove(format!("s{ns}{s}"))),
        1 => (0..5_u8).prop_map(|n| Change::Forget(format!("n{n}"))),
        5 => (0..8_usize, any::<u64>()).prop_map(|(shape, seed)| Change::Allocate { shape, seed }),
    ]
}

fn selector() -> impl Strategy<Value = Selector> {
    let expression = prop_oneof![
        Just(Requirement::Exists("colour".into())),
        Just(Requirement::DoesNotExist("colour".into())),
        Just(Requirement::In("fleet".into(), vec!["f0".into(), "f1".into()])),
        Just(Requirement::NotIn("colour".into(), vec!["blue".into()])),
    ];
    let bounds = (0..2_i64, 0..3_i64, proptest::option::of(1..4_i64));
    let parts = (
        proptest::option::of(0..3_u8),
        proptest::option::of(expression),
        any::<bool>(),
        proptest::option::of(bounds),
        proptest::option::of((0..2_i64, any::<bool>())),
    );
    parts.prop_map(|(fleet, expression, allocated, rooms, players)| {
        let mut selector = Selector::default();
        if let Some(fleet) = fleet {
            selector.labels.insert("fleet".into(), format!("f{fleet}").into());
        }
        selector.expressions.extend(expression);
        selector.state = if allocated { State::Allocated } else { State::Ready };
        if let Some((min_count, min_available, max_available)) = rooms {
            let bounds = CounterBounds { min_count, max_count: None, min_available, max_available };
            selector.counters.insert("rooms".into(), bounds);
        }
        if let Some((min_available, a)) = players {
            let contains = a.then(|| "a".into());
            let bounds = ListBounds { contains, min_available, max_available: None };
            selector.lists.insert("players".into(), bounds);
        }
        selector
    })
}

fn priority() -> impl Strategy<Value = Priority> {
    (any::<bool>(), any::<bool>()).prop_map(|(list, largest)| {
        let first = if largest { First::Largest } else { First::Smallest };
        let (source, key) =
            if list { (Source::List, "players") } else { (Source::Counter, "rooms") };
        Priority::by_available(source, key, Some(first))
    })
}

fn request() -> impl Strategy<Value = Request> {
    let parts =
        (0..2_u8, vec(selector(), 1..3), vec(priority(), 0..3), any::<bool>(), any::<bool>());
    parts.prop_map(|(namespace, selectors, priorities, packed, acts)| {
        let scheduling = if packed { Scheduling::Packed } else { Scheduling::Distributed };
        let mut request = Request {
            namespace: format!("ns{namespace}").into(),
            selectors,
            priorities,
            scheduling,
            ..Request::default()
        };
        if acts {
            let change = Some((CounterVerb::Increment, 1));
            let counter = CounterAction { capacity: None, change };
            request.counters.insert("rooms".into(), counter);
            let list = ListAction { capacity: None, add: vec!["z".into()], delete: Vec::new() };
            request.lists.insert("players".into(), list);
            request.labels.insert("colour".into(), "blue".into());
        }
        request
    })
}

proptest! {
    #[test]
    fn the_index_allocates_what_the_scan_allocates(
        requests in vec(request(), 8),
        changes in vec(change(), 1..200),
    ) {
        let (mut index, mut plain) = (Index::default(), Plain::default());
        for change in changes {
            match change {
                Change::Put(server) => {
                    index.put(server.clone());
                    plain.put(server);
                }
                Change::Remove(name) => {
                    index.remove(&format!("ns{}", &name[1..2]), &name);
                    plain.remove(&name);
                }
                Change::Forget(node) => {
                    index.forget_node(&node);
                    plain.nodes.remove_node(&node);
                }
                Change::Allocate { shape, seed } => {
                    let request = Request { seed, ..requests[shape].clone() };
                    let picked = index.allocate(&request, Timestamp::UNIX_EPOCH);
                    let picked = picked.map(|p| (p.server.clone(), p.selector));
                    prop_assert_eq!(picked, plain.allocate(&request));
                }
            }
            prop_assert_eq!(index.len(), plain.servers.len());
        }
    }
}
