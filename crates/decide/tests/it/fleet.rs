//! Fleets are sized and reconciled repeatedly until their size is stable.

use std::sync::Arc;

use jiff::Timestamp;
use plimsoll_decide::fleet::{
    Amount, Buffer, Capacity, Fleet, FleetObservation, FleetStatus, Limits, Link, Mode, Policy,
    Replies, Reply, Scheduling, ServerSet, Size, Sizing, Template, merge, reconcile, size, status,
};
use plimsoll_decide::gameserver::{
    Counter, First, GameServer, List, Occupancy, Priority, Source, State,
};
use proptest::collection::vec;
use proptest::prelude::*;

const NOW: Timestamp = Timestamp::constant(1_772_366_400, 0);

/// A fleet, its servers, and the replies of its webhooks.
#[derive(Clone, Debug)]
struct World {
    fleet: Fleet,
    servers: Vec<GameServer>,
    /// What webhooks and modules reply.
    replies: Replies,
    made: usize,
}

impl World {
    /// Writes the fleet's status, as its controller would.
    fn write_status(&mut self) {
        self.fleet.status = merge([&status(&self.fleet.template, &self.servers)]);
    }

    fn decide(&self, policy: &Policy) -> Option<Size> {
        let nodes = Occupancy::from_servers(&self.servers);
        let observed = FleetObservation {
            fleet: &self.fleet,
            servers: &self.servers,
            nodes: &nodes,
            other_owner: None,
        };
        let sizing = size(policy, observed, &self.replies, NOW);
        assert_eq!(sizing, size(policy, observed, &self.replies, NOW), "same input, same answer");
        match sizing {
            Sizing::Decided(decision) => decision.outcome.ok(),
            Sizing::Ask(id) => panic!("the reply `{id}` is missing"),
        }
    }

    /// Reconciles the fleet's set completely; deleted servers are gone, new ones are Ready.
    fn reconcile(&mut self) {
        let set = ServerSet {
            replicas: self.fleet.replicas,
            scheduling: self.fleet.scheduling,
            priorities: self.fleet.priorities.clone(),
            has_deletion_timestamp: false,
            mode: self.fleet.mode,
        };
        loop {
            let nodes = Occupancy::from_servers(&self.servers);
            let done = reconcile(&set, &self.servers, &nodes, Limits::for_mode(set.mode), NOW);
            for name in &done.delete {
                let gone = self.servers.iter().find(|s| s.name == *name).expect("it is there");
                let in_use = matches!(gone.state, State::Allocated | State::Reserved);
                assert!(!in_use, "{name} is in use and was named");
            }
            self.servers.retain(|s| !done.delete.contains(&s.name) && !s.is_being_deleted());
            (0..done.create).for_each(|_| self.create());
            if done.delete.is_empty() && done.create == 0 {
                break;
            }
        }
        self.write_status();
    }

    fn create(&mut self) {
        self.made += 1;
        let mut server = GameServer::new("default", format!("new{}", self.made), State::Ready);
        server.node = format!("n{}", self.made % 3).into();
        server.counters = self.fleet.template.counters.clone();
        server.lists = self.fleet.template.lists.clone();
        server.created_at = NOW;
        self.servers.push(server);
    }

    /// Runs one evaluation and returns the new size.
    fn evaluate(&mut self, policy: &Policy) -> Option<Size> {
        self.write_status();
        let size = self.decide(policy)?;
        self.fleet.replicas = size.to;
        self.reconcile();
        Some(size)
    }

    fn in_use(&self) -> Vec<&GameServer> {
        let used = |s: &&GameServer| matches!(s.state, State::Allocated | State::Reserved);
        self.servers.iter().filter(used).filter(|s| !s.is_being_deleted()).collect()
    }
}

fn state() -> impl Strategy<Value = State> {
    prop_oneof![
        5 => Just(State::Ready),
        4 => Just(State::Allocated),
        1 => Just(State::Reserved),
        1 => Just(State::Starting),
        1 => Just(State::Unhealthy),
        1 => Just(State::Error),
        1 => Just(State::Shutdown),
    ]
}

