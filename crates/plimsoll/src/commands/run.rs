//! `plimsoll run`: the controllers and servers, as a deployment in a cluster runs them.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use cluster::{CachedKind, Caches, LeaderElection};
use control::Settings;
use kube::{Client, Config};
use process::{Clock, Random, Supervisor};
use serve::allocator::{Endpoint, Endpoints};
use serve::tls::{Certificates, Files};
use serve::{admission, allocator, metrics};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::{Part, Run};
use crate::kubeconfig::LEASE_NAMESPACE;
use crate::listening::{self, listen};
use crate::{kubeconfig, measuring};

pub(crate) fn run(args: &Run) -> anyhow::Result<ExitCode> {
    crate::give_memory_back();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(start(args))?;
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

async fn start(args: &Run) -> anyhow::Result<()> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let (client, namespace) = client(args).await?;
    let supervisor = Supervisor::new();
    let chosen: Vec<control::Part> = args.only.iter().map(|part| controller(*part)).collect();
    let kinds = required_kinds(args, &chosen);
    // An allocator replaces game servers, with all that is stored of them.
    let caches = Caches::new(None, has_allocator(args));
    let mut tasks = caches.follow(&client, &kinds, &Random::system(), &supervisor);
    let recorder = measuring::serve(&caches, args.metrics, &supervisor, &mut tasks).await?;
    let stop = CancellationToken::new();
    let mut servers =
        Servers { stop: stop.clone(), supervisor: supervisor.clone(), running: JoinSet::new() };
    servers.webhooks(args).await?;
    servers.allocator(args, client.clone(), &caches, recorder).await?;
    let settings = settings(args, namespace);
    let controllers = async {
        let stopped = stop.clone().cancelled_owned();
        control::run(client, caches, settings, &chosen, stopped).await;
        stop.cancel();
    };
    let told = async {
        let ended = tokio::select! {
            _ = interrupted.recv() => Ok(()),
            _ = terminated.recv() => Ok(()),
            () = stop.cancelled() => Err(anyhow!("the controllers ended by themselves")),
            Some(ended) = servers.running.join_next() => Err(why(ended)),
            ended = supervisor.ended() => Err(ended.into()),
        };
        supervisor.stop();
        stop.cancel();
        ended
    };
    let ((), ended) = tokio::join!(controllers, told);
    // Whoever was let in gets an answer.
    while servers.running.join_next().await.is_some() {}
    ended
}

fn has_allocator(args: &Run) -> bool {
    args.allocator.allocator.is_some() || args.aggregated_api.is_some()
}

/// Returns the kinds that the chosen parts need in the caches.
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

/// Says why a server ended that nobody told to.
fn why(ended: Result<anyhow::Result<()>, tokio::task::JoinError>) -> anyhow::Error {
    match ended {
        Ok(Ok(())) => anyhow!("a server ended by itself"),
        Ok(Err(err)) => err,
        Err(err) => err.into(),
    }
}

/// Connects to the API. Returns the namespace of the Lease, too: that of the pod; outside a cluster always the same one, whatever namespace a
/// kubeconfig prefers, so that there is one active controller.
async fn client(args: &Run) -> anyhow::Result<(Client, String)> {
    if !args.in_cluster {
        let (client, _) = kubeconfig::client(args.kubeconfig.as_deref()).await?;
        return Ok((client, LEASE_NAMESPACE.to_owned()));
    }
    let config = Config::incluster().context("--in-cluster: this is no pod of a cluster")?;
    let namespace = config.default_namespace.clone();
    Ok((Client::try_from(config)?, namespace))
}

/// One of several controllers is the active one.
fn settings(args: &Run, namespace: String) -> Settings {
    let gates = args.gates.feature_gates.clone();
    let identity =
        args.pod_name.clone().unwrap_or_else(|| LeaderElection::unique_identity(&Random::system()));
    let lease = LeaderElection::new(args.pod_namespace.clone().unwrap_or(namespace), identity);
    let mut settings = Settings { gates, lease: Some(lease), ..Settings::default() };
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
    }
}

/// What others call, until they are told to stop.
struct Servers {
    stop: CancellationToken,
    supervisor: Supervisor,
    running: JoinSet<anyhow::Result<()>>,
}

impl Servers {
    /// Answers the API server's questions about our kinds.
    async fn webhooks(&mut self, args: &Run) -> anyhow::Result<()> {
        let Some(address) = args.webhooks else { return Ok(()) };
        let files = shown_to_api_server(args)?;
        let certificates = Certificates::of_files(files, &self.supervisor).await?;
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
        recorder: Option<allocator::Recorder>,
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
        self.running.spawn(async move { serving.await.context("the allocator ended") });
        Ok(())
    }
}

async fn aggregated(args: &Run) -> anyhow::Result<Option<Endpoint>> {
    let Some(address) = args.aggregated_api else { return Ok(None) };
    let tls = Some(shown_to_api_server(args)?);
    let listener = listen(address, "--aggregated-api").await?;
    Ok(Some(Endpoint { listener, tls, allow_anonymous: false }))
}

fn shown_to_api_server(args: &Run) -> anyhow::Result<Files> {
    let folder = args.certificates.as_deref();
    folder.map(Files::in_folder).context("--webhooks and --aggregated-api need --certificates DIR")
}
