//! What is known of the game server, and what of it is not written yet: the middle between the transports that ask and
//! the backend that stores.
//!
//! An object that was read or written is `stored`. Calls gather in `waiting`; a write takes all of it along as
//! `in_flight` and lets go of it when it is stored. So nothing is lost when a write fails. A write leaves its id on the
//! object: one that was made without an answer is recognised by it whenever the object is read, and so counts once. A
//! write that is refused is split into `parts`, which are written one by one, so that only what is refused is dropped.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::agones::GameServer;
use cluster::resource_version;
use decide::gameserver::State;
use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use process::Clock;
use tokio::sync::{Notify, broadcast, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::BroadcastStream;
use tokio_util::sync::CancellationToken;

use super::changes::{self, Changes, RequestedState};
use super::conformance::Recorder;
use super::health::Pulse;
use super::message;
use super::refusal::Refusal;
use super::size;
use crate::proto::sdk;

/// How long a call waits for the first sight of the game server. Clients give up after as long.
const FIRST_SIGHT: Duration = Duration::from_secs(30);

/// How many changes a reader of the watch may be behind before it misses some; it always gets the newest.
const WATCH_BUFFER: usize = 64;

/// When changes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writes {
    /// By a backend, which is woken up.
    Behind,
    /// At once and only here: there is no control plane.
    Here,
}

/// Everything that calls and backends share.
pub(super) struct Core {
    shared: Mutex<Shared>,
    views: broadcast::Sender<Arc<sdk::GameServer>>,
    is_seen: watch::Sender<bool>,
    has_called: watch::Sender<bool>,
    wake: Notify,
    pub(super) writes: Writes,
    pub(super) pulse: Pulse,
    pub(super) recorder: Option<Recorder>,
    pub(super) clock: Clock,
    pub(super) stop: CancellationToken,
}

#[derive(Default)]
struct Shared {
    stored: Option<GameServer>,
    is_gone: bool,
    in_flight: Option<Batch>,
    /// What is left of writes that were refused, oldest first.
    parts: VecDeque<Changes>,
    waiting: Changes,
    /// The end of a reservation that was made here, which the object knows only to the second.
    reserved_until: Option<Instant>,
    has_requested_state: bool,
}

/// Changes that are written together, as often as it takes, under one id.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) id: String,
    pub(super) changes: Changes,
}

impl Batch {
    fn new(changes: Changes) -> Self {
        Self { id: format!("{:016x}", fastrand::u64(..)), changes }
    }
}

/// When a reservation ends.
enum ReservationEnd {
    /// It was made here, for a span of time.
    Timer(Instant),
    /// The object names the moment.
    Moment(Timestamp),
}

/// A write that is to be made.
pub(super) struct Write {
    pub(super) before: GameServer,
    pub(super) batch: Batch,
}