fn server() -> impl Strategy<Value = GameServer> {
    let numbers = (0..4_u8, 0..11_i64, 1..11_i64, 0..4_usize);
    (state(), numbers, 0..100_i64, any::<bool>()).prop_map(|(state, numbers, age, has)| {
        let (node, count, capacity, values) = numbers;
        let mut server = GameServer::new("default", "", state);
        server.node = format!("n{node}").into();
        server.created_at = Timestamp::new(age, 0).expect("a small number");
        if has || state == State::Allocated {
            let counter = Counter { count: count.min(capacity), capacity };
            server.counters.insert("rooms".into(), counter);
            let values = ["a", "b", "c", "d"][..values].iter().map(|v| Arc::from(*v)).collect();
            server.lists.insert("players".into(), List { capacity: 4, values });
        }
        server
    })
}

fn priorities() -> impl Strategy<Value = Vec<Priority>> {
    let one = (any::<bool>(), any::<bool>()).prop_map(|(list, largest)| {
        let first = if largest { First::Largest } else { First::Smallest };
        let (source, key) =
            if list { (Source::List, "players") } else { (Source::Counter, "rooms") };
        Priority::by_available(source, key, Some(first))
    });
    vec(one, 0..3)
}

fn world() -> impl Strategy<Value = World> {
    let template = (0..3_i64, 3..11_i64, 0..3_usize, 3..6_i64);
    let parts = (vec(server(), 0..25), template, any::<bool>(), priorities(), 0..30_i32);
    parts.prop_map(|(mut servers, template, packed, priorities, replicas)| {
        for (number, server) in servers.iter_mut().enumerate() {
            server.name = format!("s{number:02}").into();
        }
        let (count, capacity, values, list_capacity) = template;
        let values = ["x", "y", "z"][..values].iter().map(|v| Arc::from(*v)).collect();
        let template = Template {
            counters: [("rooms".into(), Counter { count, capacity })].into(),
            lists: [("players".into(), List { capacity: list_capacity, values })].into(),
        };
        let fleet = Fleet {
            namespace: "default".into(),
            name: "f".into(),
            replicas,
            scheduling: if packed { Scheduling::Packed } else { Scheduling::Distributed },
            priorities,
            template,
            status: FleetStatus::default(),
            mode: Mode::Repaired,
        };
        World { fleet, servers, replies: Replies::new(), made: 0 }
    })
}

fn amount() -> impl Strategy<Value = Amount> {
    prop_oneof![(1..40_i64).prop_map(Amount::Count), (1..100_i64).prop_map(Amount::Percent)]
}

/// Returns limits that admission would accept: a buffer fits, and a percentage has a minimum.
fn limits(size: Amount, min: i64, more: i64) -> (i64, i64) {
    let (min, least) = match size {
        Amount::Count(size) if min > 0 => (min.max(size), size),
        Amount::Count(size) => (0, size),
        Amount::Percent(_) => (min.max(1), 1),
    };
    (min, min.max(least) + more)
}

fn capacity() -> impl Strategy<Value = (bool, Capacity)> {
    (amount(), 0..60_i64, 0..100_i64, any::<bool>()).prop_map(|(size, min, more, list)| {
        let (min, max) = limits(size, min, more);
        let key = if list { "players" } else { "rooms" };
        (list, Capacity { key: key.into(), size, min, max })
    })
}

fn buffer() -> impl Strategy<Value = Buffer> {
    (amount(), 0..30_i64, 0..60_i64).prop_map(|(size, min, more)| {
        let (min, max) = limits(size, min, more);
        let small = |n| i32::try_from(n).expect("a small number");
        Buffer { size, min: small(min), max: small(max) }
    })
}

