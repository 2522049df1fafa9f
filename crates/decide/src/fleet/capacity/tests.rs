//! Compares both implementations: each row is a rule or a quirk of Agones.

use crate::fleet::testing::{answer, decide, fleet_of, rooms};
use crate::fleet::{Amount, Capacity, FleetDecision, Mode, Policy, Reason, Refusal};
use crate::gameserver::{GameServer, List, State};

fn policy(size: Amount, min: i64, max: i64) -> Policy {
    Policy::Counter(Capacity { key: "rooms".into(), size, min, max })
}

/// Returns Ready servers, each with `count` of 10.
fn ready(servers: usize, count: i64) -> Vec<GameServer> {
    (0..servers).map(|n| rooms(&format!("r{n:02}"), State::Ready, count, 10)).collect()
}

fn allocated(servers: usize, count: i64) -> Vec<GameServer> {
    (0..servers).map(|n| rooms(&format!("a{n:02}"), State::Allocated, count, 10)).collect()
}

fn both(size: Amount, (min, max): (i64, i64), servers: &[GameServer]) -> [FleetDecision; 2] {
    [Mode::Agones, Mode::Repaired]
        .map(|mode| decide(&policy(size, min, max), &fleet_of(servers, 0, 10, mode), servers))
}

#[track_caller]
fn check(
    size: Amount,
    limits: (i64, i64),
    servers: &[GameServer],
    upstream: (i32, bool),
    ours: (i32, bool),
) {
    let [first, second] = both(size, limits, servers);
    assert_eq!(answer(&first), Some(upstream), "upstream: {first:?}");
    assert_eq!(answer(&second), Some(ours), "ours: {second:?}");
}

const NONE: (i64, i64) = (0, 1_000_000);

#[test]
fn a_buffer_that_is_too_small_adds_servers() {
    for (size, to) in [(20, 2), (21, 3), (30, 3), (31, 4), (100, 10)] {
        check(Amount::Count(size), NONE, &ready(2, 0), (to, false), (to, false));
    }
}

#[test]
fn an_empty_fleet_scales_up() {
    check(Amount::Count(15), NONE, &[], (2, false), (2, false));
    check(Amount::Count(5), (25, 100), &[], (3, true), (3, true));
}

#[test]
fn the_maximum_stops_growing() {
    check(Amount::Count(50), (0, 45), &ready(2, 0), (4, true), (4, true));
    check(Amount::Count(50), (0, 20), &ready(2, 0), (2, true), (2, true));
}

#[test]
fn a_buffer_that_is_too_large_removes_servers() {
    for (size, to) in [(50, 5), (41, 5), (40, 4), (11, 2), (10, 1)] {
        check(Amount::Count(size), NONE, &ready(5, 0), (to, false), (to, false));
    }
}

#[test]
fn the_minimum_stops_shrinking() {
    check(Amount::Count(5), (30, 1000), &ready(5, 0), (3, true), (3, true));
    check(Amount::Count(5), (25, 1000), &ready(5, 0), (3, true), (3, true));
    check(Amount::Count(5), (50, 1000), &ready(5, 0), (5, true), (5, true));
}

#[test]
fn servers_in_use_are_never_removed() {
    let mut servers = allocated(2, 8);
    servers.extend(ready(4, 0));
    check(Amount::Count(14), NONE, &servers, (3, false), (3, false));
    check(Amount::Count(4), NONE, &servers, (2, false), (2, false));
}

#[test]
fn the_maximum_is_ignored_by_agones_while_capacity_is_free_and_holds_here_a3() {
    check(Amount::Count(40), (0, 50), &ready(8, 0), (4, false), (4, false));
    check(Amount::Count(70), (0, 50), &ready(8, 0), (7, false), (5, true));
}

