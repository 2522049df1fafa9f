//! `plimsoll run`: runs the controllers and servers against an existing cluster.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use cluster::{CachedKind, Caches, DecisionSettings, LeaderElection};
use connect::providers;
use control::Settings;
use kube::{Client, Config};
use process::{Clock, Random, Supervisor};
use serde_json::Value;
use serve::allocator::Endpoints;
use serve::external_grpc::{NodeGroups, Providers};
use serve::listen::Endpoint;
use serve::tls::{CertificateFiles, CertificateWatcher};
use serve::{admission, allocator, external_grpc, metrics};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::{Part, Run};
use crate::kubeconfig::LEASE_NAMESPACE;
use crate::listening::{self, listen};
use crate::{kubeconfig, measuring, settings};

pub(crate) fn run(args: &Run) -> anyhow::Result<ExitCode> {
    let game_servers = settings::game_servers(&args.game_servers);
    crate::enable_background_purging();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(start(args, game_servers))?;
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

async fn start(args: &Run, game_servers: Settings) -> anyhow::Result<()> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let (client, namespace) = client(args).await?;
    let supervisor = Supervisor::new();
    let chosen: Vec<control::Part> = args.only.iter().map(|part| controller(*part)).collect();
    let kinds = required_kinds(args, &chosen);
    // An allocator replaces whole game servers, so the cache must keep their text.
    let caches = Caches::new(None, has_allocator(args));
    let mut tasks = caches.follow(&client, &kinds, &Random::system(), &supervisor);
    let mut settings = controller_settings(args, game_servers, namespace, &supervisor);
    let recorder =
        measuring::serve(&caches, &settings, args.metrics, &supervisor, &mut tasks).await?;
    let stop = CancellationToken::new();
    let mut servers =
        Servers { stop: stop.clone(), supervisor: supervisor.clone(), running: JoinSet::new() };
    servers.webhooks(args).await?;
    servers.allocator(args, client.clone(), &caches, recorder).await?;
    servers.external_grpc(args, &client, &mut settings).await?;
    let controllers = async {
        let stopped = stop.clone().cancelled_owned();
        control::run(client, caches, settings, &chosen, stopped).await;
        stop.cancel();
    };
    let shutdown = async {
        let result = tokio::select! {
            _ = interrupted.recv() => Ok(()),
            _ = terminated.recv() => Ok(()),
            () = stop.cancelled() => Err(anyhow!("controllers stopped unexpectedly")),
            Some(ended) = servers.running.join_next() => Err(server_error(ended)),
            ended = supervisor.ended() => Err(ended.into()),
        };
        supervisor.stop();
        stop.cancel();
        result
    };
    let ((), result) = tokio::join!(controllers, shutdown);
    // Lets requests in progress finish.
    while servers.running.join_next().await.is_some() {}
    result
}

fn has_allocator(args: &Run) -> bool {
    args.allocator.allocator.is_some() || args.aggregated_api.is_some()
}

/// Returns the kinds that the chosen controllers and servers need in the caches.
fn required_kinds(args: &Run, chosen: &[control::Part]) -> BTreeSet<CachedKind> {
    let mut kinds = control::required_kinds(chosen);
    if has_allocator(args) {
        kinds.extend(allocator::REQUIRED_KINDS);
    }
    if args.metrics.is_some() {
        kinds.extend(metrics::REQUIRED_KINDS);
    }
    kinds
}

/// Returns why a server stopped before the shutdown.
fn server_error(ended: Result<anyhow::Result<()>, tokio::task::JoinError>) -> anyhow::Error {
    match ended {
        Ok(Ok(())) => anyhow!("a listener stopped unexpectedly"),
        Ok(Err(err)) => err,
        Err(err) => err.into(),
    }
}

/// Connects to the API. Also returns the namespace of the Lease: that of the pod, or outside a cluster a fixed one, whatever the namespace of
/// the kubeconfig, so that only one controller is active.
async fn client(args: &Run) -> anyhow::Result<(Client, String)> {
    if !args.in_cluster {
        let (client, _) = kubeconfig::client(args.kubeconfig.as_deref()).await?;
        return Ok((client, LEASE_NAMESPACE.to_owned()));
    }
    let config =
        Config::incluster().context("--in-cluster: not running in a pod; use --kubeconfig FILE")?;
    let namespace = config.default_namespace.clone();
    Ok((Client::try_from(config)?, namespace))
}

