//! Prepares the game servers to allocate: on the embedded engine, or on the real API server.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum;
use cluster::Caches;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use process::{Random, Supervised};
use serde_json::{Value, json};
use serve::allocator::{Allocator, REQUIRED_KINDS, Settings, service};
use serve::listen;
use tokio::net::TcpListener;
use xtask::kube::{Binaries, Cluster, Options, Program};
use xtask::process::Folder;

use super::client::{AllocationClient, Protocol};
use super::timed;
use crate::fleets::worlds::{self, World};
use crate::fleets::{self, FLEET};

/// Which API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Where {
    /// The allocator and its watch alone on the embedded engine
    Embedded,
    /// A fleet on simulated nodes of the embedded engine, with all controllers following
    Followed,
    /// The real API server
    Real,
}

impl Where {
    pub(super) fn usual_size(self) -> usize {
        match self {
            Self::Embedded => 16_000,
            Self::Followed => 4_000,
            Self::Real => 1_000,
        }
    }

    /// The real API server's own speed scatters the most, from one run to the next: many short pairs are more accurate than a few long ones.
    pub(super) fn usual_runs(self) -> usize {
        match self {
            Self::Embedded | Self::Followed => 5,
            Self::Real => 15,
        }
    }
}

/// A server with game servers on it, and an allocator beside it.
pub(super) struct Place {
    which: Where,
    backing: Backing,
    allocator: Allocator,
    port: u16,
    serving: tokio::task::JoinHandle<()>,
    _following: Vec<Supervised>,
}

enum Backing {
    Embedded(Box<engine::Engine>, Folder),
    Followed(Box<World>),
    Real(Box<Cluster>),
}

impl Backing {
    async fn client(&self) -> anyhow::Result<Client> {
        match self {
            Self::Embedded(engine, _) => Ok(engine.client()),
            Self::Followed(world) => Ok(world.client().clone()),
            Self::Real(cluster) => {
                let kubeconfig = Kubeconfig::read_from(&cluster.kubeconfig)?;
                let options = KubeConfigOptions::default();
                let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
                Ok(Client::try_from(config)?)
            }
        }
    }
}

impl Place {
    /// Starts everything, with as many Ready servers as the largest run takes.
    pub(super) async fn open(which: Where, most: usize) -> anyhow::Result<Self> {
        let backing = match which {
            Where::Embedded => {
                let data = Folder::new()?;
                let settings = engine::Settings::in_directory(data.path());
                Backing::Embedded(Box::new(engine::Engine::open(settings).await?), data)
            }
            Where::Followed => {
                Backing::Followed(Box::new(World::embedded(&control::Part::ALL).await?))
            }
            Where::Real => {
                // On this thread, since what it starts ends with the thread that started it.
                let cluster = tokio::task::block_in_place(|| {
                    let binaries = Binaries::build(&Program::CLUSTER)?;
                    let options = Options { controllers: false, nodes: 0, workloads: false };
                    let cluster = Cluster::start(&binaries, &options)?;
                    cluster.apply(&worlds::crds()?)?;
                    anyhow::Ok(cluster)
                })?;
                Backing::Real(Box::new(cluster))
            }
        };
        let client = backing.client().await?;
        match which {
            Where::Embedded => fill(&backing, most).await?,
            Where::Followed => fleets::grow(&client, i32::try_from(most)?).await?,
            Where::Real => {
                served(&client).await?;
                fill(&backing, most).await?;
            }
        }
        // As `plimsoll run` has it beside a cluster, and `plimsoll up` on its own engine.
        let settings = Settings::default();
        let (caches, following) = match &backing {
            Backing::Followed(world) => (Arc::clone(world.caches()), Vec::new()),
            Backing::Embedded(..) | Backing::Real(_) => {
                let caches = Caches::new(None, which == Where::Real);
                let (kinds, random) = (REQUIRED_KINDS.into(), Random::system());
                let following = caches.follow(&client, &kinds, &random, &settings.supervisor);
                (caches, following)
            }
        };
        let allocator = Allocator::start(client, caches, settings).await;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let router = service::router(allocator.clone());
        let serving = tokio::spawn(listen::serve(listener, None, router, std::future::pending()));
        Ok(Self { which, backing, allocator, port, serving, _following: following })
    }

