//! The backend that watches and writes the GameServer of a Kubernetes API.
//!
//! One task reads and writes, so that the watch event of a write is never mistaken for another client's change. The first
//! change is written at once; those within the rate limit after a write are combined into the next one. When the API rejects
//! a write, its changes are tried separately, and one that is rejected on its own is dropped and reported.

use std::error::Error;
use std::time::Duration;

use api::agones::GameServer;
use cluster::Undecoded;
use futures::StreamExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::runtime::watcher;
use process::Clock;
use tokio::time::Instant;

use super::Settings;
use super::changes;
use super::core::{Core, Write};
use super::events::Events;

/// The timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The first and the longest delay after a failure; it doubles with each failure in a row.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How often a write is retried at once after a conflict.
const MAX_CONFLICTS: usize = 10;

/// How long pending changes may delay the shutdown.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct Backend {
    api: Api<GameServer>,
    watched: Api<Undecoded<GameServer>>,
    name: String,
    rate_limit: Duration,
    clock: Clock,
    events: Events,
    /// Whether the object has to be read before the next write, after a conflict or a write with an unknown outcome.
    is_stale: bool,
}

impl Backend {
    pub(super) fn new(client: kube::Client, settings: &Settings) -> Self {
        Self {
            api: Api::namespaced(client.clone(), &settings.namespace),
            watched: Api::namespaced(client.clone(), &settings.namespace),
            name: settings.name.clone(),
            rate_limit: settings.rate_limit,
            clock: settings.clock.clone(),
            events: Events::start(client, settings),
            is_stale: false,
        }
    }

    /// Watches and writes until the SDK server stops, and then writes the pending changes.
    pub(super) async fn run(mut self, core: &Core) {
        // This needs only the verbs list, watch and patch.
        let one = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let mut watched = cluster::watch(self.watched.clone(), one, core.random.clone()).boxed();
        let mut has_listed = false;
        let mut failures = 0;
        let mut write_at = Instant::now();
        loop {
            let due = async {
                core.pending_changes().await;
                tokio::time::sleep_until(write_at).await;
            };
            tokio::select! {
                () = core.stop.cancelled() => break,
                Some(event) = watched.next() => self.handle_event(core, event, &mut has_listed),
                () = core.end_reservation() => {}
                () = due => {
                    failures = if self.write(core).await { 0 } else { failures + 1 };
                    write_at = Instant::now() + self.delay(failures);
                }
            }
        }
        let rest = async {
            while core.next_write().is_some() {
                if !self.write(core).await {
                    tokio::time::sleep(BACKOFF.0).await;
                }
            }
        };
        if tokio::time::timeout(FINAL_WRITE_TIMEOUT, rest).await.is_err() {
            tracing::warn!("stopping with changes that could not be written");
        }
    }

    fn delay(&self, failures: u32) -> Duration {
        match failures.checked_sub(1) {
            None => self.rate_limit,
            Some(doublings) => BACKOFF.0.saturating_mul(1 << doublings.min(10)).min(BACKOFF.1),
        }
    }

    /// Sends the next write; returns false when it has to be retried later.
    async fn write(&mut self, core: &Core) -> bool {
        for _ in 0..MAX_CONFLICTS {
            if !self.refresh(core).await {
                return false;
            }
            let Some(write) = core.next_write() else { return true };
            match self.send(&write).await {
                Ok(stored) => {
                    self.events.written(&write, &stored);
                    core.complete_write(&write, stored);
                    return true;
                }
                Err(WriteError::Conflict) => self.is_stale = true,
                Err(WriteError::Rejected(err)) => {
                    // Otherwise its parts are tried separately, the state first.
                    if let Some(dropped) = core.reject_write() {
                        self.events.rejected(&write.before, &dropped, &err);
                        return true;
                    }
                }
                Err(WriteError::Retryable(err)) => {
                    tracing::warn!(error = %cluster::explain(&err), "could not write the game server; retrying");
                    return false;
                }
                Err(WriteError::Unknown(err)) => {
                    tracing::warn!(error = %cluster::explain(&*err), "a write has an unknown outcome; reading the game server before retrying");
                    self.is_stale = true;
                    return false;
                }
            }
        }
        false
    }

    async fn send(&self, write: &Write) -> Result<GameServer, WriteError> {
        let (before, batch) = (&write.before, &write.batch);
        let after = batch.changes.onto(before, self.clock.now());
        let Some(patch) = changes::patch(before, &after, &batch.id) else {
            return Ok(before.clone());
        };
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let request = self.api.patch(&self.name, &params, &patch);
        match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
            Ok(answer) => answer.map_err(WriteError::from),
            Err(late) => Err(WriteError::Unknown(late.into())),
        }
    }

    /// Reads the object if the known one is stale; returns false when that fails.
    async fn refresh(&mut self, core: &Core) -> bool {
        if !self.is_stale {
            return true;
        }
        let one = ListParams::default().fields(&format!("metadata.name={}", self.name));
        let Ok(Ok(list)) = tokio::time::timeout(REQUEST_TIMEOUT, self.api.list(&one)).await else {
            tracing::warn!("could not read the game server; retrying");
            return false;
        };
        self.is_stale = false;
        match list.items.into_iter().next() {
            Some(fresh) => self.update(core, fresh),
            None => core.observe_deletion(),
        }
        true
    }

    /// Passes an observed object on to the core, and records the write that it proves to have succeeded.
    fn update(&self, core: &Core, server: GameServer) {
        if let Some(write) = core.observe(server.clone()) {
            self.events.written(&write, &server);
        }
    }

    fn update_decoded(&self, core: &Core, server: &Undecoded<GameServer>) {
        if let Some(server) = server.decode() {
            self.update(core, server);
        }
    }

    fn handle_event(
        &self,
        core: &Core,
        event: watcher::Event<Undecoded<GameServer>>,
        has_listed: &mut bool,
    ) {
        match event {
            watcher::Event::Apply(server) => self.update_decoded(core, &server),
            watcher::Event::InitApply(server) => {
                *has_listed = true;
                self.update_decoded(core, &server);
            }
            watcher::Event::Delete(_) => core.observe_deletion(),
            watcher::Event::Init => *has_listed = false,
            watcher::Event::InitDone if !*has_listed => core.observe_deletion(),
            watcher::Event::InitDone => {}
        }
    }
}

/// Why a write failed.
enum WriteError {
    /// Another write came first.
    Conflict,
    /// The API will never accept it.
    Rejected(kube::Error),
    /// It failed and may succeed later.
    Retryable(kube::Error),
    /// It may have succeeded.
    Unknown(Box<dyn Error + Send + Sync>),
}

impl From<kube::Error> for WriteError {
    fn from(err: kube::Error) -> Self {
        let kube::Error::Api(status) = &err else {
            return Self::Unknown(err.into());
        };
        match status.code {
            // Not found is a conflict with a deletion.
            404 | 409 => Self::Conflict,
            401 | 408 | 429 => Self::Retryable(err),
            // Missing permissions may still be granted, and affect all changes alike; other 403s concern the change itself.
            403 if status.message.contains(" cannot patch resource ") => Self::Retryable(err),
            // The API server reports this when etcd rejects the size of an object.
            500 if status.message.contains("request is too large") => Self::Rejected(err),
            400..500 => Self::Rejected(err),
            _ => Self::Unknown(err.into()),
        }
    }
}
