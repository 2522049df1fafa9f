//! The known game server and its pending changes, between the transports that change it and the backend that stores it.
//!
//! The object as last read or written is `stored`. Calls add to `pending`; a write moves all of it to `in_flight`, where it
//! stays until it is stored. So nothing is lost when a write fails. A write annotates the object with its id: one that
//! succeeded without a response is recognised by the id when the object is read, and is not applied twice. A rejected write is
//! split into `parts`, which are written one by one, so that only the rejected change is dropped.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::agones::GameServer;
use cluster::resource_version;
use decide::gameserver::State;
use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use process::{Clock, Random};
use tokio::sync::{Notify, broadcast, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::BroadcastStream;
use tokio_util::sync::CancellationToken;

use super::changes::{self, Changes, RequestedState};
use super::conformance::Recorder;
use super::error::CallError;
use super::health::Heartbeat;
use super::message;
use super::size;
use crate::proto::sdk;

/// How long a call waits until the game server was read. Clients have the same timeout.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);

/// How many updates a watcher may lag behind before it misses some; it always gets the newest.
const WATCH_BUFFER: usize = 64;

/// When changes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteMode {
    /// Later, by a backend that is notified.
    Deferred,
    /// At once and in memory: there is no control plane.
    Immediate,
}

/// The state that calls and backends share.
pub(super) struct Core {
    shared: Mutex<Shared>,
    updates: broadcast::Sender<Arc<sdk::GameServer>>,
    is_synced: watch::Sender<bool>,
    has_called: watch::Sender<bool>,
    changed: Notify,
    pub(super) write_mode: WriteMode,
    pub(super) heartbeat: Heartbeat,
    pub(super) recorder: Option<Recorder>,
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) stop: CancellationToken,
}

#[derive(Default)]
struct Shared {
    stored: Option<GameServer>,
    is_deleted: bool,
    in_flight: Option<Batch>,
    /// The remaining parts of rejected writes, oldest first.
    parts: VecDeque<Changes>,
    pending: Changes,
    /// The exact end of a reservation made by this process; the object has it only to the second.
    reserved_until: Option<Instant>,
    has_requested_state: bool,
}

/// Changes that are written together under one id, with retries.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) id: String,
    pub(super) changes: Changes,
}

/// When a reservation ends.
enum ReservationEnd {
    /// It was made by this process, for a duration.
    Timer(Instant),
    /// The object has the time.
    Moment(Timestamp),
}

/// A write to send.
pub(super) struct Write {
    pub(super) before: GameServer,
    pub(super) batch: Batch,
}

