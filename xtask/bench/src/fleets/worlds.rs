//! The two engines that fleets are measured on, each with the controllers and the stand-in that plays the games.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use cluster::Caches;
use control::Part;
use engine::{Engine, Runtime, Settings};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::client::ClientBuilder;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Config, ResourceExt as _};
use kubelet::Simulated;
use process::{Clock, Supervisor};
use serde_json::json;
use serve::admission;
use serve::tls::{CertificateFiles, CertificateWatcher};
use simulate::game::Player;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tower::ServiceBuilder;
use tower::util::MapRequestLayer;
use xtask::kube::{Binaries, Cluster, Options, Program};
use xtask::process::Folder;

use super::counts::{Counter, Writes};

/// How many pods fit a node that KWOK plays.
const PODS_PER_NODE: i32 = 100;

/// One engine with everything that a fleet needs.
pub(crate) struct World {
    name: &'static str,
    client: Client,
    counter: Counter,
    caches: Arc<Caches>,
    tasks: JoinSet<()>,
    kept: Kept,
}

/// Keeps alive the parts that a world needs.
enum Kept {
    Embedded { engine: Engine, runtime: Runtime, _data: Folder },
    Real { _cluster: Cluster },
}

impl World {
    /// The embedded engine, on disk, with simulated nodes and these controllers.
    pub(crate) async fn embedded(parts: &'static [Part]) -> anyhow::Result<Self> {
        Self::embedded_on(60, parts).await
    }

    /// The embedded engine, on disk, with so many simulated nodes and these controllers.
    pub(crate) async fn embedded_on(nodes: usize, parts: &'static [Part]) -> anyhow::Result<Self> {
        let data = Folder::new()?;
        let engine = Engine::open(Settings::in_directory(data.path())).await?;
        let counter = Counter::default();
        let counted = counter.clone();
        let service = ServiceBuilder::new()
            .map_request(move |request| counted.count(request))
            .service(engine.service());
        let ours = Client::new(service, "default");
        let played = Simulated {
            count: nodes,
            simulation: Some(Arc::new(Player::new(ours.clone()))),
            ..Simulated::default()
        };
        let settings =
            kubelet::Settings { simulated: Some(played), ..kubelet::Settings::default() };
        let runtime = engine.run(settings).await?;
        let mut tasks = JoinSet::new();
        let caches = Caches::new(None, false);
        tasks.spawn(controllers(ours, Arc::clone(&caches), parts));
        let kept = Kept::Embedded { engine, runtime, _data: data };
        let Kept::Embedded { engine, .. } = &kept else { unreachable!("it was just made") };
        let client = engine.client();
        Ok(Self { name: "the embedded engine", client, counter, caches, tasks, kept })
    }

    /// A real kube-apiserver with the real scheduler, these controllers and our webhooks, on nodes that KWOK plays.
    pub(crate) async fn real(size: i32, parts: &'static [Part]) -> anyhow::Result<Self> {
        let nodes = usize::try_from(size / PODS_PER_NODE)? + 1;
        // On this thread, since what it starts ends with the thread that started it.
        let cluster = tokio::task::block_in_place(|| {
            let binaries = Binaries::build(&Program::CLUSTER)?;
            let cluster = Cluster::start(&binaries, &Options { nodes, ..Options::default() })?;
            cluster.apply(&crds()?)?;
            anyhow::Ok(cluster)
        })?;
        let kubeconfig = kube::config::Kubeconfig::read_from(&cluster.kubeconfig)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
        let counter = Counter::default();
        let counted = counter.clone();
        let ours = ClientBuilder::try_from(config.clone())?
            .with_layer(&MapRequestLayer::new(move |request| counted.count(request)))
            .build();
        let mut tasks = JoinSet::new();
        webhooks(&cluster, &mut tasks).await?;
        let caches = Caches::new(None, false);
        tasks.spawn(controllers(ours.clone(), Arc::clone(&caches), parts));
        if parts.contains(&Part::GameServer) {
            tasks.spawn(play_running(ours));
        }
        let client = Client::try_from(config)?;
        let kept = Kept::Real { _cluster: cluster };
        Ok(Self { name: "the real kube-apiserver", client, counter, caches, tasks, kept })
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Returns a client whose writes do not count.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the caches of the controllers.
    pub(crate) fn caches(&self) -> &Arc<Caches> {
        &self.caches
    }

    pub(super) fn writes(&self) -> Writes {
        self.counter.writes()
    }

    /// Returns how many writes the controllers have sent.
    pub(crate) fn all_writes(&self) -> u64 {
        self.counter.all()
    }

    /// Ends everything.
    pub(crate) async fn end(mut self) {
        self.tasks.shutdown().await;
        if let Kept::Embedded { engine, runtime, .. } = self.kept {
            runtime.stop(Duration::ZERO).await;
            engine.stop();
        }
    }
}

/// Our kinds, for a server that does not know them.
pub(crate) fn crds() -> serde_json::Result<String> {
    let crds = api::KINDS.iter().filter_map(|kind| kind.crd);
    crds.map(|crd| Ok(format!("---\n{}\n", serde_json::to_string(&crd())?))).collect()
}

/// Answers the API server's questions about game servers and their fleets, as an installed Plimsoll does.
async fn webhooks(cluster: &Cluster, tasks: &mut JoinSet<()>) -> anyhow::Result<()> {
    let files = CertificateFiles {
        certificate: cluster.file("server.crt"),
        key: cluster.file("server.key"),
        client_ca: None,
    };
    let certificates = CertificateWatcher::from_files(files, &Supervisor::new()).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("https://{}", listener.local_addr()?);
    let ca =
        base64::engine::general_purpose::STANDARD.encode(std::fs::read(cluster.file("ca.crt"))?);
    let stop = std::future::pending();
    tasks.spawn(serve::listen::serve(
        listener,
        Some(certificates),
        admission::router(Clock::system()),
        stop,
    ));
    let rule = json!({
        "apiGroups": ["agones.dev"], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["gameservers", "gameserversets", "fleets"],
    });
    let configuration = |kind: &str, path: &str| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "bench"},
            "webhooks": [{
                "name": "bench.plimsoll.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": {"url": format!("{url}{path}"), "caBundle": ca}, "rules": [rule],
            }],
        })
    };
    let mutating = configuration("MutatingWebhookConfiguration", "/mutate");
    let validating = configuration("ValidatingWebhookConfiguration", "/validate");
    cluster.apply(&format!("{mutating}\n---\n{validating}\n"))
}

async fn controllers(client: Client, caches: Arc<Caches>, parts: &'static [Part]) {
    let (settings, supervisor) = (control::Settings::default(), Supervisor::new());
    let kinds = control::required_kinds(parts);
    let _following = caches.follow(&client, &kinds, &settings.random, &supervisor);
    control::run(client, caches, settings, parts, std::future::pending()).await;
}

/// Calls the SDK for every pod that KWOK marks as running.
async fn play_running(client: Client) {
    let pods: Api<Pod> = Api::all(client.clone());
    let running = watcher::Config::default()
        .labels("agones.dev/role=gameserver")
        .fields("status.phase=Running");
    let mut began = pin!(watcher(pods, running).default_backoff().applied_objects());
    let player = Player::new(client);
    let mut known = std::collections::HashSet::new();
    let mut playing = JoinSet::new();
    while let Some(pod) = began.next().await {
        // A watch that broke begins anew.
        let Ok(pod) = pod else { continue };
        if !pod.uid().is_some_and(|uid| known.insert(uid)) {
            continue;
        }
        let player = player.clone();
        playing.spawn(async move { player.play(&pod).await });
    }
}
