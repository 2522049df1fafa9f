//! Measures how fast fleets are sized and game servers chosen, next to examining every server for every request.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use decide::allocation::{
    CounterAction, CounterBounds, CounterVerb, Index, Request, Selector, allocate,
};
use decide::fleet::{
    Amount, Capacity, Fleet, FleetObservation, Mode, Policy, Replies, Scheduling, Template, merge,
    size, status,
};
use decide::gameserver::{Counter, First, GameServer, List, Occupancy, Priority, Source, State};
use jiff::Timestamp;

use crate::report::Report;

/// Servers in the index, and how they are spread.
const SERVERS: usize = 100_000;
const FLEETS: usize = 10;
const PER_NODE: usize = 50;

pub(crate) fn run() -> Report {
    let columns = ["what", "limit", "measured", "plain scan", "times faster"];
    let mut report = Report::new("Fleets", &columns);
    sizes(&mut report);
    allocations(&mut report);
    report.note(format!(
        "One core, release build. Sizes: the fastest of 51 decisions over {SIZED} servers on {} nodes. Allocations: choice, \
         changes to the server and to the index, over {SERVERS} servers of {FLEETS} fleets on {} nodes; the fastest of {ROUNDS} \
         rounds of {PER_ROUND}, each on other servers than the eight rounds before. The plain scan is this project's own and gives the same \
         answers; it applies the request to a copy.",
        SIZED / PER_NODE,
        SERVERS / PER_NODE,
    ));
    report
}

const SIZED: usize = 10_000;

fn sizes(report: &mut Report) {
    for (scheduling, how) in
        [(Scheduling::Packed, "Packed"), (Scheduling::Distributed, "Distributed")]
    {
        for (tenths, what) in [(11, "grows"), (9, "a tenth goes"), (1, "nine tenths go")] {
            let servers: Vec<_> = (0..SIZED).map(|n| server(n, 1, n % 8, State::Ready)).collect();
            let nodes = Occupancy::from_servers(&servers);
            let fleet = fleet(scheduling, &servers);
            let policy = Policy::Counter(Capacity {
                key: "rooms".into(),
                size: Amount::Count(room(&fleet) / 10 * tenths),
                min: 0,
                max: i64::MAX,
            });
            let observation = FleetObservation {
                fleet: &fleet,
                servers: &servers,
                nodes: &nodes,
                other_owner: None,
            };
            let took = fastest(51, || {
                let start = Instant::now();
                black_box(size(
                    &policy,
                    black_box(observation),
                    &Replies::new(),
                    Timestamp::UNIX_EPOCH,
                ));
                start.elapsed()
            });
            let measured = format!("{:.0} µs", took.as_secs_f64() * 1e6);
            report.row(&[
                &format!("Counter policy, {SIZED} servers, {how}, {what}"),
                "2000 µs",
                &measured,
                "",
                "",
            ]);
        }
    }
}

const ROUNDS: usize = 100;
const PER_ROUND: usize = 1_000;

fn allocations(report: &mut Report) {
    let servers: Vec<_> = (0..SERVERS).map(|n| server(n, FLEETS, n % 8, State::Ready)).collect();
    let cases = [
        ("label selector", "500000/s", vec![by_label(0)]),
        ("label selector, 10 fleets in turn", "", (0..FLEETS).map(by_label).collect()),
        ("counter bound and priority", "100000/s", vec![by_room(0)]),
        ("counter bound and priority, 10 fleets in turn", "", (0..FLEETS).map(by_room).collect()),
        ("a room where players are, else on a Ready one", "", vec![with_players(by_room(0))]),
        ("label selector, Distributed at random", "", vec![at_random(by_label(0))]),
    ];
    for (what, limit, requests) in cases {
        let index = rate(PER_ROUND, index_round(&servers, &requests));
        let scan = rate(SCANNED, scan_round(&servers, &requests));
        report.row(&[
            &format!("allocation, {what}"),
            limit,
            &format!("{index:.0}/s"),
            &format!("{scan:.0}/s"),
            &format!("{:.0}", index / scan),
        ]);
    }
}