impl Core {
    pub(super) fn new(
        writes: Writes,
        recorder: Option<Recorder>,
        clock: Clock,
        stop: CancellationToken,
    ) -> Self {
        Self {
            shared: Mutex::default(),
            views: broadcast::Sender::new(WATCH_BUFFER),
            is_seen: watch::Sender::new(false),
            has_called: watch::Sender::new(false),
            wake: Notify::new(),
            writes,
            pulse: Pulse::new(),
            recorder,
            clock,
            stop,
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the first sight of the game server.
    pub(super) async fn seen(&self) {
        let mut is_seen = self.is_seen.subscribe();
        // The sender lives as long as `self`.
        let _ = is_seen.wait_for(|is_seen| *is_seen).await;
    }

    /// Waits for the first call of the process.
    pub(super) async fn called(&self) {
        let _ = self.has_called.subscribe().wait_for(|has_called| *has_called).await;
    }

    /// Notes that the process spoke.
    pub(super) fn note_call(&self) {
        self.has_called.send_replace(true);
    }

    /// Notes that the process spoke, and waits until it can be answered.
    pub(super) async fn attend(&self) -> Result<(), Refusal> {
        self.note_call();
        if tokio::time::timeout(FIRST_SIGHT, self.seen()).await.is_err() {
            return Err(Refusal::Unavailable("the GameServer could not be read yet".to_owned()));
        }
        Ok(())
    }

    /// Gives the game server with every change so far, also those that are not written yet.
    pub(super) fn current(&self) -> Result<GameServer, Refusal> {
        let shared = self.shared();
        let now = self.clock.now();
        let base = shared.base(now)?;
        Ok(shared.waiting.onto(&base, now))
    }

    /// Takes in a change: `ask` sees what will be stored once the write under way is done, and the changes after it.
    pub(super) fn change<T>(
        &self,
        ask: impl FnOnce(&GameServer, &mut Changes) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut shared = self.shared();
        let now = self.clock.now();
        let base = shared.base(now)?;
        let answer = ask(&base, &mut shared.waiting)?;
        if self.writes == Writes::Here {
            let changes = std::mem::take(&mut shared.waiting);
            let after = changes.onto(&base, now);
            self.settle(&mut shared, &base, &changes, after);
        }
        self.wake.notify_one();
        Ok(answer)
    }

    /// Takes in a change that adds text, unless the game server would then be too large to be stored.
    pub(super) fn change_text<T>(
        &self,
        ask: impl FnOnce(&GameServer, &mut Changes) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        self.change(|server, changes| {
            let mut next = changes.clone();
            let answer = ask(server, &mut next)?;
            size::check(server, &next.onto(server, self.clock.now()))?;
            *changes = next;
            Ok(answer)
        })
    }

    /// Requests another state.
    pub(super) fn request_state(&self, requested: RequestedState) -> Result<(), Refusal> {
        self.shared().has_requested_state = true;
        self.change(|_, changes| {
            changes.request_state(requested);
            Ok(())
        })
    }

    /// Returns the state that a call of Ready requests: `RequestReady` where there is a controller.
    pub(super) fn ready(&self) -> RequestedState {
        RequestedState::Ready { is_request: self.writes == Writes::Behind }
    }

    /// Gives the game server as it is stored now, and then every change until the end.
    pub(super) fn watch(
        &self,
    ) -> Result<impl Stream<Item = Arc<sdk::GameServer>> + Send + use<>, Refusal> {
        let shared = self.shared();
        let first = Arc::new(message::of(shared.stored()?));
        let later = BroadcastStream::new(self.views.subscribe());
        // A reader that fell behind goes on with the oldest change that is still kept.
        let later = later.filter_map(|view| std::future::ready(view.ok()));
        let all = futures::stream::once(std::future::ready(first)).chain(later);
        Ok(all.take_until(self.stop.clone().cancelled_owned()))
    }

    /// Takes in an object that was read. An older one than the present one is passed over. Returns the write under way
    /// if the object shows that it was made.
    pub(super) fn observe(&self, server: GameServer) -> Option<Write> {
        let mut shared = self.shared();
        let before = shared.stored.clone();
        if before.as_ref().is_some_and(|before| !is_newer(&server, before)) {
            return None;
        }
        let made = shared.in_flight.take_if(|batch| changes::is_written_by(&server, &batch.id));
        let Some((batch, before)) = made.zip(before) else {
            self.keep(&mut shared, server);
            return None;
        };
        self.settle(&mut shared, &before, &batch.changes, server);
        Some(Write { before, batch })
    }

    /// Takes in an object whatever its version is.
    pub(super) fn replace(&self, server: GameServer) {
        self.keep(&mut self.shared(), server);
        self.wake.notify_one();
    }

    fn keep(&self, shared: &mut Shared, server: GameServer) {
        if changes::state(&server) != State::Reserved {
            shared.reserved_until = None;
        }
        // Without a reader there is nobody to tell.
        let _ = self.views.send(Arc::new(message::of(&server)));
        shared.stored = Some(server);
        self.is_seen.send_replace(true);
    }

    /// Notes that the object is no longer there.
    pub(super) fn observe_gone(&self) {
        let mut shared = self.shared();
        shared.is_gone = shared.stored.is_some();
    }

    /// Waits until there is something to write.
    pub(super) async fn has_changes(&self) {
        while !self.shared().has_changes() {
            self.wake.notified().await;
        }
    }

    /// Returns the write that is due: the one that was not finished, the next part of one that was refused, or all that
    /// waits. A state does not wait for the parts before it.
    pub(super) fn writing(&self) -> Option<Write> {
        let mut shared = self.shared();
        if !shared.has_changes() {
            return None;
        }
        if shared.in_flight.is_none() {
            let state = if shared.parts.is_empty() { None } else { shared.waiting.take_state() };
            let next = state.or_else(|| shared.parts.pop_front());
            let next = next.unwrap_or_else(|| std::mem::take(&mut shared.waiting));
            shared.in_flight = Some(Batch::new(next));
        }
        Some(Write { before: shared.stored.clone()?, batch: shared.in_flight.clone()? })
    }

    /// Ends the write under way: `after` is what is stored now.
    pub(super) fn written(&self, write: &Write, after: GameServer) {
        let mut shared = self.shared();
        shared.in_flight = None;
        self.settle(&mut shared, &write.before, &write.batch.changes, after);
    }

    /// Ends the write under way, which can never be made: its parts are tried one by one. Returns the change that is
    /// dropped because it was alone.
    pub(super) fn refused(&self) -> Option<Changes> {
        let mut shared = self.shared();
        let batch = shared.in_flight.take()?;
        match batch.changes.split() {
            (first, Some(rest)) => {
                shared.parts.push_front(rest);
                shared.parts.push_front(first);
                None
            }
            (alone, None) => {
                // Whoever watches sees that the change did not come.
                if let Some(stored) = &shared.stored {
                    let _ = self.views.send(Arc::new(message::of(stored)));
                }
                Some(alone)
            }
        }
    }

    fn settle(&self, shared: &mut Shared, before: &GameServer, made: &Changes, after: GameServer) {
        if after != *before {
            self.keep(shared, after);
        }
        if let Some(RequestedState::Reserved(span)) = made.requested_state_for(before) {
            shared.reserved_until = span.map(|span| Instant::now() + span);
        }
    }

    /// Waits for the end of a reservation, and asks for Ready then. May be dropped and called again.
    pub(super) async fn end_reservation(&self) {
        let end = self.shared().reservation_end();
        match end {
            Some(ReservationEnd::Timer(at)) => tokio::time::sleep_until(at).await,
            Some(ReservationEnd::Moment(at)) => self.clock.sleep_until(at).await,
            None => std::future::pending().await,
        }
        // A game server that is gone needs no state.
        let _ = self.change(|_, changes| {
            changes.request_state(self.ready());
            Ok(())
        });
    }

    /// Waits for the next change of anything.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Waits until the game server is on its way out, if its process ever set a state.
    pub(super) async fn left(&self) {
        let mut views = self.views.subscribe();
        loop {
            {
                let shared = self.shared();
                let is_leaving = shared.stored.as_ref().is_none_or(changes::is_leaving);
                if !shared.has_requested_state || shared.is_gone || is_leaving {
                    return;
                }
            }
            // An error is a reader that fell behind, which looks again.
            let _ = views.recv().await;
        }
    }
}

impl Shared {
    fn stored(&self) -> Result<&GameServer, Refusal> {
        let gone = || Refusal::NotFound("not found: the GameServer is gone".to_owned());
        self.stored.as_ref().filter(|_| !self.is_gone).ok_or_else(gone)
    }

    /// Returns what will be stored once the write under way and the parts of refused ones are done.
    fn base(&self, now: Timestamp) -> Result<GameServer, Refusal> {
        let stored = self.stored()?.clone();
        Ok(self.taken().fold(stored, |server, changes| changes.onto(&server, now)))
    }

    /// Iterates over the changes that calls can no longer add to.
    fn taken(&self) -> impl Iterator<Item = &Changes> {
        self.in_flight.iter().map(|batch| &batch.changes).chain(&self.parts)
    }

    fn has_changes(&self) -> bool {
        let is_idle = self.in_flight.is_none() && self.parts.is_empty() && self.waiting.is_empty();
        !self.is_gone && self.stored.is_some() && !is_idle
    }

    fn reservation_end(&self) -> Option<ReservationEnd> {
        let stored =
            self.stored().ok().filter(|stored| changes::state(stored) == State::Reserved)?;
        let mut changes = self.taken().chain([&self.waiting]);
        if changes.any(|changes| changes.requested_state_for(stored).is_some()) {
            return None;
        }
        // Without one of our own, the object says it: this process was started anew.
        self.reserved_until.map(ReservationEnd::Timer).or_else(|| {
            Some(ReservationEnd::Moment(stored.status.as_ref()?.reserved_until.as_ref()?.0))
        })
    }
}

/// Whether an object is a newer version of another. Without versions, as in local mode, the later read counts.
fn is_newer(read: &GameServer, than: &GameServer) -> bool {
    // A game server of the same name that was created later belongs to another process.
    let is_other = than.metadata.uid.is_some() && read.metadata.uid != than.metadata.uid;
    let (read, than) = (resource_version(&read.metadata), resource_version(&than.metadata));
    !is_other && (read == 0 || than == 0 || read > than)
}
