//! The context that all controllers share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cluster::{
    CachedGameServer, Caches, DecisionRecorder, EventRecorder, Key, Subscription, WorkQueue,
};
use kube::Client;
use process::Clock;

use crate::gameserver::ReportedUnschedulable;
use crate::gameserverset::ReportedRetained;
use crate::node_index::NodeIndex;
use crate::ports::HostPorts;
use crate::settings::Settings;
use crate::sources::Sources;

/// What all controllers share during a leadership term.
pub struct Context {
    /// The client of the API server.
    pub client: Client,
    /// How the controllers are set up.
    pub settings: Settings,
    /// Where time comes from.
    pub clock: Clock,
    /// The objects of the cluster.
    pub caches: Arc<Caches>,
    /// The game servers of each node.
    pub nodes: NodeIndex,
    /// Records Kubernetes events.
    pub events: EventRecorder,
    /// The journal of decisions.
    pub decisions: DecisionRecorder,
    /// The keys to reconcile.
    pub queues: Queues,
    /// What was reported about unschedulable game servers.
    pub(crate) unschedulable: ReportedUnschedulable,
    /// The retained game servers that were reported.
    pub(crate) retained: ReportedRetained,
    /// The metric sources of policies.
    pub(crate) sources: Arc<Sources>,
    connect: connect::Context,
    /// Whether the controllers of fleets and of nodes both run here, so that each takes the other into account.
    pub(crate) scales_fleets: bool,
    ports: Arc<Mutex<HostPorts>>,
}

/// The keys to reconcile, by kind.
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
    /// Starts a leadership term on top of the synced caches. The subscriptions last until they are dropped; they are not part of the
    /// context, since subscribers may hold it.
    pub(crate) fn new(
        client: Client,
        caches: Arc<Caches>,
        settings: Settings,
        events: EventRecorder,
        decisions: DecisionRecorder,
        scales_fleets: bool,
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
        let (unschedulable, retained) = Default::default();
        let connect = connect(&client, &settings);
        let sources = Sources::new(connect.clone(), Arc::clone(&caches));
        let cx = Self {
            client,
            settings,
            clock,
            caches,
            nodes,
            events,
            decisions,
            queues,
            unschedulable,
            retained,
            sources,
            connect,
            scales_fleets,
            ports,
        };
        cx.seed_ports();
        (Arc::new(cx), subscriptions.into_iter().chain([releasing]).collect())
    }

    /// Reserves the host ports of the existing game servers.
    fn seed_ports(&self) {
        let servers = self.caches.servers.all();
        let seeded = HostPorts::seeded(&self.settings.port_ranges, &self.caches, &servers);
        *self.ports() = seeded;
        // The ports of servers deleted in the meantime were released before they were reserved here.
        for meta in servers.iter().map(|server| &server.object.metadata) {
            let now = self.caches.servers.get(&Key::from_meta(meta));
            if now.is_none_or(|now| now.object.metadata.uid != meta.uid) {
                self.ports().release(meta.uid.as_deref().unwrap_or_default());
            }
        }
    }

    /// Returns the context of sources and targets.
    pub(crate) fn connect(&self) -> connect::Context {
        self.connect.clone()
    }

    pub(crate) fn ports(&self) -> MutexGuard<'_, HostPorts> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn connect(client: &Client, settings: &Settings) -> connect::Context {
    let (clock, random) = (settings.clock.clone(), settings.random.clone());
    let supervisor = settings.supervisor.clone();
    connect::Context {
        resolves_services: settings.resolves_services,
        ..connect::Context::new(client.clone(), clock, random, supervisor)
    }
}
