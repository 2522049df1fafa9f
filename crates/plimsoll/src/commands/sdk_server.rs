//! `plimsoll sdk-server`: the SDK server as a sidecar, or locally on a developer's machine.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use control::FeatureGates;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use process::{Clock, Random};
use serve::sdk::{Listeners, LocalSettings, Settings, run as run_sidecar, run_local};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::SdkServer;

pub(crate) fn run(args: &SdkServer) -> anyhow::Result<ExitCode> {
    // One worker thread: the sidecar has little to do, and shares the CPU with the game.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(start(args))?;
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

async fn start(args: &SdkServer) -> anyhow::Result<()> {
    let gates = &args.gates.feature_gates;
    gates.warn();
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let stop = async move {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    };
    tokio::time::sleep(Duration::from_secs(args.delay)).await;
    let is_local = args.local || tests(args).is_some();
    if is_local { local(args, stop).await } else { sidecar(args, gates, stop).await }
}

async fn local(args: &SdkServer, stop: impl Future<Output = ()> + Send) -> anyhow::Result<()> {
    let listeners = listen(args, false).await?;
    print_addresses(&listeners, "local SDK server")?;
    let local = LocalSettings {
        file: args.file.clone().filter(|file| !file.as_os_str().is_empty()),
        test: tests(args),
        timeout: (args.timeout > 0).then(|| Duration::from_secs(args.timeout)),
        clock: Clock::system(),
        random: Random::system(),
    };
    let is_test = local.test.is_some();
    run_local(local, listeners, stop).await?;
    if is_test {
        eprintln!("plimsoll: conformance test of {:?} passed", args.sdk_name);
    }
    Ok(())
}

async fn sidecar(
    args: &SdkServer,
    gates: &FeatureGates,
    stop: impl Future<Output = ()> + Send,
) -> anyhow::Result<()> {
    let needed = "is required, as a flag or environment variable, unless you use --local";
    let name = args.gameserver_name.clone();
    let name = name.with_context(|| format!("--gameserver-name (GAMESERVER_NAME) {needed}"))?;
    let namespace = args.pod_namespace.clone();
    let namespace =
        namespace.with_context(|| format!("--pod-namespace (POD_NAMESPACE) {needed}"))?;
    let settings = Settings {
        rate_limit: rate_limit(args)?,
        // A native sidecar outlives the game's container and does not have to wait.
        graceful_termination: args.graceful_termination
            && gates.off().any(|gate| gate == "SidecarContainers"),
        ..Settings::new(namespace, name)
    };
    let client = client(args).await?;
    let listeners = listen(args, true).await?;
    let what = format!("SDK server of GameServer {}/{}", settings.namespace, settings.name);
    print_addresses(&listeners, &what)?;
    Ok(run_sidecar(client, settings, listeners, stop).await?)
}

/// Returns the expected calls of a conformance test; `None` if the flag or variable is empty.
fn tests(args: &SdkServer) -> Option<Vec<String>> {
    let names: Vec<_> = args.test.iter().filter(|name| !name.is_empty()).cloned().collect();
    (!names.is_empty()).then_some(names)
}

fn print_addresses(listeners: &Listeners, what: &str) -> std::io::Result<()> {
    let (grpc, http) = (listeners.grpc.local_addr()?, listeners.http.local_addr()?);
    eprintln!("plimsoll: {what}: gRPC at {grpc}, REST at http://{http}");
    Ok(())
}

async fn client(args: &SdkServer) -> anyhow::Result<Client> {
    let config = match &args.kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path)
                .with_context(|| format!("could not read {}", path.display()))?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?
        }
        None => {
            Config::incluster().context("not running in a pod: use --kubeconfig FILE or --local")?
        }
    };
    Ok(Client::try_from(config)?)
}

fn rate_limit(args: &SdkServer) -> anyhow::Result<Duration> {
    // Agones' controller sets the second name, which its own sidecar does not read.
    let given =
        args.request_rate_limit.clone().or_else(|| std::env::var("REQUESTS_RATE_LIMIT").ok());
    let Some(given) = given.filter(|given| !given.is_empty()) else {
        return Ok(Duration::from_millis(500));
    };
    let span = api::duration::parse(&given).map_err(anyhow::Error::msg);
    let span = span.context("--request-rate-limit (REQUEST_RATE_LIMIT)")?;
    Duration::try_from(span).context("--request-rate-limit: must not be negative")
}

async fn listen(args: &SdkServer, with_health: bool) -> anyhow::Result<Listeners> {
    let health = match with_health {
        true => Some(bind(&args.health_address, args.health_port, "--health-port").await?),
        false => None,
    };
    Ok(Listeners {
        grpc: bind(&args.address, args.grpc_port, "--grpc-port").await?,
        http: bind(&args.address, args.http_port, "--http-port").await?,
        health,
    })
}

/// Listens on a host by name. Prefers IPv4, because some clients support only that.
async fn bind(host: &str, port: u16, flag: &str) -> anyhow::Result<TcpListener> {
    let host = if host.is_empty() { "0.0.0.0" } else { host };
    let found = tokio::net::lookup_host((host, port)).await;
    let mut found: Vec<SocketAddr> = found
        .with_context(|| format!("could not resolve {host:?} to an address to listen on"))?
        .collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    TcpListener::bind(&*found).await.with_context(|| {
        format!("could not listen on {host}:{port}; choose another port with {flag}")
    })
}
