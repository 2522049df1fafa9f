//! Binds pods to nodes.
//!
//! A client of the Kubernetes API like any controller: it watches pods, nodes, namespaces and storage, decides with the predicates
//! that decisions about nodes use, and binds each pending pod to the best node. A pod that fits on no node gets the
//! condition and the event that kube-scheduler would give it, and is decided again when something changes that could let it in. If
//! less important pods are in its way, they are deleted.

mod message;
mod placement;
mod preemption;
mod queue;
mod scoring;
mod state;
mod storage;
mod victims;
mod watched_pod;
mod watches;
mod write;

use std::collections::VecDeque;
use std::future::pending;

use cluster::EventRecorder;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use kube::Client;
use process::{Clock, Random, Supervised, Supervisor};
use tokio::time::Instant;

use crate::state::ClusterState;
use crate::write::{PodWrite, Writer};

/// How many writes are in flight at most.
const MOST_IN_FLIGHT: usize = 256;
/// How many events of watches are taken in at most before pods are decided.
const MOST_EVENTS: usize = 1024;

/// How a scheduler is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The pods that name this scheduler are bound; its events come from this component.
    pub scheduler_name: String,
    /// Where time comes from.
    pub clock: Clock,
    /// Where the jitter of retries comes from.
    pub random: Random,
    /// Restarts the scheduler after a panic.
    pub supervisor: Supervisor,
}

impl Default for Settings {
    /// Schedules the pods that name no other scheduler.
    fn default() -> Self {
        Self {
            scheduler_name: "default-scheduler".to_owned(),
            clock: Clock::system(),
            random: Random::system(),
            supervisor: Supervisor::new(),
        }
    }
}

/// Starts scheduling, until the returned task is dropped.
pub fn start(client: Client, settings: Settings) -> Supervised {
    let supervisor = settings.supervisor.clone();
    supervisor.spawn("scheduler", move || run(client.clone(), settings.clone()))
}

/// Schedules pods for as long as it is polled.
pub async fn run(client: Client, settings: Settings) {
    let Settings { scheduler_name, clock, random, supervisor: _ } = settings;
    let (events, mut send_events) = EventRecorder::new(client.clone(), clock.clone());
    let state = ClusterState::new(&scheduler_name, random.clone());
    let changes = watches::watch_all(&client, &random);
    let writer = Writer { client, events, clock, scheduler_name };
    tokio::select! {
        biased;
        () = schedule(state, changes, writer) => {}
        () = send_events() => {}
    }
}

/// Takes in changes and outcomes of writes, decides, and sends writes. All is in a fixed order, so that a simulation can be repeated.
async fn schedule(
    mut state: ClusterState,
    changes: impl futures::Stream<Item = watches::WatchEvent>,
    writer: Writer,
) {
    let mut changes = std::pin::pin!(changes.ready_chunks(MOST_EVENTS));
    let mut in_flight = FuturesUnordered::new();
    let mut unsent: VecDeque<PodWrite> = VecDeque::new();
    loop {
        let next_due = state.queue.next_due();
        tokio::select! {
            biased;
            Some((write, outcome)) = in_flight.next() => state.complete(&write, outcome),
            events = changes.next() => match events {
                Some(events) => events.into_iter().for_each(|event| state.handle(event)),
                None => return,
            },
            () = wait_until(next_due) => {}
        }
        while let Some(Some((write, outcome))) = in_flight.next().now_or_never() {
            state.complete(&write, outcome);
        }
        state.activate_due(Instant::now());
        while in_flight.len() < MOST_IN_FLIGHT {
            if unsent.is_empty() && state.is_synced() {
                unsent.extend(state.schedule());
            }
            let Some(write) = unsent.pop_front() else { break };
            if state.is_still_wanted(&write) {
                in_flight.push(writer.clone().send(write));
            }
        }
    }
}

async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => pending().await,
    }
}
