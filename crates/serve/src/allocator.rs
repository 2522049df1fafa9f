//! The allocator: chooses a game server for each request, and writes the allocation.
//!
//! ```text
//!  Kubernetes ─┐
//!  gRPC ───────┼─▶ concurrency limit ─▶ claim table: choose, project ─▶ write with its version ─▶ answer
//!  REST ───────┘                         ▲                                 │ conflict: choose again
//!                                        └──── cache of game servers ◀─────┘
//! ```
//!
//! Nothing sleeps and nothing scans: the index is kept up to date by the shared cache, a choice is made for each request, and writes go out
//! in parallel. Two allocators never allocate the same Ready server, since the API accepts only one of two writes on one version.

mod answer;
mod claims;
mod clusters;
mod completion;
mod concurrency;
mod events;
pub mod kubernetes;
mod messages;
mod record;
mod sending;
mod serve;
pub mod service;
mod write;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use api::allocation::{AllocationState, GameServerAllocation, GameServerAllocationStatus};
use cluster::{CachedKind, Caches, Subscription};
use decide::allocation::Request;
use kube::Client;
use process::{Clock, Random, Supervised, Supervisor};
use tokio::sync::oneshot;

use answer::without_server;
use claims::{Claim, ClaimOutcome, ClaimTable};
use completion::RunToCompletion;
pub use concurrency::Bounds;
use concurrency::ConcurrencyLimit;
use events::Events;
pub use record::{AllocationRecord, AllocationRecorder};
pub use serve::{Endpoints, aggregated_router, serve, serve_matchmakers};

pub use crate::listen::{Endpoint, ServeError};

/// The kinds that an allocator needs in the caches.
pub const REQUIRED_KINDS: [CachedKind; 2] = [CachedKind::GameServer, CachedKind::Node];

/// The settings of an allocator.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many allocations are in progress, and how many may wait.
    pub bounds: Bounds,
    /// How many servers are tried for one request before the response is `Contention`.
    pub tries: u32,
    /// Whether to send events.
    pub events: bool,
    /// Records every allocation.
    pub recorder: Option<AllocationRecorder>,
    /// The clock.
    pub clock: Clock,
    /// The source of random numbers.
    pub random: Random,
    /// Supervises the allocator's tasks.
    pub supervisor: Supervisor,
}

impl Default for Settings {
    fn default() -> Self {
        let bounds = Bounds::default();
        Self {
            bounds,
            tries: 16,
            events: true,
            recorder: None,
            clock: Clock::system(),
            random: Random::system(),
            supervisor: Supervisor::new(),
        }
    }
}

/// Why an allocation failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AllocationError {
    /// The request is invalid.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<api::Problem>),
    /// Too many requests are waiting.
    #[error("too many concurrent requests: the queue of namespace `{0}` is full")]
    Overloaded(Arc<str>),
    /// The API rejected the write, or did not respond.
    #[error("could not update a game server")]
    Write(#[source] Arc<kube::Error>),
    /// Multi-cluster allocation was requested without a policy.
    #[error("no multi-cluster allocation policy is specified for namespace `{0}`")]
    NoPolicy(Arc<str>),
    /// Another cluster did not allocate a server.
    #[error("{endpoint}: {}", status.message())]
    Remote {
        /// The endpoint that was tried last.
        endpoint: String,
        /// Its response.
        status: Box<tonic::Status>,
    },
}

/// Allocates game servers, for as long as one clone of it exists.
#[derive(Clone)]
pub struct Allocator {
    shared: Arc<Shared>,
    _background: Arc<Background>,
}

/// The subscriptions and tasks that keep the claim table up to date.
struct Background {
    _subscriptions: [Subscription; 2],
    _tasks: [Supervised; 2],
}

struct Shared {
    client: Client,
    caches: Arc<Caches>,
    settings: Settings,
    claims: Arc<Mutex<ClaimTable>>,
    limit: ConcurrencyLimit,
    events: Events,
    channels: clusters::Channels,
}

impl Allocator {
    /// Subscribes to the caches, which have to follow [`REQUIRED_KINDS`], and waits until all game servers are known. An allocator that may
    /// not list nodes assumes that all of them are ready.
    pub async fn start(client: Client, caches: Arc<Caches>, settings: Settings) -> Self {
        let (events, sending) = Events::new(client.clone(), &settings);
        let claims = Arc::new(Mutex::new(ClaimTable::default()));
        let subscriptions = subscribe(&caches, &claims);
        let tasks = [
            settings.supervisor.spawn("events of allocations", sending),
            settings.supervisor.spawn("game servers with unknown writes", {
                let (caches, claims) = (Arc::clone(&caches), Arc::clone(&claims));
                move || release_quarantined(Arc::clone(&caches), Arc::clone(&claims))
            }),
        ];
        caches.nodes.synced_or_failed().await;
        caches.servers.synced().await;
        let limit = ConcurrencyLimit::new(settings.bounds);
        let channels = clusters::Channels::default();
        let shared = Shared { client, caches, settings, claims, limit, events, channels };
        let background = Background { _subscriptions: subscriptions, _tasks: tasks };
        Self { shared: Arc::new(shared), _background: Arc::new(background) }
    }

