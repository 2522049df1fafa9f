//! The world of a simulated day: an engine with controllers, an allocator and simulated game servers.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::agones::{Fleet, GameServer};
use api::allocation::GameServerAllocation;
use api::autoscaling::FleetAutoscaler;
use api::plimsoll::{NodeAutoscaler, NodeGroup};
use cluster::{Caches, DecisionSettings, Key, Subscription};
use control::Part;
use decide::gameserver::State as ServerState;
use engine::{Engine, Runtime};
use jiff::{SignedDuration, Timestamp};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use process::{Clock, Random, Supervised, Supervisor};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use serve::allocator::{self, Allocator};

use super::objects::{self, GROUP};
use super::report::State;
use super::{Day, DayError};
use crate::game::Player;

/// The controllers of fleets and of nodes.
const PARTS: [Part; 5] =
    [Part::GameServer, Part::GameServerSet, Part::Fleet, Part::FleetAutoscaler, Part::Nodes];
/// When every simulation begins.
const BEGIN: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// Everything that runs. It ends with this.
pub(super) struct World {
    client: Client,
    caches: Arc<Caches>,
    allocator: Allocator,
    /// The request for a game server of each fleet.
    requests: Vec<GameServerAllocation>,
    /// The game servers of the sessions in progress.
    playing: Mutex<BTreeSet<String>>,
    lost: AtomicU32,
    moves: Arc<AtomicU32>,
    _subscription: Subscription,
    _tasks: Vec<Supervised>,
    _running: (Engine, Runtime),
}

impl World {
    /// Starts everything, and creates the objects. The day begins after `warm_up`.
    pub(super) async fn start(day: &Day, warm_up: Duration) -> Result<Self, DayError> {
        let (clock, random) = (Clock::virtual_at(BEGIN), Random::seeded(day.seed));
        let supervisor = Supervisor::new();
        let settings = engine::Settings {
            clock: clock.clone(),
            random: random.clone(),
            ..engine::Settings::ephemeral()
        };
        let engine =
            Engine::open(settings).await.map_err(|error| DayError::Engine(error.into()))?;
        let client = engine.client();
        let player = Player::new(client.clone());
        let simulated =
            kubelet::Simulated { simulation: Some(Arc::new(player)), ..Default::default() };
        let kubelet = kubelet::Settings { simulated: Some(simulated), local: None };
        let runtime = engine.run(kubelet).await.map_err(|error| DayError::Engine(error.into()))?;
        let caches = Caches::new(None, false);
        let mut kinds = control::required_kinds(&PARTS);
        kinds.extend(allocator::REQUIRED_KINDS);
        let mut tasks = caches.follow(&client, &kinds, &random, &supervisor);
        let settings = control::Settings {
            clock: clock.clone(),
            random: random.clone(),
            supervisor: supervisor.clone(),
            decisions: DecisionSettings {
                namespace: "default".to_owned(),
                ..DecisionSettings::default()
            },
            ..control::Settings::default()
        };
        let (controlled, of_controllers) = (client.clone(), Arc::clone(&caches));
        tasks.push(supervisor.spawn("controllers", move || {
            let (client, caches) = (controlled.clone(), Arc::clone(&of_controllers));
            control::run(client, caches, settings.clone(), &PARTS, std::future::pending())
        }));
        let settings = allocator::Settings {
            clock,
            random,
            supervisor: supervisor.clone(),
            events: false,
            ..allocator::Settings::default()
        };
        let allocator = Allocator::start(client.clone(), Arc::clone(&caches), settings).await;
        let warm_up = SignedDuration::try_from(warm_up).unwrap_or_default();
        create(&client, day, BEGIN + warm_up).await?;
        let requests = (0..day.buffers.len()).map(|fleet| {
            serde_json::from_value(objects::allocation(fleet))
                .expect("the request is written in this program")
        });
        let moves = Arc::<AtomicU32>::default();
        Ok(Self {
            requests: requests.collect(),
            _subscription: count_moves(&caches, &moves),
            client,
            caches,
            allocator,
            playing: Mutex::default(),
            lost: AtomicU32::new(0),
            moves,
            _tasks: tasks,
            _running: (engine, runtime),
        })
    }

