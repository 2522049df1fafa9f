//! A day of players in virtual time: fleets and nodes together, and both layers unaware of each other, with the same players.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use simulate::day::{Day, Report as DayReport, play};
use simulate::trace::{DayShape, Trace};

use crate::report::Report;

const MINUTE: Duration = Duration::from_secs(60);
/// One fleet has most of the players; the others are modes that few play, whose idle game servers stay where they are for long.
const SHARES: [f64; 6] = [0.85, 0.07, 0.04, 0.02, 0.01, 0.01];
/// The game servers that each fleet keeps ready.
const BUFFERS: [i32; 6] = [8, 2, 2, 2, 2, 2];

/// Simulates the day twice.
pub(crate) fn run(hours: u32, seed: u64) -> anyhow::Result<Report> {
    let title = format!("A day of players: {hours} h of virtual time, seed {seed}");
    let columns = ["", "fleets and nodes together", "each on its own"];
    let mut report = Report::new(&title, &columns);
    let began = Instant::now();
    let (together, apart) = (simulate(hours, seed, true)?, simulate(hours, seed, false)?);
    let mut row = |name: &str, cell: &dyn Fn(&DayReport) -> String| {
        report.row(&[name, &cell(&together), &cell(&apart)]);
    };
    row("sessions", &|day| day.served.to_string());
    row("sessions that waited", &|day| day.waiting.to_string());
    row("waiting time, all sessions", &|day| format!("{} s", day.waited.as_secs()));
    row("longest wait", &|day| format!("{} s", day.longest_wait.as_secs()));
    row("sessions lost", &|day| day.lost.to_string());
    row("node-hours", &|day| format!("{:.1}", day.node_hours()));
    row("nodes at most", &|day| day.most_nodes.to_string());
    row("idle game servers moved", &|day| day.moves.to_string());
    report.note(format!("simulated in {:.0?}", began.elapsed()));
    eprintln!("{together}\n{apart}");
    Ok(report)
}

/// Simulates one day on a runtime of its own, whose time is paused.
fn simulate(hours: u32, seed: u64, aware: bool) -> anyhow::Result<DayReport> {
    let (length, event) = (hours * 60 * MINUTE, 18 * 60 * MINUTE);
    let shape = DayShape {
        peak: 120.0,
        mean: 20 * MINUTE,
        event: Some((event, 60)),
        shares: SHARES.to_vec(),
    };
    let day = Day {
        trace: Trace::day(&shape, length, seed),
        length,
        seed,
        aware,
        buffers: BUFFERS.to_vec(),
        scheduled_buffer: Some((event, 70)),
        node_start: 3 * MINUTE,
    };
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build()?;
    runtime.block_on(play(&day)).context("the day could not be simulated")
}