#[test]
fn a_maximum_below_one_servers_capacity_allows_one_server() {
    let one = Reason::OneServer { capacity: 10, max: 5 };
    let cases = [Vec::new(), ready(1, 0), ready(1, 10), allocated(1, 10), ready(3, 0)];
    for servers in cases.into_iter().chain([allocated(3, 2)]) {
        for (size, min) in [(Amount::Count(3), 0), (Amount::Count(40), 0), (Amount::Count(3), 5)] {
            let [_, ours] = both(size, (min, 5), &servers);
            assert_eq!(answer(&ours), Some((1, true)), "{ours:?}");
            assert!(ours.reasons.contains(&one), "{ours:?}");
        }
    }
    let [upstream, _] = both(Amount::Count(3), (0, 5), &[]);
    assert_eq!(answer(&upstream), Some((0, true)), "with the annotation it is as upstream");
    // It is stable: the same decision is made again.
    let [_, again] = both(Amount::Count(3), (0, 5), &ready(1, 0));
    assert_eq!(answer(&again), Some((1, true)));
}

#[test]
fn servers_in_use_beyond_the_maximum_are_not_replaced() {
    check(Amount::Count(5), (0, 20), &allocated(4, 10), (4, true), (2, true));
}

#[test]
fn terminating_servers_are_counted_by_agones_and_not_here_a4() {
    let mut servers = ready(5, 0);
    servers.insert(0, rooms("going", State::Shutdown, 0, 10));
    // The five that stay have 50 free. Agones subtracts the terminating one, and so removes one less.
    let [upstream, ours] = both(Amount::Count(30), NONE, &servers);
    assert_eq!(answer(&ours), Some((3, false)));
    assert_eq!(answer(&upstream), Some((3, false)));
    let mut full = ready(5, 0);
    full.insert(0, rooms("a-going", State::Shutdown, 10, 10));
    let [upstream, ours] = both(Amount::Count(30), NONE, &full);
    assert_eq!(answer(&upstream), Some((2, false)), "one less than the buffer needs");
    assert_eq!(answer(&ours), Some((3, false)));
}

#[test]
fn the_minimum_and_the_buffer_are_reached_in_one_step_a5() {
    check(Amount::Count(50), (15, 1000), &ready(1, 0), (2, true), (5, false));
    check(Amount::Count(10), (45, 1000), &ready(1, 0), (5, true), (5, true));
}

#[test]
fn a_percentage_is_of_the_allocated_servers_count() {
    let mut servers = allocated(2, 10);
    servers.extend(ready(1, 0));
    // 20 used are 80% of 25: five should be free, and ten are.
    check(Amount::Percent(20), (1, 1000), &servers, (3, false), (3, false));
    check(Amount::Percent(50), (1, 1000), &servers, (4, false), (4, false));
}

#[test]
fn a_percentage_of_nothing_is_one_server_in_agones_and_the_minimum_here_a6() {
    check(Amount::Percent(50), (1, 1000), &ready(6, 5), (1, true), (1, true));
    check(Amount::Percent(50), (10, 1000), &ready(6, 5), (1, true), (1, true));
    check(Amount::Percent(50), (30, 1000), &ready(6, 5), (3, true), (3, true));
    let servers = allocated(3, 0);
    check(Amount::Percent(50), (1, 1000), &servers, (1, true), (3, false));
}

#[test]
fn a_scale_up_in_progress_is_kept_a2() {
    let servers = ready(3, 0);
    for (mode, to) in [(Mode::Agones, 3), (Mode::Repaired, 6)] {
        let mut fleet = fleet_of(&servers, 0, 10, mode);
        fleet.replicas = 6;
        let decision = decide(&policy(Amount::Count(30), 0, 1000), &fleet, &servers);
        assert_eq!(answer(&decision), Some((to, false)), "{mode:?}");
    }
    let mut fleet = fleet_of(&servers, 0, 10, Mode::Repaired);
    fleet.replicas = 6;
    let capped = decide(&policy(Amount::Count(30), 0, 50), &fleet, &servers);
    assert_eq!(answer(&capped), Some((5, false)), "as far as the maximum allows");
    fleet.replicas = 1;
    let lowered = decide(&policy(Amount::Count(30), 0, 1000), &fleet, &servers);
    assert_eq!(
        answer(&lowered),
        Some((3, false)),
        "the buffer is kept against a smaller desired size"
    );
}

#[test]
fn removing_servers_without_the_key_frees_no_capacity() {
    let mut servers = ready(2, 0);
    servers.push(GameServer { counters: [].into(), ..rooms("a", State::Ready, 0, 0) });
    check(Amount::Count(20), NONE, &servers, (3, false), (2, false));
    check(Amount::Count(15), NONE, &servers, (2, false), (2, false));
}

