//! `plimsoll run`: the controllers and servers, as a deployment in a cluster runs them.

use std::process::ExitCode;

use anyhow::Context as _;
use control::{FeatureGates, Lease, Settings};
use kube::{Client, Config};
use serve::allocator::{Door, Doors};
use serve::tls::Files;
use serve::{admission, allocator};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::args::{Part, Run};
use crate::{cluster, measuring};

pub(crate) fn run(args: &Run) -> anyhow::Result<ExitCode> {
    crate::log("info");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(start(args))?;
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

async fn start(args: &Run) -> anyhow::Result<()> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let (client, namespace) = client(args).await?;
    let mut parts = JoinSet::new();
    let measured = measuring::serve(&client, args.metrics, &mut parts).await?;
    webhooks(args, &mut parts).await?;
    matchmakers(args, &client, measured, &mut parts).await?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let chosen: Vec<control::Part> = args.only.iter().map(|part| controller(*part)).collect();
    let controllers = control::run(client, settings(args, namespace)?, &chosen, async move {
        let _ = stopped.await;
    });
    let told = async {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
            Some(_) = parts.join_next() => {}
        }
        drop(stop);
        std::future::pending().await
    };
    tokio::select! {
        () = controllers => Ok(()),
        () = told => Ok(()),
    }
}

async fn client(args: &Run) -> anyhow::Result<(Client, String)> {
    if !args.in_cluster {
        return cluster::client(args.kubeconfig.as_deref()).await;
    }
    let config = Config::incluster().context("--in-cluster: this is no pod of a cluster")?;
    let namespace = config.default_namespace.clone();
    Ok((Client::try_from(config)?, namespace))
}

/// One of several controllers is the active one.
fn settings(args: &Run, namespace: String) -> anyhow::Result<Settings> {
    let gates = FeatureGates::parse(&args.feature_gates).context("--feature-gates")?;
    let identity =
        args.pod_name.clone().unwrap_or_else(|| format!("process-{}", std::process::id()));
    let lease = Lease::new(args.pod_namespace.clone().unwrap_or(namespace), identity);
    let mut settings = Settings { gates, lease: Some(lease), ..Settings::default() };
    if let Some(image) = &args.sidecar_image {
        settings.sidecar.image.clone_from(image);
    }
    Ok(settings)
}

fn controller(part: Part) -> control::Part {
    match part {
        Part::GameServer => control::Part::GameServer,
        Part::GameServerSet => control::Part::GameServerSet,
        Part::Fleet => control::Part::Fleet,
        Part::FleetAutoscaler => control::Part::FleetAutoscaler,
    }
}

/// Answers the API server's questions about our kinds.
async fn webhooks(args: &Run, parts: &mut JoinSet<()>) -> anyhow::Result<()> {
    let Some(address) = args.webhooks else { return Ok(()) };
    let folder = args.certificates.as_deref().context("--webhooks needs --certificates DIR")?;
    let certificates = serve::tls::Certificates::of_files(Files::in_folder(folder)).await?;
    let listener = listen(address, "--webhooks").await?;
    parts.spawn(serve::listen::serve(
        listener,
        Some(certificates),
        admission::router(),
        std::future::pending(),
    ));
    Ok(())
}

/// Answers matchmakers.
async fn matchmakers(
    args: &Run,
    client: &Client,
    measured: Option<allocator::Recorder>,
    parts: &mut JoinSet<()>,
) -> anyhow::Result<()> {
    let Some(address) = args.allocator else { return Ok(()) };
    let tls = args
        .allocator_certificates
        .as_deref()
        .map(|folder| Files { callers: Some(folder.join("callers")), ..Files::in_folder(folder) });
    let door = Door { listener: listen(address, "--allocator").await?, tls, anyone: false };
    let doors = Doors { matchmakers: Some(door), aggregated: None };
    let settings = allocator::Settings { recorder: measured, ..allocator::Settings::default() };
    let client = client.clone();
    parts.spawn(async move {
        if let Err(err) = allocator::serve(client, settings, doors, std::future::pending()).await {
            tracing::error!(error = &err as &dyn std::error::Error, "the allocator ended");
        }
    });
    Ok(())
}

async fn listen(address: std::net::SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("{flag}: could not listen on {address}; is the port taken?"))
}
