//! Which game server does a caller get, and how is that made true?
//!
//! ```text
//!  Kubernetes ─┐
//!  gRPC ───────┼─▶ gate ─▶ books: choose, project ─▶ write with its version ─▶ answer
//!  REST ───────┘            ▲                             │ conflict: choose again
//!                           └──── watch of game servers ◀─┘
//! ```
//!
//! Nothing sleeps and nothing scans: the index is fed by a watch, a choice is made for each request, and writes go out in
//! parallel. Two allocators never give out the same Ready server, since the API takes only one of two writes on one version.

mod books;
mod clusters;
pub mod doors;
mod events;
mod gate;
pub mod kubernetes;
mod messages;
mod record;
mod serve;
mod server;
mod underway;
mod watch;
mod write;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use api::allocation::{AllocationState, GameServerAllocation, GameServerAllocationStatus};
use decide::allocation::Request;
use jiff::Timestamp;
use kube::{Api, Client};
use process::{Clock, Supervised, Supervisor};
use tokio::sync::oneshot;

use books::{Books, Claim, Flown, Landing, Verdict};
use events::Events;
pub use gate::Bounds;
use gate::Gate;
pub use record::{Measured, Recorder};
pub use serve::{Door, Doors, ServeError, aggregated, matchmakers, serve};
use server::Server;
use underway::Underway;
use write::{Sent, Write};

/// How an allocator is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The one namespace whose game servers are given out; all, unless given.
    pub namespace: Option<String>,
    /// How much is under way, and how much may wait.
    pub bounds: Bounds,
    /// How many servers are tried for one request before the answer is `Contention`.
    pub tries: u32,
    /// Whether a server is written as a whole and not by a merge patch: kube-apiserver spends a tenth less on it, and this
    /// process keeps every server's text.
    pub replaces: bool,
    /// Whether events are sent.
    pub events: bool,
    /// Who hears of every allocation, to count them.
    pub recorder: Option<Recorder>,
    /// Where time comes from.
    pub clock: Clock,
    /// What watches over the allocator's tasks.
    pub supervisor: Supervisor,
}

impl Default for Settings {
    fn default() -> Self {
        let bounds = Bounds::default();
        Self {
            namespace: None,
            bounds,
            tries: 16,
            replaces: true,
            events: true,
            recorder: None,
            clock: Clock::system(),
            supervisor: Supervisor::new(),
        }
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The request cannot be meant.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<api::Problem>),
    /// More is asked than can be done.
    #[error("too many concurrent requests: the queue of namespace `{0}` is full")]
    Overloaded(Arc<str>),
    /// The API refused the write, or did not answer.
    #[error("could not write to a game server")]
    Write(#[source] Arc<kube::Error>),
    /// Other clusters were asked for, and nothing says which.
    #[error("no multi-cluster allocation policy is specified for namespace `{0}`")]
    NoPolicy(Arc<str>),
    /// Another cluster did not give a server.
    #[error("{endpoint}: {}", status.message())]
    Remote {
        /// Who was asked last.
        endpoint: String,
        /// What it said.
        status: Box<tonic::Status>,
    },
}

/// Gives out game servers, for as long as one clone of it is there.
#[derive(Clone)]
pub struct Allocator {
    shared: Arc<Shared>,
    _tasks: Arc<[Supervised]>,
}

struct Shared {
    client: Client,
    settings: Settings,
    books: Mutex<Books>,
    gate: Gate,
    events: Events,
    channels: clusters::Channels,
}

impl Allocator {
    /// Starts to follow game servers, and waits until all of them are known.
    pub async fn start(client: Client, settings: Settings) -> Self {
        let (events, sending) =
            Events::new(client.clone(), settings.clock.clone(), settings.events);
        let shared = Arc::new(Shared {
            gate: Gate::new(settings.bounds),
            books: Mutex::default(),
            client,
            settings,
            events,
            channels: clusters::Channels::default(),
        });
        let (complete, mut is_complete) = tokio::sync::watch::channel(false);
        let (nodes_complete, mut are_nodes_complete) = tokio::sync::watch::channel(false);
        let supervisor = &shared.settings.supervisor;
        let (of_servers, of_nodes) = (Arc::clone(&shared), Arc::clone(&shared));
        let tasks = [
            supervisor.spawn("events of allocations", sending),
            supervisor.spawn("watch of game servers for allocations", move || {
                watch::servers(Arc::clone(&of_servers), complete.clone())
            }),
            supervisor.spawn("watch of nodes for allocations", move || {
                watch::nodes(Arc::clone(&of_nodes), nodes_complete.clone())
            }),
        ];
        // The senders live as long as the tasks, which live as long as `tasks`.
        let _ = is_complete.wait_for(|complete| *complete).await;
        let _ = are_nodes_complete.wait_for(|complete| *complete).await;
        Self { shared, _tasks: Arc::new(tasks) }
    }

    /// Gives a game server to an allocation that was admitted. Who stops waiting before the write costs nothing; a write
    /// that was sent is finished.
    pub async fn allocate(
        &self,
        allocation: &GameServerAllocation,
    ) -> Result<GameServerAllocationStatus, Refusal> {
        let asked_at = Instant::now();
        let mut tries = None;
        let answer = if allocation.spec.multi_cluster_setting.enabled {
            clusters::allocate(self, allocation, &mut tries).await
        } else {
            self.allocate_here(allocation, &mut tries).await
        };
        if let Some(recorder) = &self.shared.settings.recorder {
            recorder.record(allocation, &answer, asked_at.elapsed(), tries);
        }
        answer
    }

