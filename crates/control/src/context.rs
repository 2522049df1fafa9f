//! What every controller works with.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cluster::{CachedGameServer, Caches, EventRecorder, Key, Subscription, WorkQueue};
use kube::Client;
use process::Clock;

use crate::gameserver::Waiting;
use crate::gameserverset::Kept;
use crate::node_index::NodeIndex;
use crate::ports::HostPorts;
use crate::settings::Settings;

/// What every controller works with for the length of a leadership term.
pub struct Context {
    /// The way to the API.
    pub client: Client,
    /// What was chosen.
    pub settings: Settings,
    /// The time.
    pub clock: Clock,
    /// The objects of the cluster.
    pub caches: Arc<Caches>,
    /// The game servers of each node.
    pub nodes: NodeIndex,
    /// Where to say what was done.
    pub events: EventRecorder,
    /// What is to be looked at.
    pub queues: Queues,
    /// What was told about game servers that have no node.
    pub(crate) waiting: Waiting,
    /// What was told about game servers that failed and are kept.
    pub(crate) kept: Kept,
    ports: Arc<Mutex<HostPorts>>,
}

/// What is to be looked at, by kind.
#[derive(Default)]
pub struct Queues {
    /// Game servers.
    pub servers: Arc<WorkQueue>,
    /// Sets, for their size.
    pub sets: Arc<WorkQueue>,
    /// Sets, for their status.
    pub set_statuses: Arc<WorkQueue>,
    /// Fleets.
    pub fleets: Arc<WorkQueue>,
}

impl Context {
    /// Begins a leadership term on top of the caches, which are complete. What follows them does so until the subscriptions are dropped; they
    /// are not part of the context, since subscribers may hold it.
    pub(crate) fn new(
        client: Client,
        caches: Arc<Caches>,
        settings: Settings,
        events: EventRecorder,
    ) -> (Arc<Self>, Vec<Subscription>) {
        let (nodes, subscriptions) = NodeIndex::following(&caches);
        let ports = Arc::new(Mutex::new(HostPorts::seeded(&settings.port_ranges, &caches, &[])));
        let released = Arc::clone(&ports);
        let releasing = caches.servers.subscribe(move |old, new| {
            let uid = |server: Option<&Arc<CachedGameServer>>| {
                server.and_then(|s| s.object.metadata.uid.clone())
            };
            if let Some(gone) = uid(old).filter(|old| Some(old) != uid(new).as_ref()) {
                released.lock().unwrap_or_else(PoisonError::into_inner).release(&gone);
            }
        });
        let (queues, clock) = (Queues::default(), settings.clock.clone());
        let (waiting, kept) = Default::default();
        let cx =
            Self { client, settings, clock, caches, nodes, events, queues, waiting, kept, ports };
        cx.seed_ports();
        (Arc::new(cx), subscriptions.into_iter().chain([releasing]).collect())
    }

    /// Takes the host ports of the game servers that exist.
    fn seed_ports(&self) {
        let servers = self.caches.servers.all();
        let seeded = HostPorts::seeded(&self.settings.port_ranges, &self.caches, &servers);
        *self.ports() = seeded;
        // The ports of those that went meanwhile were released before they were taken here.
        for meta in servers.iter().map(|server| &server.object.metadata) {
            let now = self.caches.servers.get(&Key::from_meta(meta));
            if now.is_none_or(|now| now.object.metadata.uid != meta.uid) {
                self.ports().release(meta.uid.as_deref().unwrap_or_default());
            }
        }
    }

    pub(crate) fn ports(&self) -> MutexGuard<'_, HostPorts> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
