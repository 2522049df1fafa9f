//! `plimsoll up`: runs the embedded engine with all controllers on this machine.

mod apply;
mod embedded;
mod fleets;

use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::process::ExitCode;

use anyhow::Context as _;
use engine::{Engine, Settings};
use process::Supervisor;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Up;
use crate::kubeconfig;
use embedded::Parts;

pub(crate) fn run(args: &Up) -> anyhow::Result<ExitCode> {
    // Must run before any thread is started. If it fails, pods share the host network, and a line says so.
    let _ = kubelet::allow_for_ordinary_users();
    crate::give_memory_back();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(up(args))?;
    // Only client connections are still open.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

async fn up(args: &Up) -> anyhow::Result<()> {
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
        Some(lease) => Some(Parts::start(&engine, &supervisor, lease, args).await?),
        None => None,
    };
    if let Some(url) = parts.as_ref().and_then(Parts::allocator) {
        writeln!(out, "allocator (gRPC and REST) at {url}")?;
    }
    if let Some(lack) = parts.as_ref().and_then(Parts::lacks) {
        writeln!(out, "{lack}")?;
    }
    let client = engine.client();
    apply::files(&client, &args.files, |name| writeln!(std::io::stdout(), "{name} applied"))
        .await?;
    out.flush()?;
    let follow = async {
        if parts.is_some() {
            fleets::follow(&client).await?;
        }
        std::future::pending().await
    };
    let ended: anyhow::Result<()> = tokio::select! {
        _ = interrupted.recv() => Ok(()),
        _ = terminated.recv() => Ok(()),
        failed = follow => failed,
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