/// Allocates repeatedly from an index that already knows these selectors.
fn index_round(servers: &[GameServer], requests: &[Request]) -> Duration {
    let mut index = Index::default();
    servers.iter().for_each(|server| index.put(server.clone()));
    for request in requests.iter().chain(requests) {
        black_box(index.peek(request));
    }
    let mut taken: Vec<Arc<str>> = Vec::new();
    fastest(ROUNDS, || {
        // A round continues where the last one ended, to servers that no CPU cache holds, until the fleet runs out.
        if taken.len() > SERVERS / FLEETS - 2 * PER_ROUND {
            for name in taken.drain(..) {
                let number: usize = name[1..].parse().expect("names are numbers");
                index.put(servers[number].clone());
            }
        }
        let start = Instant::now();
        for (millis, request) in requests.iter().cycle().take(PER_ROUND).enumerate() {
            let now = Timestamp::UNIX_EPOCH + Duration::from_millis(millis as u64);
            let picked = index.allocate(request, now).expect("a fleet has more servers than that");
            taken.push(Arc::clone(&picked.server.name));
        }
        start.elapsed()
    })
}

const SCANNED: usize = 20;

fn scan_round(servers: &[GameServer], requests: &[Request]) -> Duration {
    let nodes = Occupancy::from_servers(servers);
    fastest(3, || {
        let start = Instant::now();
        for request in requests.iter().cycle().take(SCANNED) {
            black_box(allocate(request, black_box(servers), &nodes, Timestamp::UNIX_EPOCH));
        }
        start.elapsed()
    })
}

fn rate(times: usize, took: Duration) -> f64 {
    times as f64 / took.as_secs_f64()
}

/// Takes the fastest round: the code is the same each time, and what makes it slower is the rest of the machine.
fn fastest(rounds: usize, round: impl FnMut() -> Duration) -> Duration {
    std::iter::repeat_with(round).take(rounds).min().unwrap_or_default()
}

fn server(number: usize, fleets: usize, used: usize, state: State) -> GameServer {
    let mut server = GameServer::new("default", format!("s{number:06}"), state);
    // Fleets are mixed on every node, as a packing scheduler leaves them.
    server.node = format!("node-{:04}", number / PER_NODE).into();
    let fleet = format!("fleet-{}", number % fleets);
    server.labels.insert("agones.dev/fleet".into(), fleet.as_str().into());
    server.labels.insert("agones.dev/gameserverset".into(), format!("{fleet}-abcde").into());
    server.annotations.insert("agones.dev/sdk-version".into(), "1.61.0".into());
    let count = i64::try_from(used).unwrap_or(0);
    server.counters.insert("rooms".into(), Counter { count, capacity: 10 });
    server.lists.insert("players".into(), List { capacity: 16, values: Vec::new() });
    server.created_at = Timestamp::UNIX_EPOCH + Duration::from_secs(number as u64 * 7919 % 10_007);
    server
}

fn fleet(scheduling: Scheduling, servers: &[GameServer]) -> Fleet {
    let counters = [("rooms".into(), Counter { count: 0, capacity: 10 })].into();
    let template = Template { counters, ..Template::default() };
    let status = merge([&status(&template, servers)]);
    Fleet {
        namespace: "default".into(),
        name: "fleet-0".into(),
        replicas: status.replicas,
        scheduling,
        priorities: vec![Priority::by_available(Source::Counter, "rooms", Some(First::Largest))],
        template,
        status,
        mode: Mode::Repaired,
    }
}

fn room(fleet: &Fleet) -> i64 {
    fleet.status.counters.get("rooms").map_or(0, |sum| sum.capacity - sum.count)
}

fn by_label(fleet: usize) -> Request {
    let mut selector = Selector::default();
    selector.labels.insert("agones.dev/fleet".into(), format!("fleet-{fleet}").into());
    Request { namespace: "default".into(), selectors: vec![selector], ..Request::default() }
}

/// A free room on a Ready server: the fullest first.
fn by_room(fleet: usize) -> Request {
    let mut request = by_label(fleet);
    let bounds = CounterBounds { min_available: 1, ..CounterBounds::default() };
    request.selectors[0].counters.insert("rooms".into(), bounds);
    request.priorities =
        vec![Priority::by_available(Source::Counter, "rooms", Some(First::Smallest))];
    let change = Some((CounterVerb::Increment, 1));
    request.counters.insert("rooms".into(), CounterAction { capacity: None, change });
    request
}

fn with_players(mut request: Request) -> Request {
    let mut first = request.selectors[0].clone();
    first.state = State::Allocated;
    request.selectors.insert(0, first);
    request
}

fn at_random(mut request: Request) -> Request {
    request.scheduling = Scheduling::Distributed;
    request
}