/// Evaluates until the size is stable, and checks that it then stays.
fn evaluate_until_stable(world: &mut World, policy: &Policy) -> Option<Size> {
    let mut last = None;
    for round in 0..12 {
        let before = world.fleet.replicas;
        let there = world.servers.len();
        let size = world.evaluate(policy)?;
        if round > 0 && size.to == before && there == world.servers.len() {
            for _ in 0..3 {
                assert_eq!(world.evaluate(policy).as_ref(), Some(&size), "the size stays");
            }
            return Some(size);
        }
        last = Some((before, size));
    }
    panic!("not stable after twelve evaluations: {last:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_buffer_respects_its_limits_and_servers_in_use(mut world in world(), buffer in buffer()) {
        let policy = Policy::Buffer(buffer);
        world.write_status();
        let allocated = world.fleet.status.allocated;
        let size = evaluate_until_stable(&mut world, &policy).expect("a buffer always has an answer");
        prop_assert!(buffer.min <= size.to && size.to <= buffer.max);
        prop_assert!(size.to >= allocated.min(buffer.max));
        if let Amount::Count(wanted) = buffer.size {
            prop_assert!(size.limited || i64::from(size.to - allocated) >= wanted);
        }
    }

    #[test]
    fn counters_and_lists_become_stable_within_their_limits_with_the_buffer_free(
        mut world in world(),
        (is_list, capacity) in capacity(),
    ) {
        let policy = if is_list {
            Policy::List(capacity.clone())
        } else {
            Policy::Counter(capacity.clone())
        };
        let Some(size) = evaluate_until_stable(&mut world, &policy) else { return Ok(()) };
        let used = world.in_use();
        let status = &world.fleet.status;
        let sums = if is_list { &status.lists } else { &status.counters };
        let sum = sums[&capacity.key];
        let template = &world.fleet.template;
        let (each, gain) = if is_list {
            let list = &template.lists[&capacity.key];
            (list.capacity, list.available())
        } else {
            let counter = template.counters[&capacity.key];
            (counter.capacity, counter.available())
        };
        let fits_another = sum.capacity + each <= capacity.max;
        let wanted = match capacity.size {
            Amount::Count(size) => size,
            Amount::Percent(percent) => {
                (sum.allocated_count * 100 + 99 - percent) / (100 - percent) - sum.allocated_count
            }
        };
        let others = world.servers.len() - used.len();
        prop_assert!(sum.capacity <= capacity.max || others == 0, "the maximum caps");
        prop_assert!(sum.capacity >= capacity.min || !fits_another, "the minimum holds");
        let spare = sum.capacity - sum.count;
        prop_assert!(spare >= wanted || gain <= 0 || !fits_another, "the buffer is free");
        let in_use = i32::try_from(used.len()).expect("few servers");
        prop_assert!(size.to >= in_use || sum.capacity > capacity.max, "players keep their place");
    }

    #[test]
    fn other_policies_are_stable_at_once(mut world in world(), to in 0..40_i32, buffer in buffer()) {
        let chain = Policy::Chain(vec![
            Link { id: "a".into(), policy: Policy::Webhook },
            Link { id: "b".into(), policy: Policy::Buffer(buffer) },
        ]);
        for (policy, id, reply) in [
            (Policy::Webhook, "", Reply::Scale(to)),
            (Policy::Wasm, "", Reply::Keep),
            (chain, "a", Reply::None),
        ] {
            world.replies = [(id.into(), reply)].into();
            let size = evaluate_until_stable(&mut world, &policy).expect("there is an answer");
            prop_assert!(size.to >= 0);
        }
    }

    #[test]
    fn agones_mode_deletes_no_server_in_use_either(
        mut world in world(),
        (is_list, capacity) in capacity(),
    ) {
        world.fleet.mode = Mode::Agones;
        let policy = if is_list { Policy::List(capacity) } else { Policy::Counter(capacity) };
        // It may flap forever, so only a few evaluations are run.
        for _ in 0..5 {
            world.evaluate(&policy);
        }
    }
}
