//! What every controller works with.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cluster::{CachedGameServer, EventRecorder, Key, WorkQueue};
use kube::Client;
use process::Clock;

use crate::gameserver::Waiting;
use crate::gameserverset::Kept;
use crate::ports::HostPorts;
use crate::settings::Settings;
use crate::stores::Stores;

/// What every controller works with, for as long as it is the active one.
pub struct Context {
    /// The way to the API.
    pub client: Client,
    /// What was chosen.
    pub settings: Settings,
    /// The time.
    pub clock: Clock,
    /// What is there.
    pub stores: Stores,
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
    pub(crate) fn new(client: Client, settings: Settings, events: EventRecorder) -> Arc<Self> {
        let stores = Stores::new();
        let ports = Arc::new(Mutex::new(HostPorts::seeded(&settings.port_ranges, &stores, &[])));
        let released = Arc::clone(&ports);
        stores.servers.subscribe(move |old, new| {
            let uid = |server: Option<&Arc<CachedGameServer>>| {
                server.and_then(|s| s.object.metadata.uid.clone())
            };
            if let Some(gone) = uid(old).filter(|old| Some(old) != uid(new).as_ref()) {
                released.lock().unwrap_or_else(PoisonError::into_inner).release(&gone);
            }
        });
        let (queues, clock) = (Queues::default(), settings.clock.clone());
        let (waiting, kept) = Default::default();
        Arc::new(Self { client, settings, clock, stores, events, queues, waiting, kept, ports })
    }

    /// Begins anew with the host ports of what is there.
    pub(crate) fn seed_ports(&self) {
        let servers = self.stores.servers.all();
        let seeded = HostPorts::seeded(&self.settings.port_ranges, &self.stores, &servers);
        *self.ports() = seeded;
        // Those that went meanwhile were taken back from what was there before.
        for meta in servers.iter().map(|server| &server.object.metadata) {
            let now = self.stores.servers.get(&Key::from_meta(meta));
            if now.is_none_or(|now| now.object.metadata.uid != meta.uid) {
                self.ports().release(meta.uid.as_deref().unwrap_or_default());
            }
        }
    }

    pub(crate) fn ports(&self) -> MutexGuard<'_, HostPorts> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