    /// Allocates a game server of a fleet, and returns its name; `None` if none is Ready.
    pub(super) async fn allocate(&self, fleet: usize) -> Option<String> {
        self.allocator.allocate(&self.requests[fleet]).await.ok().and_then(super::allocated)
    }

    /// Records that a session is in progress.
    pub(super) fn begin(&self, server: &str) {
        self.playing().insert(server.to_owned());
    }

    /// Ends a session: its game server shuts down.
    pub(super) async fn end(&self, server: &str) -> Result<(), DayError> {
        if !self.playing().remove(server) {
            return Ok(());
        }
        let servers: Api<GameServer> = Api::namespaced(self.client.clone(), "default");
        let change = Patch::Merge(json!({"status": {"state": "Shutdown"}}));
        let done = servers.patch(server, &PatchParams::default(), &change).await;
        done.map(drop).map_err(|source| DayError::Api { what: "end a session", source })
    }

    /// Returns the present state.
    pub(super) fn state(&self) -> State {
        let servers = &self.caches.servers;
        let mut playing = self.playing();
        let is_there = |name: &String| {
            let server = servers.get(&Key::new("default", name.as_str()));
            server.is_some_and(|server| server.view.state == ServerState::Allocated)
        };
        let before = playing.len();
        playing.retain(is_there);
        let gone = u32::try_from(before - playing.len()).unwrap_or(u32::MAX);
        let lost = self.lost.fetch_add(gone, Ordering::Relaxed) + gone;
        let group = self.caches.node_scaling.groups.get(&Key::new("", GROUP));
        let target = group.and_then(|group| group.0.status.as_ref()?.target).unwrap_or(0);
        let ready = servers.all().iter().filter(|s| s.view.state == ServerState::Ready).count();
        State {
            nodes: u32::try_from(target).unwrap_or(0),
            ready: u32::try_from(ready).unwrap_or(u32::MAX),
            playing: u32::try_from(playing.len()).unwrap_or(u32::MAX),
            lost,
        }
    }

    /// Returns how many idle game servers have moved.
    pub(super) fn moves(&self) -> u32 {
        self.moves.load(Ordering::Relaxed)
    }

    fn playing(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.playing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts the game servers that are deleted because their node is emptied.
fn count_moves(caches: &Caches, moves: &Arc<AtomicU32>) -> Subscription {
    let moves = Arc::clone(moves);
    caches.servers.subscribe(move |old, new| {
        if let (Some(old), None) = (old, new)
            && old.view.is_evacuating
        {
            moves.fetch_add(1, Ordering::Relaxed);
        }
    })
}

async fn create(client: &Client, day: &Day, begins_at: Timestamp) -> Result<(), DayError> {
    let (cluster, all) = (Api::<NodeAutoscaler>::all(client.clone()), client.clone());
    post(&cluster, objects::node_autoscaler(day)).await?;
    post(&Api::<NodeGroup>::all(all.clone()), objects::node_group(day)).await?;
    let fleets = Api::<Fleet>::namespaced(all.clone(), "default");
    let autoscalers = Api::<FleetAutoscaler>::namespaced(all, "default");
    for (fleet, buffer) in day.buffers.iter().enumerate() {
        post(&fleets, objects::fleet(fleet, *buffer)).await?;
        post(&autoscalers, objects::fleet_autoscaler(day, fleet, begins_at)).await?;
    }
    Ok(())
}

async fn post<K>(api: &Api<K>, object: Value) -> Result<(), DayError>
where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize,
{
    let what = "create the objects of a day";
    let object: K = serde_json::from_value(object)
        .map_err(|error| DayError::Api { what, source: kube::Error::SerdeError(error) })?;
    let created = api.create(&PostParams::default(), &object).await;
    created.map(drop).map_err(|source| DayError::Api { what, source })
}
