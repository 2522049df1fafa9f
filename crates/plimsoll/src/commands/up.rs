//! `plimsoll up`: runs the embedded engine with all controllers on this machine.

mod embedded;
mod fleets;

use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::process::ExitCode;

use anyhow::Context as _;
use engine::{Engine, Settings};
use kube::Client;
use process::Supervisor;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Up;
use crate::manifest::{self, Applier};
use crate::{kubeconfig, settings};
use embedded::Parts;

pub(crate) fn run(args: &Up) -> anyhow::Result<ExitCode> {
    let game_servers = settings::game_servers(&args.game_servers);
    // Must run before any thread is started. If it fails, pods share the host network, which is reported below.
    let _ = kubelet::allow_for_ordinary_users();
    crate::enable_background_purging();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(up(args, game_servers))?;
    // Only client connections are still open.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

async fn up(args: &Up, game_servers: control::Settings) -> anyhow::Result<()> {
    // Registered first, so that an early signal is not missed.
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let data = kubeconfig::data_directory(args.data.as_deref())?;
    let mut settings =
        if args.ephemeral { Settings::ephemeral() } else { Settings::in_directory(&data) };
    settings.history.bytes = args.history.saturating_mul(1 << 20);
    let supervisor = Supervisor::new();
    let settings = Settings { supervisor: supervisor.clone(), ..settings };
    let engine = Engine::open(settings).await?;
    let lease = if args.api_only { None } else { Some(embedded::lease(&engine).await) };
    let listening = engine.listen(args.listen).await?;
    let kubeconfig = args.write_kubeconfig.clone().unwrap_or_else(|| data.join("kubeconfig"));
    if let Some(dir) = kubeconfig.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        // Even with --ephemeral the kubeconfig contains a token, so only the owner may read the directory.
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .with_context(|| format!("could not create directory {}", dir.display()))?;
    }
    engine.write_kubeconfig(&kubeconfig, &listening)?;
    let mut out = std::io::stdout();
    writeln!(out, "plimsoll is up at {}", listening.url())?;
    if !listening.address().ip().is_loopback() {
        writeln!(
            out,
            "warning: other machines can connect; anyone with the token in the kubeconfig has full access"
        )?;
    }
    writeln!(out, "export KUBECONFIG={}", kubeconfig.display())?;
    out.flush()?;
    let parts = match lease {
        Some(lease) => Some(Parts::start(&engine, &supervisor, lease, game_servers, args).await?),
        None => None,
    };
    if let Some(url) = parts.as_ref().and_then(Parts::allocator) {
        writeln!(out, "allocator (gRPC and REST) at {url}")?;
    }
    if let Some(limitation) = parts.as_ref().and_then(Parts::limitation) {
        writeln!(out, "{limitation}")?;
    }
    let client = engine.client();
    apply(&client, args).await?;
    out.flush()?;
    let follow = async {
        if parts.is_some()
            && let Err(err) = fleets::follow(&client).await
        {
            tracing::warn!(error = %cluster::explain(&*err), "could not list the game servers; they run on");
        }
        std::future::pending::<()>().await;
    };
    let ended: anyhow::Result<()> = tokio::select! {
        _ = interrupted.recv() => Ok(()),
        _ = terminated.recv() => Ok(()),
        () = follow => Ok(()),
        ended = supervisor.ended() => Err(ended.into()),
    };
    supervisor.stop();
    if ended.is_err() {
        // The store may have failed; without this, pods and controllers could wait for it forever.
        engine.stop();
    }
    if let Some(parts) = parts {
        parts.stop().await;
    }
    drop(listening);
    engine.stop();
    ended
}

/// Applies the objects while the files are being read.
async fn apply(client: &Client, args: &Up) -> anyhow::Result<()> {
    if args.files.is_empty() {
        return Ok(());
    }
    let mut applier = Applier::new(client.clone(), "default").await?;
    let mut objects = manifest::objects(args.files.clone(), false);
    while let Some(object) = objects.recv().await {
        let object = object?;
        let name = manifest::object_name(&object);
        let result = applier.apply(object).await.map_err(manifest::plain);
        result.with_context(|| format!("could not apply {name}"))?;
        writeln!(std::io::stdout(), "{name} applied")?;
    }
    Ok(())
}