    pub(super) fn name(&self) -> &'static str {
        match self.which {
            Where::Embedded => "embedded",
            Where::Followed => "embedded, followed",
            Where::Real => "real",
        }
    }

    /// Whether a protocol is measured here: what following costs shows in process.
    pub(super) fn has(&self, protocol: Protocol) -> bool {
        self.which != Where::Followed || protocol == Protocol::Process
    }

    pub(super) async fn client(&self, protocol: Protocol) -> anyhow::Result<AllocationClient> {
        match protocol {
            Protocol::Process => AllocationClient::in_process(&self.allocator),
            Protocol::Grpc | Protocol::Rest => AllocationClient::connect(protocol, self.port).await,
        }
    }

    /// Returns clients for bare updates, each with a connection of its own.
    pub(super) async fn updaters(&self, clients: usize) -> anyhow::Result<Vec<Updater>> {
        let left = Arc::new(Mutex::new(VecDeque::new()));
        let mut updaters = Vec::new();
        for _ in 0..clients {
            updaters.push((api(self.backing.client().await?), Arc::clone(&left)));
        }
        Ok(updaters)
    }

    /// Updates every Allocated server back to Ready; gives updates per second and their times.
    pub(super) async fn update_back(
        &self,
        updaters: Vec<Updater>,
        size: usize,
    ) -> anyhow::Result<(f64, Vec<Duration>, Vec<Updater>)> {
        let (servers, left) = updaters.first().context("there are some")?;
        let mut changed = VecDeque::from(servers.list(&ListParams::default()).await?.items);
        changed.retain(|server| server.data["status"]["state"] == "Allocated");
        anyhow::ensure!(changed.len() == size, "{} of {size} are Allocated", changed.len());
        for server in &mut changed {
            server.data["status"]["state"] = json!("Ready");
            server.metadata.managed_fields = None;
        }
        *left.lock().unwrap_or_else(PoisonError::into_inner) = changed;
        self.wait_until_idle().await?;
        let timed = timed(updaters, size, update_one).await?;
        self.catch_up(size).await?;
        Ok(timed)
    }

    /// Lets a run begin as the others do. A third of kube-apiserver's work is to collect garbage, in cycles of several seconds, and of
    /// alternating runs one kind could meet three cycles each time where the other meets two.
    pub(super) async fn wait_until_idle(&self) -> anyhow::Result<()> {
        let Backing::Real(_) = self.backing else { return Ok(()) };
        let collect = http::Request::get("/debug/pprof/heap?gc=1&debug=1").body(Vec::new())?;
        let collected = self.backing.client().await?.request_text(collect).await;
        collected.map(drop).context("the API server does not collect its garbage")
    }

    /// Waits until all servers are Ready again in the cache of the allocator.
    async fn catch_up(&self, size: usize) -> anyhow::Result<()> {
        let caught_up = async {
            while self.allocator.ready_servers() < size {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), caught_up)
            .await
            .context("the watch is behind")
    }

    pub(super) async fn close(self) {
        self.serving.abort();
        drop(self.allocator);
        match self.backing {
            Backing::Embedded(engine, _data) => engine.stop(),
            Backing::Followed(world) => world.end().await,
            Backing::Real(_) => {}
        }
    }
}

/// One client, and the servers that it and the others have yet to update.
type Updater = (Api<DynamicObject>, Arc<Mutex<VecDeque<DynamicObject>>>);

async fn update_one((servers, left): Updater) -> anyhow::Result<Updater> {
    let next = left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let server = next.context("there is one for each")?;
    servers.replace(&server.name_any(), &PostParams::default(), &server).await?;
    Ok((servers, left))
}

fn api(client: Client) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<api::agones::GameServer>(&());
    Api::namespaced_with(client, "default", &resource)
}

/// Waits until an API server serves a kind that was just defined.
async fn served(client: &Client) -> anyhow::Result<()> {
    let served = async {
        while api(client.clone()).list(&ListParams::default()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), served).await.context("the kind is not served")
}

/// Creates Ready servers of one fleet, on as many nodes as they would need.
async fn fill(backing: &Backing, count: usize) -> anyhow::Result<()> {
    let mut workers = Vec::new();
    let next = Arc::new(Mutex::new((0..count).map(server).collect::<VecDeque<Value>>()));
    for _ in 0..64 {
        workers.push((api(backing.client().await?), Arc::clone(&next)));
    }
    type Creating = (Api<DynamicObject>, Arc<Mutex<VecDeque<Value>>>);
    async fn create((servers, left): Creating) -> anyhow::Result<Creating> {
        let next = left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let server = serde_json::from_value(next.context("there is one for each")?)?;
        servers.create(&PostParams::default(), &server).await?;
        Ok((servers, left))
    }
    timed(workers, count, create).await.map(drop)
}

/// Returns a game server as a fleet's are, about two kilobytes.
fn server(index: usize) -> Value {
    json!({
        "apiVersion": "agones.dev/v1", "kind": "GameServer",
        "metadata": {
            "name": format!("f-x7k2p-{index:06}"), "namespace": "default",
            "labels": {"agones.dev/fleet": FLEET, "agones.dev/gameserverset": "f-x7k2p", "mode": "ranked"},
            "annotations": {"agones.dev/ready-container-id": format!("containerd://{index:064}"), "agones.dev/sdk-version": "1.61.0"},
            "finalizers": ["agones.dev/controller"],
        },
        "spec": {
            "container": "game", "ports": [{"name": "game", "portPolicy": "Static", "container": "game", "containerPort": 7654, "hostPort": 7000 + index % 1000, "protocol": "UDP"}],
            "health": {"periodSeconds": 5, "failureThreshold": 3, "initialDelaySeconds": 5}, "scheduling": "Packed",
            "sdkServer": {"logLevel": "Info", "grpcPort": 9357, "httpPort": 9358},
            "template": {"metadata": {"labels": {"game": "ranked"}}, "spec": {"containers": [{
                "name": "game", "image": "registry.example/game/server:1.27.3", "args": ["--region", "eu-west-1"],
                "env": [{"name": "MODE", "value": "production"}],
                "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
            }]}},
        },
        "status": {
            "state": "Ready", "address": format!("10.1.{}.{}", index / 8000, index / 32 % 250), "nodeName": format!("node-{:04}", index / 32),
            "ports": [{"name": "game", "port": 7000 + index % 1000}],
            "addresses": [{"type": "InternalIP", "address": "10.1.0.1"}, {"type": "Hostname", "address": "node"}],
            "reservedUntil": null, "players": null,
        },
    })
}