    /// Allocates a game server for an admitted allocation. If the future is dropped before the write is sent, nothing is allocated; a
    /// write that was sent is finished.
    pub async fn allocate(
        &self,
        allocation: &GameServerAllocation,
    ) -> Result<GameServerAllocationStatus, AllocationError> {
        let started_at = Instant::now();
        let mut tries = None;
        let answer = if allocation.spec.multi_cluster_setting.enabled {
            clusters::allocate(self, allocation, &mut tries).await
        } else {
            self.allocate_here(allocation, &mut tries).await
        };
        if let Some(recorder) = &self.shared.settings.recorder {
            recorder.record(allocation, &answer, started_at.elapsed(), tries);
        }
        answer
    }

    /// Allocates a game server of this cluster, and counts the attempts.
    async fn allocate_here(
        &self,
        allocation: &GameServerAllocation,
        tries: &mut Option<u32>,
    ) -> Result<GameServerAllocationStatus, AllocationError> {
        let request = Arc::new(allocation.view(self.shared.settings.random.u64()));
        let full = |_| AllocationError::Overloaded(Arc::clone(&request.namespace));
        let permit = Arc::new(self.shared.limit.acquire(&request.namespace).await.map_err(full)?);
        let mut failed = None;
        for attempt in 0..self.shared.settings.tries.max(1) {
            let (answer, outcome) = oneshot::channel();
            let claim =
                Claim { request: Arc::clone(&request), answer, permit: Arc::clone(&permit) };
            let chosen = self.shared.claims().claim(claim, self.skip(attempt), self.shared.now());
            match chosen {
                Err(_) => return Ok(without_server(AllocationState::UnAllocated)),
                Ok(None) => {}
                Ok(Some(write)) => {
                    RunToCompletion::new(Arc::clone(&self.shared).send_writes(write)).await;
                }
            }
            match outcome.await {
                Ok(ClaimOutcome::Won(server)) => {
                    *tries = Some(attempt + 1);
                    return Ok(answer::allocated(&server));
                }
                Ok(ClaimOutcome::Lost) => {}
                Ok(ClaimOutcome::Failed(err)) => {
                    failed = Some(err);
                    break;
                }
                // The runtime is shutting down.
                Err(_) => break,
            }
        }
        match failed {
            Some(err) => Err(AllocationError::Write(err)),
            None => Ok(without_server(AllocationState::Contention)),
        }
    }

    /// Returns how many servers to skip. Allocators choose servers in the same order, so one that lost a conflict skips a random number
    /// that grows with each attempt.
    fn skip(&self, attempt: u32) -> usize {
        self.shared.settings.random.below(0..1 << attempt.min(6))
    }

    /// Counts the servers that are Ready and not claimed by this allocator, in linear time.
    pub fn ready_servers(&self) -> usize {
        self.shared.claims().ready_servers()
    }

    /// Returns the server that an allocation would get now, without allocating it.
    pub fn preview(&self, allocation: &GameServerAllocation) -> GameServerAllocationStatus {
        let request: Request = allocation.view(self.shared.settings.random.u64());
        match self.shared.claims().peek(&request) {
            Some(server) => answer::allocated(&server),
            None => without_server(AllocationState::UnAllocated),
        }
    }
}

/// Keeps the claim table up to date with the caches.
fn subscribe(caches: &Caches, claims: &Arc<Mutex<ClaimTable>>) -> [Subscription; 2] {
    let table = Arc::clone(claims);
    let nodes = caches.nodes.subscribe(move |old, new| {
        let Some(node) = new.or(old) else { return };
        let name = node.metadata.name.as_deref().unwrap_or_default();
        lock(&table).set_node_ready(name, new.is_some_and(|node| node.is_ready()));
    });
    let table = Arc::clone(claims);
    let servers = caches.servers.subscribe(move |old, new| match (old, new) {
        (_, Some(server)) => lock(&table).observe(Arc::clone(server)),
        (Some(server), None) => lock(&table).remove(server),
        (None, None) => {}
    });
    [nodes, servers]
}

/// Releases servers whose writes had an unknown outcome, each time a list has shown their state.
async fn release_quarantined(caches: Arc<Caches>, claims: Arc<Mutex<ClaimTable>>) {
    let mut known = 0;
    loop {
        known = caches.servers.next_list(known).await;
        lock(&claims).release_quarantined();
    }
}

/// Locks the claim table. The cache of game servers must not be used meanwhile, since its subscribers take this lock.
fn lock(claims: &Mutex<ClaimTable>) -> MutexGuard<'_, ClaimTable> {
    // After a panic the index may be inexact, but writes still depend on the resource version.
    claims.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn claims(&self) -> MutexGuard<'_, ClaimTable> {
        lock(&self.claims)
    }
}
