//! The game server as an object of a Kubernetes API: watched, and written behind the calls.
//!
//! One task reads and writes, so that the echo of a write is never taken for somebody else's. The first change after a
//! quiet while is written at once; what comes within the window after a write is folded into the next.

use std::time::Duration;

use api::agones::GameServer;
use futures::StreamExt as _;
use jiff::Timestamp;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use tokio::time::Instant;

use super::Settings;
use super::changes;
use super::core::Core;
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
    events: Events,
    doubt: Doubt,
}

/// What has to be read before the next write.
enum Doubt {
    /// Nothing.
    None,
    /// The object that won a race.
    Stale,
    /// Whether the object is this one now: a request failed, and may still have been carried out.
    Unsure(Box<GameServer>),
}

impl Backend {
    pub(super) fn new(client: kube::Client, settings: &Settings) -> Self {
        Self {
            api: Api::namespaced(client.clone(), &settings.namespace),
            name: settings.name.clone(),
            window: settings.rate_limit,
            events: Events::start(client),
            doubt: Doubt::None,
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
                Some(event) = watched.next() => observe(core, event, &mut has_listed),
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
            if !self.settle_doubt(core).await {
                return false;
            }
            let Some(write) = core.writing() else { return true };
            let after = write.changes.onto(&write.before, Timestamp::now());
            match self.send(&write.before, &after).await {
                Ok(stored) => {
                    self.events.written(&write, &stored);
                    core.written(&write, stored);
                    return true;
                }
                Err(Failure::Race) => self.doubt = Doubt::Stale,
                Err(Failure::Refused(err)) => {
                    tracing::error!(error = %err, "the changes were refused and are dropped");
                    core.drop_write();
                    return true;
                }
                Err(Failure::Later(err)) => {
                    tracing::warn!(error = %err, "could not write; will try again");
                    return false;
                }
                Err(Failure::Unsure(err)) => {
                    tracing::warn!(error = err, "no answer to a write; will look and try again");
                    self.doubt = Doubt::Unsure(Box::new(after));
                    return false;
                }
            }
        }
        false
    }

    async fn send(&self, before: &GameServer, after: &GameServer) -> Result<GameServer, Failure> {
        let Some(patch) = changes::patch(before, after) else { return Ok(before.clone()) };
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let request = self.api.patch(&self.name, &params, &patch);
        match tokio::time::timeout(PATIENCE, request).await {
            Ok(answer) => answer.map_err(Failure::from),
            Err(_) => Err(Failure::Unsure("timed out".to_owned())),
        }
    }

    /// Reads the object when what is known of it cannot be built on; false when it cannot be read.
    async fn settle_doubt(&mut self, core: &Core) -> bool {
        if matches!(self.doubt, Doubt::None) {
            return true;
        }
        let one = ListParams::default().fields(&format!("metadata.name={}", self.name));
        let Ok(Ok(list)) = tokio::time::timeout(PATIENCE, self.api.list(&one)).await else {
            tracing::warn!("could not read the game server; will try again");
            return false;
        };
        let doubt = std::mem::replace(&mut self.doubt, Doubt::None);
        match (list.items.into_iter().next(), doubt, core.writing()) {
            (None, ..) => core.observe_gone(),
            (Some(fresh), Doubt::Unsure(after), Some(write))
                if changes::is_same(&fresh, &after) =>
            {
                core.written(&write, fresh);
            }
            (Some(fresh), ..) => core.observe(fresh),
        }
        true
    }
}

/// Why a write was not made.
enum Failure {
    /// The object has changed meanwhile.
    Race,
    /// It can never be made.
    Refused(kube::Error),
    /// It was not made, and may be later.
    Later(kube::Error),
    /// It may have been made.
    Unsure(String),
}

impl From<kube::Error> for Failure {
    fn from(err: kube::Error) -> Self {
        let kube::Error::Api(status) = &err else {
            return Self::Unsure(err.to_string());
        };
        match status.code {
            // Not found is a race with a deletion.
            404 | 409 => Self::Race,
            400 | 413 | 422 => Self::Refused(err),
            500.. => Self::Unsure(err.to_string()),
            _ => Self::Later(err),
        }
    }
}

fn observe(
    core: &Core,
    event: Result<watcher::Event<GameServer>, watcher::Error>,
    has_listed: &mut bool,
) {
    match event {
        Ok(watcher::Event::Apply(server)) => core.observe(server),
        Ok(watcher::Event::InitApply(server)) => {
            *has_listed = true;
            core.observe(server);
        }
        Ok(watcher::Event::Delete(_)) => core.observe_gone(),
        Ok(watcher::Event::Init) => *has_listed = false,
        Ok(watcher::Event::InitDone) if !*has_listed => core.observe_gone(),
        Ok(watcher::Event::InitDone) => {}
        Err(err) => tracing::warn!(error = %err, "the watch of the game server broke; will resume"),
    }
}