    /// Gives a game server of this cluster, and says how many were tried for it.
    async fn allocate_here(
        &self,
        allocation: &GameServerAllocation,
        tries: &mut Option<u32>,
    ) -> Result<GameServerAllocationStatus, Refusal> {
        let request = Arc::new(allocation.view(fastrand::u64(..)));
        let full = |_| Refusal::Overloaded(Arc::clone(&request.namespace));
        let permit = Arc::new(self.shared.gate.enter(&request.namespace).await.map_err(full)?);
        let mut failed = None;
        for attempt in 0..self.shared.settings.tries.max(1) {
            let (answer, hears) = oneshot::channel();
            let claim =
                Claim { request: Arc::clone(&request), answer, permit: Arc::clone(&permit) };
            let chosen = self.shared.books().claim(claim, skip(attempt), self.shared.now());
            match chosen {
                Err(_) => return Ok(nothing(AllocationState::UnAllocated)),
                Ok(None) => {}
                Ok(Some(flown)) => Underway::new(Arc::clone(&self.shared).fly(flown)).await,
            }
            match hears.await {
                Ok(Verdict::Won(server)) => {
                    *tries = Some(attempt + 1);
                    return Ok(server.answer());
                }
                Ok(Verdict::Lost) => {}
                Ok(Verdict::Failed(err)) => {
                    failed = Some(err);
                    break;
                }
                // The runtime is shutting down.
                Err(_) => break,
            }
        }
        match failed {
            Some(err) => Err(Refusal::Write(err)),
            None => Ok(nothing(AllocationState::Contention)),
        }
    }

    /// Counts the servers that nobody has, as far as this allocator knows. It looks at every one.
    pub fn ready_servers(&self) -> usize {
        self.shared.books().ready_servers()
    }

    /// Gives the server that an allocation would get now, as it is now, and changes nothing.
    pub fn preview(&self, allocation: &GameServerAllocation) -> GameServerAllocationStatus {
        let request: Request = allocation.view(fastrand::u64(..));
        match self.shared.books().peek(&request) {
            Some(server) => server.answer(),
            None => nothing(AllocationState::UnAllocated),
        }
    }
}

/// How many servers to pass over. Allocators that lost to another one try the same servers in the same order; who lost
/// steps aside, a little further each time.
fn skip(attempt: u32) -> usize {
    fastrand::usize(0..1 << attempt.min(6))
}

fn nothing(state: AllocationState) -> GameServerAllocationStatus {
    GameServerAllocationStatus { state, ..GameServerAllocationStatus::default() }
}

impl Shared {
    fn now(&self) -> Timestamp {
        self.settings.clock.now()
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // A panic while holding it would have been a broken invariant of the index; the versions still hold.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes to a server, and goes on elsewhere for as long as someone waits for it.
    async fn fly(self: Arc<Self>, first: Flown) {
        if let Some(next) = self.fly_once(first).await {
            tokio::spawn(async move {
                let mut next = Some(next);
                while let Some(flown) = next {
                    next = self.fly_once(flown).await;
                }
            });
        }
    }

    /// Writes to a server once, tells who waited for it, and gives what is to be written next.
    async fn fly_once(&self, Flown { base, mut claims }: Flown) -> Option<Flown> {
        claims.retain(|claim| !claim.answer.is_closed());
        let (landing, verdict) = match claims.as_slice() {
            [] => (Landing::NotSent, Verdict::Lost),
            claims => process::catch_panic(self.write(&base, claims)).await.unwrap_or_else(|cause| {
                // Otherwise the server would be under way for ever.
                tracing::error!(
                    namespace = base.namespace(),
                    name = base.name(),
                    cause,
                    "a write to a game server broke off; the server is not allocated until it is seen again"
                );
                (Landing::Unknown, Verdict::Lost)
            }),
        };
        let (leave, next) = self.books().land(&base, landing, self.now());
        claims.into_iter().for_each(|claim| tell(claim, verdict.clone()));
        leave.into_iter().for_each(|claim| tell(claim, Verdict::Lost));
        next
    }

    /// Sends one write for all who wait for it.
    async fn write(&self, base: &Server, claims: &[Claim]) -> (Landing, Verdict) {
        let write = Write::new(base, claims.iter().map(|c| &*c.request), self.now());
        let api: Api<Server> = Api::namespaced(self.client.clone(), base.namespace());
        match write.send(&api, base).await {
            Sent::Written(server) => {
                self.events.tell(&server, &write.warnings);
                let server = Arc::new(server);
                (Landing::Seen(Arc::clone(&server)), Verdict::Won(server))
            }
            Sent::Conflict(Some(server)) => (Landing::Seen(Arc::new(server)), Verdict::Lost),
            Sent::Conflict(None) => (self.learn(&api, base).await, Verdict::Lost),
            Sent::Gone => (Landing::Gone, Verdict::Lost),
            Sent::Failed(err) => (Landing::Unknown, Verdict::Failed(Arc::new(err))),
        }
    }

    /// Finds out what a server is like that is not what we thought, unless the watch has told.
    async fn learn(&self, api: &Api<Server>, base: &Server) -> Landing {
        if self.books().knows_newer(base) {
            return Landing::NotSent;
        }
        match write::look(api, base.name()).await {
            Ok(Some(server)) => Landing::Seen(Arc::new(server)),
            Ok(None) => Landing::Gone,
            Err(_) => Landing::Unknown,
        }
    }
}

/// Tells a claim its verdict; who left does not hear it.
fn tell(claim: Claim, verdict: Verdict) {
    drop(claim.permit);
    let _ = claim.answer.send(verdict);
}
