//! The game server as an object of a Kubernetes API: watched, and written behind the calls.
//!
//! One task reads and writes, so that the echo of a write is never taken for somebody else's. The first change after a
//! quiet while is written at once; what comes within the window after a write is folded into the next. When the API
//! refuses a write, its changes are tried one by one, and the one that is refused on its own is dropped and reported.

use std::error::Error;
use std::time::Duration;

use api::agones::GameServer;
use futures::StreamExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use process::Clock;
use tokio::time::Instant;

use super::Settings;
use super::changes;
use super::core::{Core, Write};
use super::events::Events;

/// How long one request may take before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long to wait after a failure: doubled with each in a row, from the first to the last.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How often a write that lost a race is tried again at once.
const RACES: usize = 10;

/// How long unwritten changes hold up the end.
const LAST_WRITE: Duration = Duration::from_secs(5);

pub(super) struct Backend {
    api: Api<GameServer>,
    name: String,
    window: Duration,
    clock: Clock,
    events: Events,
    /// Whether the object has to be read before the next write: another write came first, or one may have been made.
    is_stale: bool,
}

impl Backend {
    pub(super) fn new(client: kube::Client, settings: &Settings) -> Self {
        Self {
            api: Api::namespaced(client.clone(), &settings.namespace),
            name: settings.name.clone(),
            window: settings.rate_limit,
            clock: settings.clock.clone(),
            events: Events::start(client, settings),
            is_stale: false,
        }
    }

    /// Reads and writes until the end, and then writes what is left.
    pub(super) async fn run(mut self, core: &Core) {
        // Roles that allow list, watch and patch are enough.
        let one = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let mut watched = watcher(self.api.clone(), one).default_backoff().boxed();
        let mut has_listed = false;
        let mut failures = 0;
        let mut write_at = Instant::now();
        loop {
            let due = async {
                core.has_changes().await;
                tokio::time::sleep_until(write_at).await;
            };
            tokio::select! {
                () = core.stop.cancelled() => break,
                Some(event) = watched.next() => self.observe(core, event, &mut has_listed),
                () = core.end_reservation() => {}
                () = due => {
                    failures = if self.write(core).await { 0 } else { failures + 1 };
                    write_at = Instant::now() + self.pause(failures);
                }
            }
        }
        let rest = async {
            while core.writing().is_some() {
                if !self.write(core).await {
                    tokio::time::sleep(BACKOFF.0).await;
                }
            }
        };
        if tokio::time::timeout(LAST_WRITE, rest).await.is_err() {
            tracing::warn!("ended with changes that could not be written");
        }
    }

    fn pause(&self, failures: u32) -> Duration {
        match failures.checked_sub(1) {
            None => self.window,
            Some(doublings) => BACKOFF.0.saturating_mul(1 << doublings.min(10)).min(BACKOFF.1),
        }
    }

    /// Writes what is due; false when it has to be tried again later.
    async fn write(&mut self, core: &Core) -> bool {
        for _ in 0..RACES {
            if !self.refresh(core).await {
                return false;
            }
            let Some(write) = core.writing() else { return true };
            match self.send(&write).await {
                Ok(stored) => {
                    self.events.written(&write, &stored);
                    core.written(&write, stored);
                    return true;
                }
                Err(Failure::Race) => self.is_stale = true,
                Err(Failure::Refused(err)) => {
                    // Otherwise its parts are tried one by one, the state first.
                    if let Some(dropped) = core.refused() {
                        self.events.refused(&write.before, &dropped, &err);
                        return true;
                    }
                }
                Err(Failure::Later(err)) => {
                    tracing::warn!(error = %cluster::explain(&err), "could not write; will try again");
                    return false;
                }
                Err(Failure::Unsure(err)) => {
                    tracing::warn!(error = %cluster::explain(&*err), "no answer to a write; will look and try again");
                    self.is_stale = true;
                    return false;
                }
            }
        }
        false
    }

    async fn send(&self, write: &Write) -> Result<GameServer, Failure> {
        let (before, batch) = (&write.before, &write.batch);
        let after = batch.changes.onto(before, self.clock.now());
        let Some(patch) = changes::patch(before, &after, &batch.id) else {
            return Ok(before.clone());
        };
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let request = self.api.patch(&self.name, &params, &patch);
        match tokio::time::timeout(PATIENCE, request).await {
            Ok(answer) => answer.map_err(Failure::from),
            Err(late) => Err(Failure::Unsure(late.into())),
        }
    }

    /// Reads the object when what is known of it cannot be built on; false when it cannot be read.
    async fn refresh(&mut self, core: &Core) -> bool {
        if !self.is_stale {
            return true;
        }
        let one = ListParams::default().fields(&format!("metadata.name={}", self.name));
        let Ok(Ok(list)) = tokio::time::timeout(PATIENCE, self.api.list(&one)).await else {
            tracing::warn!("could not read the game server; will try again");
            return false;
        };
        self.is_stale = false;
        match list.items.into_iter().next() {
            Some(fresh) => self.take_in(core, fresh),
            None => core.observe_gone(),
        }
        true
    }

    /// Takes in an object that was read, and reports the write that it shows to be made.
    fn take_in(&self, core: &Core, server: GameServer) {
        if let Some(write) = core.observe(server.clone()) {
            self.events.written(&write, &server);
        }
    }

    fn observe(
        &self,
        core: &Core,
        event: Result<watcher::Event<GameServer>, watcher::Error>,
        has_listed: &mut bool,
    ) {
        match event {
            Ok(watcher::Event::Apply(server)) => self.take_in(core, server),
            Ok(watcher::Event::InitApply(server)) => {
                *has_listed = true;
                self.take_in(core, server);
            }
            Ok(watcher::Event::Delete(_)) => core.observe_gone(),
            Ok(watcher::Event::Init) => *has_listed = false,
            Ok(watcher::Event::InitDone) if !*has_listed => core.observe_gone(),
            Ok(watcher::Event::InitDone) => {}
            Err(err) => {
                tracing::warn!(
                    error = %cluster::explain(&err),
                    "the watch of the game server broke; will resume"
                );
            }
        }
    }
}

/// Why a write was not made.
enum Failure {
    /// The object has changed meanwhile.
    Race,
    /// It can never be made as it is.
    Refused(kube::Error),
    /// It was not made, and may be later.
    Later(kube::Error),
    /// It may have been made.
    Unsure(Box<dyn Error + Send + Sync>),
}

impl From<kube::Error> for Failure {
    fn from(err: kube::Error) -> Self {
        let kube::Error::Api(status) = &err else {
            return Self::Unsure(err.into());
        };
        match status.code {
            // Not found is a race with a deletion.
            404 | 409 => Self::Race,
            401 | 408 | 429 => Self::Later(err),
            // Rights may still be granted, and are missing for all changes alike; anything else is about the change.
            403 if status.message.contains(" cannot patch resource ") => Self::Later(err),
            // What the API server says of an object that its store does not take.
            500 if status.message.contains("request is too large") => Self::Refused(err),
            400..500 => Self::Refused(err),
            _ => Self::Unsure(err.into()),
        }
    }
}