#[test]
fn lost_servers_are_removed_first() {
    let mut servers = ready(3, 0);
    servers.push(rooms("z", State::Unhealthy, 0, 10));
    let [_, ours] = both(Amount::Count(30), NONE, &servers);
    assert_eq!(answer(&ours), Some((3, false)));
}

#[test]
fn new_servers_without_capacity_are_refused() {
    for mode in [Mode::Agones, Mode::Repaired] {
        let servers = ready(1, 10);
        let fleet = fleet_of(&servers, 10, 10, mode);
        let decision = decide(&policy(Amount::Count(5), 0, 1000), &fleet, &servers);
        assert!(matches!(decision.outcome, Err(Refusal::NoRoomPerServer { .. })), "{mode:?}");
        let none = fleet_of(&[], 0, 0, mode);
        let decision = decide(&policy(Amount::Count(5), 5, 1000), &none, &[]);
        assert!(matches!(decision.outcome, Err(Refusal::NoRoomPerServer { .. })), "{mode:?}");
    }
}

#[test]
fn the_key_must_be_in_template_and_status() {
    for mode in [Mode::Agones, Mode::Repaired] {
        let mut fleet = fleet_of(&[], 0, 10, mode);
        fleet.status.counters.clear();
        let asked = policy(Amount::Count(5), 0, 10);
        let decision = decide(&asked, &fleet, &[]);
        assert!(matches!(decision.outcome, Err(Refusal::NotInStatus { .. })));
        fleet.template.counters.clear();
        let decision = decide(&asked, &fleet, &[]);
        assert!(matches!(decision.outcome, Err(Refusal::NotInTemplate { .. })));
    }
}

#[test]
fn lists_are_sized_by_their_number_of_values() {
    let with = |name: &str, values: &[&str]| {
        let mut server = rooms(name, State::Ready, 0, 0);
        let values = values.iter().map(|v| (*v).into()).collect();
        server.lists.insert("players".into(), List { capacity: 4, values });
        server
    };
    let servers = [with("a", &["x", "y"]), with("b", &["z"])];
    for mode in [Mode::Agones, Mode::Repaired] {
        let mut fleet = fleet_of(&servers, 0, 0, mode);
        let template = List { capacity: 4, values: vec!["bot".into()] };
        fleet.template.lists.insert("players".into(), template);
        let list = |size| Policy::List(Capacity { key: "players".into(), size, min: 0, max: 100 });
        // Five are free. A new server adds three.
        let grown = decide(&list(Amount::Count(9)), &fleet, &servers);
        assert_eq!(answer(&grown), Some((4, false)), "{mode:?}");
        let kept = decide(&list(Amount::Count(5)), &fleet, &servers);
        assert_eq!(answer(&kept), Some((2, false)), "{mode:?}");
        let cut = decide(&list(Amount::Count(3)), &fleet, &servers);
        assert_eq!(answer(&cut), Some((1, false)), "{mode:?}");
    }
}

#[test]
fn a_decision_reports_the_free_capacity_and_its_limit() {
    let [_, ours] = both(Amount::Count(50), (0, 45), &ready(2, 0));
    let expected =
        [Reason::BufferShort { spare: 20, wanted: 50 }, Reason::AtMaximum { asked: 50, max: 45 }];
    assert_eq!(ours.reasons, expected);
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let huge = || rooms("a", State::Ready, i64::MAX, i64::MAX);
    let servers = [huge(), GameServer { name: "b".into(), ..huge() }];
    for mode in [Mode::Agones, Mode::Repaired] {
        for (count, capacity) in [(0, i64::MAX), (i64::MAX, i64::MAX), (i64::MAX, 0)] {
            let fleet = fleet_of(&servers, count, capacity, mode);
            for size in [Amount::Count(i64::MAX), Amount::Percent(99)] {
                for (min, max) in [(0, 1), (i64::MAX, i64::MAX), (1, i64::MAX)] {
                    decide(&policy(size, min, max), &fleet, &servers);
                }
            }
        }
    }
}
