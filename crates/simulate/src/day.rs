//! Simulates a day of players on fleets and their nodes: the engine in memory with all controllers and the allocator, in the virtual time of
//! a paused tokio runtime.
//!
//! The runtime has to be one thread whose time is paused. Then the same day leads to the same report.

mod objects;
mod report;
mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use api::allocation::AllocationState;
use tokio::time::Instant;

use crate::trace::{Session, Trace};
pub use report::{Report, Row};
use world::World;

/// How often the state is sampled.
const SAMPLE: Duration = Duration::from_secs(10);
/// How long a session without a game server waits before it asks again.
const RETRY: Duration = Duration::from_secs(5);
/// How often a report has a row.
const ROW: Duration = Duration::from_secs(1800);
/// How long the fleets have to become ready before the day begins.
const WARM_UP: Duration = Duration::from_secs(600);

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Day {
    /// The sessions.
    pub trace: Trace,
    /// How long it lasts.
    pub length: Duration,
    /// The seed of everything random besides the trace.
    pub seed: u64,
    /// Whether nodes and fleets take each other into account.
    pub aware: bool,
    /// How many game servers each fleet keeps ready; there are as many fleets as shares in the trace.
    pub buffers: Vec<i32>,
    /// When how many are kept ready for an hour by the first fleet, by a schedule.
    pub scheduled_buffer: Option<(Duration, i32)>,
    /// How long a node takes to start.
    pub node_start: Duration,
}

/// Why a day could not be simulated.
#[derive(Debug, thiserror::Error)]
pub enum DayError {
    /// The engine could not be started.
    #[error("could not start the engine")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The API refused an object or a change.
    #[error("could not {what}")]
    Api {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: kube::Error,
    },
}

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    /// A session asks for a game server, for the first time or again.
    Ask(Session),
    /// A session ends.
    End { server: String },
    /// The state is sampled.
    Sample,
}

/// Simulates a day.
pub async fn play(day: &Day) -> Result<Report, DayError> {
    let world = World::start(day, WARM_UP).await?;
    tokio::time::sleep(WARM_UP).await;
    let (began, mut report) = (Instant::now(), Report::new(day.aware));
    let mut steps: BTreeMap<(Duration, u64), Step> = BTreeMap::new();
    let mut number = 0;
    let mut add = |steps: &mut BTreeMap<_, _>, at: Duration, step: Step| {
        number += 1;
        steps.insert((at, number), step);
    };
    for session in day.trace.sessions() {
        add(&mut steps, session.at, Step::Ask(*session));
    }
    let mut sample = Duration::ZERO;
    while sample <= day.length {
        add(&mut steps, sample, Step::Sample);
        sample += SAMPLE;
    }
    while let Some(((at, _), step)) = steps.pop_first() {
        if at > day.length {
            break;
        }
        tokio::time::sleep_until(began + at).await;
        match step {
            Step::Ask(session) => match world.allocate(session.fleet).await {
                Some(server) => {
                    report.served(at.saturating_sub(session.at));
                    world.begin(&server);
                    add(&mut steps, at + session.lasts, Step::End { server });
                }
                None => {
                    report.waiting += u32::from(at == session.at);
                    add(&mut steps, at + RETRY, step);
                }
            },
            Step::End { server } => world.end(&server).await?,
            Step::Sample => {
                let is_row = at.as_secs().is_multiple_of(ROW.as_secs());
                report.sample(at, SAMPLE, is_row, &world.state());
            }
        }
    }
    report.moves = world.moves();
    Ok(report)
}

/// Returns the name of the allocated game server.
fn allocated(status: api::allocation::GameServerAllocationStatus) -> Option<String> {
    (status.state == AllocationState::Allocated).then_some(status.game_server_name)
}
