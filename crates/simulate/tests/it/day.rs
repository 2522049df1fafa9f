//! Forty minutes of players on two fleets and their nodes, with and without taking each other into account.

use std::time::Duration;

use plimsoll_simulate::day::{Day, Report, play};
use plimsoll_simulate::trace::{DayShape, Trace};

const MINUTE: Duration = Duration::from_secs(60);

/// The quiet beginning of a day, with an event after twenty minutes.
fn short(aware: bool) -> Day {
    let (length, event) = (40 * MINUTE, 20 * MINUTE);
    let (event_sessions, shares) = (Some((event, 12)), vec![0.9, 0.1]);
    let shape = DayShape { peak: 60.0, mean: 6 * MINUTE, event: event_sessions, shares };
    Day {
        trace: Trace::day(&shape, length, 11),
        length,
        seed: 5,
        aware,
        buffers: vec![3, 1],
        scheduled_buffer: Some((event, 16)),
        node_start: 3 * MINUTE,
    }
}

/// Simulates a day on a runtime of its own.
fn simulate(day: &Day) -> Report {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(play(day)).unwrap()
}

#[test]
fn no_session_is_lost_and_scheduled_demand_has_its_nodes_in_time() {
    let (together, apart) = (simulate(&short(true)), simulate(&short(false)));
    eprintln!("{together}\n{apart}");
    for report in [&together, &apart] {
        assert_eq!(report.lost, 0, "{report}");
        assert!(report.served > 20, "{report}");
    }
    assert!(together.waited < apart.waited, "{together}\n{apart}");
    assert_eq!(apart.moves, 0, "{apart}");
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let day = short(true);
    assert_eq!(simulate(&day).to_string(), simulate(&day).to_string());
}
