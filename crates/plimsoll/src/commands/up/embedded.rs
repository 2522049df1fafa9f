//! Runs kubelet, controllers and allocator on the embedded engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use cluster::{CachedKind, Caches, LeaderElection};
use engine::{Delegate, Engine, Runtime};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, PostParams};
use kubelet::{Launcher, Local, Networking, Simulated};
use process::{Random, Supervised, Supervisor};
use serve::allocator::{self, Allocator};
use serve::metrics;
use simulate::game::Player;
use tower::BoxError;

use crate::args::Up;
use crate::kubeconfig::LEASE_NAMESPACE;
use crate::sidecar::Sidecar;
use crate::{listening, measuring};

/// The image name of the built-in sample game server, in any registry.
const SAMPLE_IMAGE: &str = "simple-game-server";
/// The image name of the built-in sample service, in any registry.
const SAMPLE_SERVICE_IMAGE: &str = "sample-service";

/// How long pods may take to terminate at shutdown.
const GRACE_PERIOD: Duration = Duration::from_secs(10);

/// The components that run on an engine.
pub(crate) struct Parts {
    tasks: Vec<Supervised>,
    runtime: Runtime,
    allocator: Option<String>,
}

/// Claims the controllers' Lease, so that no other process is active. The identity belongs to the data directory, which only one process can
/// open: an earlier holder with the same identity has exited. Call this before the API is reachable for others.
pub(crate) async fn lease(engine: &Engine) -> LeaderElection {
    let identity = format!("plimsoll-up_{}", engine.identity());
    let lease = LeaderElection::new(LEASE_NAMESPACE, identity);
    // If another controller holds it, the controllers wait for it as usual.
    cluster::claim_lease(&engine.client(), &lease).await;
    lease
}

impl Parts {
    /// Starts the runtime, the controllers and the allocator. `game_servers` are the controllers' settings from arguments.
    pub(crate) async fn start(
        engine: &Engine,
        supervisor: &Supervisor,
        lease: LeaderElection,
        game_servers: control::Settings,
        args: &Up,
    ) -> anyhow::Result<Self> {
        let client = engine.client();
        // On the embedded engine patches are cheap, so the cache need not keep the text of game servers for replacing them.
        let caches = Caches::new(None, false);
        let kinds = required_kinds(args);
        let mut tasks = caches.follow(&client, &kinds, &Random::system(), supervisor);
        let endpoint = listening::allocator(&args.allocator).await?;
        let controllers = control::Settings {
            gates: args.gates.feature_gates.clone(),
            lease: Some(lease),
            resolves_services: true,
            // The engine has no controller of HorizontalPodAutoscalers.
            follows_hpas: false,
            supervisor: supervisor.clone(),
            ..game_servers
        };
        create_namespace(&client, &controllers.decisions.namespace).await?;
        let recorder =
            measuring::serve(&caches, &controllers, args.metrics, supervisor, &mut tasks).await?;
        let settings = allocator::Settings {
            recorder,
            supervisor: supervisor.clone(),
            ..allocator::Settings::default()
        };
        let allocator = Allocator::start(client.clone(), Arc::clone(&caches), settings).await;
        engine.delegate("allocation.agones.dev", "v1", delegate(allocator.clone()));
        let mut url = None;
        if let Some(endpoint) = endpoint {
            let scheme = if endpoint.tls.is_some() { "https" } else { "http" };
            url = Some(format!("{scheme}://{}", endpoint.listener.local_addr()?));
            let serving = allocator::serve_matchmakers(allocator, endpoint).await?;
            tasks.push(supervisor.spawn_critical("allocator listener", serving));
        }
        let runtime =
            engine.run(kubelet_settings(client.clone(), supervisor, &controllers, args)?).await?;
        let endpoints = client.clone();
        tasks.push(supervisor.spawn("endpoints controller", move || {
            control::endpoints::run(endpoints.clone(), Random::system())
        }));
        tasks.push(supervisor.spawn("controllers", move || {
            let (client, caches) = (client.clone(), Arc::clone(&caches));
            let (settings, stop) = (controllers.clone(), std::future::pending());
            control::run(client, caches, settings, &control::Part::EMBEDDED, stop)
        }));
        Ok(Self { tasks, runtime, allocator: url })
    }