impl Core {
    pub(super) fn new(
        write_mode: WriteMode,
        recorder: Option<Recorder>,
        clock: Clock,
        random: Random,
        stop: CancellationToken,
    ) -> Self {
        Self {
            shared: Mutex::default(),
            updates: broadcast::Sender::new(WATCH_BUFFER),
            is_synced: watch::Sender::new(false),
            has_called: watch::Sender::new(false),
            changed: Notify::new(),
            write_mode,
            heartbeat: Heartbeat::new(),
            recorder,
            clock,
            random,
            stop,
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the game server was read.
    pub(super) async fn synced(&self) {
        let mut is_synced = self.is_synced.subscribe();
        // The sender lives as long as `self`.
        let _ = is_synced.wait_for(|is_synced| *is_synced).await;
    }

    /// Waits for the first call of the process.
    pub(super) async fn first_call(&self) {
        let _ = self.has_called.subscribe().wait_for(|has_called| *has_called).await;
    }

    /// Records that the process made a call.
    pub(super) fn record_call(&self) {
        self.has_called.send_replace(true);
    }

    /// Records a call, and waits until the game server was read.
    pub(super) async fn begin_call(&self) -> Result<(), CallError> {
        self.record_call();
        if tokio::time::timeout(SYNC_TIMEOUT, self.synced()).await.is_err() {
            return Err(CallError::Unavailable("the GameServer could not be read yet".to_owned()));
        }
        Ok(())
    }

    /// Returns the game server with all changes, including those that are not written yet.
    pub(super) fn current(&self) -> Result<GameServer, CallError> {
        let shared = self.shared();
        let now = self.clock.now();
        let base = shared.base(now)?;
        Ok(shared.pending.onto(&base, now))
    }

    /// Adds a change. `request` gets the object as it will be after the writes in flight, and the pending changes.
    pub(super) fn change<T>(
        &self,
        request: impl FnOnce(&GameServer, &mut Changes) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let mut shared = self.shared();
        let now = self.clock.now();
        let base = shared.base(now)?;
        let answer = request(&base, &mut shared.pending)?;
        if self.write_mode == WriteMode::Immediate {
            let changes = std::mem::take(&mut shared.pending);
            let after = changes.onto(&base, now);
            self.store_written(&mut shared, &base, &changes, after);
        }
        self.changed.notify_one();
        Ok(answer)
    }

    /// Adds a change, unless it makes the game server too large to be stored.
    pub(super) fn change_checking_size<T>(
        &self,
        request: impl FnOnce(&GameServer, &mut Changes) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        self.change(|server, changes| {
            let mut next = changes.clone();
            let answer = request(server, &mut next)?;
            size::check(server, &next.onto(server, self.clock.now()))?;
            *changes = next;
            Ok(answer)
        })
    }

    /// Requests another state.
    pub(super) fn request_state(&self, requested: RequestedState) -> Result<(), CallError> {
        self.shared().has_requested_state = true;
        self.change(|_, changes| {
            changes.request_state(requested);
            Ok(())
        })
    }

    /// Returns the state that a call of Ready requests: `RequestReady` where there is a controller.
    pub(super) fn ready_request(&self) -> RequestedState {
        RequestedState::Ready { is_request: self.write_mode == WriteMode::Deferred }
    }

    /// Streams the stored game server, and then every change until the SDK server stops.
    pub(super) fn watch(
        &self,
    ) -> Result<impl Stream<Item = Arc<sdk::GameServer>> + Send + use<>, CallError> {
        let shared = self.shared();
        let first = Arc::new(message::from_object(shared.stored()?));
        let later = BroadcastStream::new(self.updates.subscribe());
        // A lagging watcher continues with the oldest update that is still buffered.
        let later = later.filter_map(|update| std::future::ready(update.ok()));
        let all = futures::stream::once(std::future::ready(first)).chain(later);
        Ok(all.take_until(self.stop.clone().cancelled_owned()))
    }

    /// Stores an object that was read, unless it is older than the stored one. Returns the write in flight if the object shows
    /// that it succeeded.
    pub(super) fn observe(&self, server: GameServer) -> Option<Write> {
        let mut shared = self.shared();
        let before = shared.stored.clone();
        if before.as_ref().is_some_and(|before| !is_newer(&server, before)) {
            return None;
        }
        let written = shared.in_flight.take_if(|batch| changes::is_written_by(&server, &batch.id));
        let Some((batch, before)) = written.zip(before) else {
            self.store(&mut shared, server);
            return None;
        };
        self.store_written(&mut shared, &before, &batch.changes, server);
        Some(Write { before, batch })
    }

    /// Stores an object whatever its version is.
    pub(super) fn replace(&self, server: GameServer) {
        self.store(&mut self.shared(), server);
        self.changed.notify_one();
    }

    fn store(&self, shared: &mut Shared, server: GameServer) {
        if changes::state(&server) != State::Reserved {
            shared.reserved_until = None;
        }
        // This fails if there is no watcher.
        let _ = self.updates.send(Arc::new(message::from_object(&server)));
        shared.stored = Some(server);
        self.is_synced.send_replace(true);
    }

    /// Records that the object was deleted.
    pub(super) fn observe_deletion(&self) {
        let mut shared = self.shared();
        shared.is_deleted = shared.stored.is_some();
    }

    /// Waits until there are changes to write.
    pub(super) async fn pending_changes(&self) {
        while !self.shared().has_changes() {
            self.changed.notified().await;
        }
    }

    /// Returns the next write: the unfinished one, the next part of a rejected one, or all pending changes. A requested state
    /// does not wait for the parts before it.
    pub(super) fn next_write(&self) -> Option<Write> {
        let mut shared = self.shared();
        if !shared.has_changes() {
            return None;
        }
        if shared.in_flight.is_none() {
            let state = if shared.parts.is_empty() { None } else { shared.pending.take_state() };
            let next = state.or_else(|| shared.parts.pop_front());
            let next = next.unwrap_or_else(|| std::mem::take(&mut shared.pending));
            let id = format!("{:016x}", self.random.u64());
            shared.in_flight = Some(Batch { id, changes: next });
        }
        Some(Write { before: shared.stored.clone()?, batch: shared.in_flight.clone()? })
    }

    /// Completes the write in flight: `after` is stored now.
    pub(super) fn complete_write(&self, write: &Write, after: GameServer) {
        let mut shared = self.shared();
        shared.in_flight = None;
        self.store_written(&mut shared, &write.before, &write.batch.changes, after);
    }

    /// Ends the write in flight, which the API will never accept, and queues its parts. Returns the change that is dropped
    /// because it was alone.
    pub(super) fn reject_write(&self) -> Option<Changes> {
        let mut shared = self.shared();
        let batch = shared.in_flight.take()?;
        match batch.changes.split() {
            (first, Some(rest)) => {
                shared.parts.push_front(rest);
                shared.parts.push_front(first);
                None
            }
            (alone, None) => {
                // Watchers see that the change was not made.
                if let Some(stored) = &shared.stored {
                    let _ = self.updates.send(Arc::new(message::from_object(stored)));
                }
                Some(alone)
            }
        }
    }

    fn store_written(
        &self,
        shared: &mut Shared,
        before: &GameServer,
        changes: &Changes,
        after: GameServer,
    ) {
        if after != *before {
            self.store(shared, after);
        }
        if let Some(RequestedState::Reserved(span)) = changes.requested_state_for(before) {
            shared.reserved_until = span.map(|span| Instant::now() + span);
        }
    }

    /// Waits for the end of a reservation, and then requests Ready. Cancel safe.
    pub(super) async fn end_reservation(&self) {
        let end = self.shared().reservation_end();
        match end {
            Some(ReservationEnd::Timer(at)) => tokio::time::sleep_until(at).await,
            Some(ReservationEnd::Moment(at)) => self.clock.sleep_until(at).await,
            None => std::future::pending().await,
        }
        // A game server that no longer exists needs no state.
        let _ = self.change(|_, changes| {
            changes.request_state(self.ready_request());
            Ok(())
        });
    }

    /// Waits for the next change.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Waits until the game server is terminating, if its process ever set a state.
    pub(super) async fn terminating(&self) {
        let mut updates = self.updates.subscribe();
        loop {
            {
                let shared = self.shared();
                let is_terminating = shared.stored.as_ref().is_none_or(changes::is_terminating);
                if !shared.has_requested_state || shared.is_deleted || is_terminating {
                    return;
                }
            }
            // An error means that this receiver lagged; it checks again.
            let _ = updates.recv().await;
        }
    }
}

impl Shared {
    fn stored(&self) -> Result<&GameServer, CallError> {
        let deleted = || CallError::NotFound("not found: the GameServer was deleted".to_owned());
        self.stored.as_ref().filter(|_| !self.is_deleted).ok_or_else(deleted)
    }

    /// Returns the object as it will be after the write in flight and the parts of rejected ones.
    fn base(&self, now: Timestamp) -> Result<GameServer, CallError> {
        let stored = self.stored()?.clone();
        Ok(self.submitted().fold(stored, |server, changes| changes.onto(&server, now)))
    }

    /// Iterates over the changes that calls can no longer add to.
    fn submitted(&self) -> impl Iterator<Item = &Changes> {
        self.in_flight.iter().map(|batch| &batch.changes).chain(&self.parts)
    }

    fn has_changes(&self) -> bool {
        let is_idle = self.in_flight.is_none() && self.parts.is_empty() && self.pending.is_empty();
        !self.is_deleted && self.stored.is_some() && !is_idle
    }

    fn reservation_end(&self) -> Option<ReservationEnd> {
        let stored =
            self.stored().ok().filter(|stored| changes::state(stored) == State::Reserved)?;
        let mut changes = self.submitted().chain([&self.pending]);
        if changes.any(|changes| changes.requested_state_for(stored).is_some()) {
            return None;
        }
        // After a restart of this process only the object has it.
        self.reserved_until.map(ReservationEnd::Timer).or_else(|| {
            Some(ReservationEnd::Moment(stored.status.as_ref()?.reserved_until.as_ref()?.0))
        })
    }
}

/// Whether an object is a newer version of another. Without versions, as in local mode, it always is.
fn is_newer(read: &GameServer, than: &GameServer) -> bool {
    // A game server of the same name with another UID belongs to another process.
    let is_other = than.metadata.uid.is_some() && read.metadata.uid != than.metadata.uid;
    let (read, than) = (resource_version(&read.metadata), resource_version(&than.metadata));
    !is_other && (read == 0 || than == 0 || read > than)
}