/// Returns the settings of the controllers, with leader election.
fn controller_settings(
    args: &Run,
    game_servers: Settings,
    namespace: String,
    supervisor: &Supervisor,
) -> Settings {
    let gates = args.gates.feature_gates.clone();
    let identity =
        args.pod_name.clone().unwrap_or_else(|| LeaderElection::unique_identity(&Random::system()));
    let namespace = args.pod_namespace.clone().unwrap_or(namespace);
    let lease = Some(LeaderElection::new(namespace.clone(), identity));
    let decisions = DecisionSettings { namespace, ..DecisionSettings::default() };
    let supervisor = supervisor.clone();
    let mut settings = Settings { gates, lease, decisions, supervisor, ..game_servers };
    if let Some(image) = &args.sidecar_image {
        settings.sidecar.image.clone_from(image);
    }
    settings
}

fn controller(part: Part) -> control::Part {
    match part {
        Part::GameServer => control::Part::GameServer,
        Part::GameServerSet => control::Part::GameServerSet,
        Part::Fleet => control::Part::Fleet,
        Part::FleetAutoscaler => control::Part::FleetAutoscaler,
        Part::ScalingPolicy => control::Part::ScalingPolicy,
        Part::AutoScalePolicy => control::Part::AutoScalePolicy,
        Part::Nodes => control::Part::Nodes,
    }
}

/// The listeners of this process.
struct Servers {
    stop: CancellationToken,
    supervisor: Supervisor,
    running: JoinSet<anyhow::Result<()>>,
}

impl Servers {
    /// Serves the admission webhooks.
    async fn webhooks(&mut self, args: &Run) -> anyhow::Result<()> {
        let Some(address) = args.webhooks else { return Ok(()) };
        let files = certificate_files(args)?;
        let certificates = CertificateWatcher::from_files(files, &self.supervisor).await?;
        let listener = listen(address, "--webhooks").await?;
        let stop = self.stop.clone().cancelled_owned();
        let ready = serve::health::router(self.supervisor.clone());
        let router = admission::router(Clock::system()).merge(ready);
        let serving = serve::listen::serve(listener, Some(certificates), router, stop);
        self.running.spawn(async move {
            serving.await;
            Ok(())
        });
        Ok(())
    }

    /// Serves allocations to matchmakers and through the API server.
    async fn allocator(
        &mut self,
        args: &Run,
        client: Client,
        caches: &Arc<Caches>,
        recorder: Option<allocator::AllocationRecorder>,
    ) -> anyhow::Result<()> {
        let endpoints = Endpoints {
            matchmakers: listening::allocator(&args.allocator).await?,
            aggregated: aggregated(args).await?,
        };
        if endpoints.matchmakers.is_none() && endpoints.aggregated.is_none() {
            return Ok(());
        }
        let settings = allocator::Settings {
            recorder,
            supervisor: self.supervisor.clone(),
            ..allocator::Settings::default()
        };
        let (caches, stop) = (Arc::clone(caches), self.stop.clone().cancelled_owned());
        let serving = allocator::serve(client, caches, settings, endpoints, stop);
        self.running.spawn(async move { serving.await.context("the allocator stopped") });
        Ok(())
    }

    /// Serves the node groups to a Cluster Autoscaler.
    async fn external_grpc(
        &mut self,
        args: &Run,
        client: &Client,
        settings: &mut Settings,
    ) -> anyhow::Result<()> {
        let Some(endpoint) = listening::external_grpc(&args.external_grpc).await? else {
            return Ok(());
        };
        let (clock, random) = (settings.clock.clone(), settings.random.clone());
        let context = connect::Context::new(client.clone(), clock, random, self.supervisor.clone());
        let shared = stateful_providers(&context)?;
        settings.node_providers.0.extend(shared.clone());
        let groups = NodeGroups::new(context, shared);
        let serving = external_grpc::serve(groups, endpoint, self.stop.clone().cancelled_owned());
        let context = "the server of node groups (--externalgrpc) stopped";
        self.running.spawn(async move { serving.await.context(context) });
        Ok(())
    }
}

/// Opens the providers that keep track of machines in this process: the controllers and the server share them.
fn stateful_providers(context: &connect::Context) -> anyhow::Result<Providers> {
    let open = |name: &str| -> anyhow::Result<_> {
        Ok((name.to_owned(), providers::open(context, name, &Value::Null)?))
    };
    ["kwok", "simulated"].into_iter().map(open).collect()
}

async fn aggregated(args: &Run) -> anyhow::Result<Option<Endpoint>> {
    let Some(address) = args.aggregated_api else { return Ok(None) };
    let tls = Some(certificate_files(args)?);
    let listener = listen(address, "--aggregated-api").await?;
    Ok(Some(Endpoint { listener, tls, allow_anonymous: false }))
}

fn certificate_files(args: &Run) -> anyhow::Result<CertificateFiles> {
    let directory = args.certificates.as_deref();
    directory
        .map(CertificateFiles::in_directory)
        .context("--webhooks and --aggregated-api need --certificates DIR")
}