    /// Returns the URL of the allocator for gRPC and REST.
    pub(crate) fn allocator(&self) -> Option<&str> {
        self.allocator.as_deref()
    }

    /// Returns a message if pods have no network of their own.
    pub(crate) fn limitation(&self) -> Option<String> {
        let Networking::Host { why } = self.runtime.networking() else { return None };
        Some(format!(
            "pods share the host network ({why}); game servers read their ports from PORT, AGONES_SDK_GRPC_PORT and \
             AGONES_SDK_HTTP_PORT"
        ))
    }

    /// Stops the controllers first, so that they do not replace the game servers that are stopped then. The Lease is kept, so that no other
    /// controller takes over.
    pub(crate) async fn stop(self) {
        for task in self.tasks {
            task.stop().await;
        }
        self.runtime.stop(GRACE_PERIOD).await;
    }
}

/// Creates the controllers' namespace, which has the decisions about cluster-wide objects.
async fn create_namespace(client: &Client, name: &str) -> anyhow::Result<()> {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    let api: Api<Namespace> = Api::all(client.clone());
    match api.create(&PostParams::default(), &namespace).await {
        Err(error) if cluster::error::status_code(&error) != Some(409) => {
            Err(error).with_context(|| format!("could not create the namespace {name}"))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Returns the kinds that the components need in the caches.
fn required_kinds(args: &Up) -> BTreeSet<CachedKind> {
    let mut kinds = control::required_kinds(&control::Part::EMBEDDED);
    kinds.extend(allocator::REQUIRED_KINDS);
    if args.metrics.is_some() {
        kinds.extend(metrics::REQUIRED_KINDS);
    }
    kinds
}

/// Returns the settings of the kubelet.
fn kubelet_settings(
    client: Client,
    supervisor: &Supervisor,
    settings: &control::Settings,
    args: &Up,
) -> anyhow::Result<kubelet::Settings> {
    let program = std::env::current_exe().context("could not find the path of this program")?;
    let mut local =
        Local::new(Launcher { program: program.clone(), args: vec![crate::LAUNCH.into()] });
    let sidecar = Sidecar::new(client.clone(), supervisor.clone());
    local.programs.add(settings.sidecar.image.clone(), sidecar);
    let built_in = |command: &str| vec![program.to_string_lossy().into_owned(), command.to_owned()];
    local.images = BTreeMap::from([
        (SAMPLE_IMAGE.to_owned(), built_in("sample-server")),
        (SAMPLE_SERVICE_IMAGE.to_owned(), built_in("sample-service")),
    ]);
    local.docker = kubelet::usual_docker();
    local.service_proxy = true;
    local.images.extend(args.images.iter().cloned());
    let simulated = Simulated {
        count: args.simulated_nodes,
        simulation: Some(Arc::new(Player::new(client))),
        ..Simulated::default()
    };
    let local = (args.simulated_nodes == 0 && !args.no_nodes).then_some(local);
    Ok(kubelet::Settings { local, simulated: Some(simulated) })
}

/// Returns the allocator as the engine's handler of its API group.
fn delegate(allocator: Allocator) -> Delegate {
    let handle = move |request: Request<Full<Bytes>>| {
        let allocator = allocator.clone();
        async move {
            let (parts, body) = request.into_parts();
            let request = Request::from_parts(parts, body.collect().await?.to_bytes());
            let response = allocator::kubernetes::handle(&allocator, request).await;
            Ok::<_, BoxError>(response.map(|body| Full::new(body).boxed_unsync()))
        }
    };
    Delegate::new(tower::service_fn(handle))
}
