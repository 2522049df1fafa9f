//! Everything there is, on the embedded engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use cluster::{CachedKind, Caches, LeaderElection};
use engine::{Delegate, Engine, Runtime};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use kube::Client;
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

/// The name of the image that the binary carries a program for, wherever the image is said to come from.
const SAMPLE: &str = "simple-game-server";

/// How long game servers may take to end when everything ends.
const GRACE: Duration = Duration::from_secs(10);

/// The parts that run on an engine.
pub(crate) struct Parts {
    tasks: Vec<Supervised>,
    runtime: Runtime,
    allocator: Option<String>,
}

/// Takes the controllers' Lease, so that no other process is active beside this one. It belongs to the data directory, which only one process
/// can have open: whoever held it under the same identity has ended. To be called before anyone else can reach the API.
pub(crate) async fn lease(engine: &Engine) -> LeaderElection {
    let identity = format!("plimsoll-up_{}", engine.identity());
    let lease = LeaderElection::new(LEASE_NAMESPACE, identity);
    // If another controller has it, the controllers wait for it as they always do.
    cluster::claim_lease(&engine.client(), &lease).await;
    lease
}

impl Parts {
    /// Starts the runtime, the controllers and the allocator.
    pub(crate) async fn start(
        engine: &Engine,
        supervisor: &Supervisor,
        lease: LeaderElection,
        args: &Up,
    ) -> anyhow::Result<Self> {
        let client = engine.client();
        // The engine reads of an object only what a patch names, so the allocator needs no texts to replace game servers.
        let caches = Caches::new(None, false);
        let kinds = required_kinds(args);
        let mut tasks = caches.follow(&client, &kinds, &Random::system(), supervisor);
        let endpoint = listening::allocator(&args.allocator).await?;
        let recorder = measuring::serve(&caches, args.metrics, supervisor, &mut tasks).await?;
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
            let serving = allocator::matchmakers(allocator, endpoint).await?;
            tasks.push(supervisor.spawn_critical("listener of the allocator", serving));
        }
        let gates = args.gates.feature_gates.clone();
        let settings =
            control::Settings { gates, lease: Some(lease), ..control::Settings::default() };
        let runtime = engine.run(machine(client.clone(), supervisor, &settings, args)?).await?;
        tasks.push(supervisor.spawn("controllers", move || {
            let (client, caches) = (client.clone(), Arc::clone(&caches));
            let (settings, stop) = (settings.clone(), std::future::pending());
            control::run(client, caches, settings, &control::Part::ALL, stop)
        }));
        Ok(Self { tasks, runtime, allocator: url })
    }

    /// Returns where allocations are answered by gRPC and REST.
    pub(crate) fn allocator(&self) -> Option<&str> {
        self.allocator.as_deref()
    }

    /// Says what of this machine pods cannot have.
    pub(crate) fn lacks(&self) -> Option<String> {
        let Networking::Host { why } = self.runtime.networking() else { return None };
        Some(format!(
            "pods share this machine's network ({why}): game servers get their ports from PORT, AGONES_SDK_GRPC_PORT and \
             AGONES_SDK_HTTP_PORT"
        ))
    }

    /// Stops everything that runs. Nobody is left who would see game servers end and replace them: the Lease is kept, so that nobody takes over.
    pub(crate) async fn stop(self) {
        for task in self.tasks {
            task.stop().await;
        }
        self.runtime.stop(GRACE).await;
    }
}

/// Returns the kinds that the parts need in the caches.
fn required_kinds(args: &Up) -> BTreeSet<CachedKind> {
    let mut kinds = control::required_kinds(&control::Part::ALL);
    kinds.extend(allocator::REQUIRED_KINDS);
    if args.metrics.is_some() {
        kinds.extend(metrics::REQUIRED_KINDS);
    }
    kinds
}

/// What this machine runs.
fn machine(
    client: Client,
    supervisor: &Supervisor,
    settings: &control::Settings,
    args: &Up,
) -> anyhow::Result<kubelet::Settings> {
    let own = std::env::current_exe().context("could not find the program that runs")?;
    let mut local = Local::new(Launcher { program: own.clone(), args: vec![crate::LAUNCH.into()] });
    let sidecar = Sidecar::new(client.clone(), supervisor.clone());
    local.programs.add(settings.sidecar.image.clone(), sidecar);
    let sample = vec![own.to_string_lossy().into_owned(), "sample-server".to_owned()];
    local.images = BTreeMap::from([(SAMPLE.to_owned(), sample)]);
    local.docker = kubelet::usual_docker();
    local.images.extend(args.images.iter().cloned());
    let simulated = Simulated {
        count: args.simulated_nodes,
        simulation: Some(Arc::new(Player::new(client))),
        ..Simulated::default()
    };
    let local = (args.simulated_nodes == 0).then_some(local);
    Ok(kubelet::Settings { local, simulated: Some(simulated) })
}

/// The allocator as the engine's service for its group.
fn delegate(allocator: Allocator) -> Delegate {
    let answer = move |request: Request<Full<Bytes>>| {
        let allocator = allocator.clone();
        async move {
            let (parts, body) = request.into_parts();
            let request = Request::from_parts(parts, body.collect().await?.to_bytes());
            let answer = allocator::kubernetes::answer(&allocator, request).await;
            Ok::<_, BoxError>(answer.map(|body| Full::new(body).boxed_unsync()))
        }
    };
    Delegate::new(tower::service_fn(answer))
}
