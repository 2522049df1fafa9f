//! The SDK server, which a game server process calls over gRPC or REST.
//!
//! ```text
//!  process ──gRPC, REST──▶ calls ──▶ core ◀──▶ cluster (an object of a Kubernetes API)
//!                                         ◀──▶ local   (an object in memory, with no control plane)
//! ```

mod calls;
mod changes;
mod cluster;
mod conformance;
mod core;
mod error;
mod events;
mod grpc;
mod health;
mod local;
mod message;
mod rest;
mod serving;
mod size;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use process::{Clock, Random, Supervisor};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::conformance::Recorder;
use self::core::{Core, WriteMode};

pub use self::local::FileError;

/// The listeners of an SDK server. They may be in another network namespace.
pub struct Listeners {
    /// gRPC; clients expect port 9357.
    pub grpc: TcpListener,
    /// REST; clients expect port 9358.
    pub http: TcpListener,
    /// Probes; the kubelet expects port 8080.
    pub health: Option<TcpListener>,
}

/// The settings of an SDK server for one GameServer.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the GameServer.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The minimum time between two writes.
    pub rate_limit: Duration,
    /// Whether the process starts together with the SDK server, so that health checking begins at once. Otherwise it begins
    /// with the first probe of the container, or after the first call.
    pub health_from_start: bool,
    /// Whether to keep running after `stop` until the game server is terminating, if its process ever set a state.
    pub graceful_termination: bool,
    /// The clock.
    pub clock: Clock,
    /// The source of random numbers.
    pub random: Random,
    /// Supervises the tasks.
    pub supervisor: Supervisor,
}

impl Settings {
    /// Returns the default settings for a game server.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: namespace.into(),
            rate_limit: Duration::from_millis(500),
            health_from_start: false,
            graceful_termination: false,
            clock: Clock::system(),
            random: Random::system(),
            supervisor: Supervisor::new(),
        }
    }
}

/// The settings of local mode, which needs no control plane.
#[derive(Clone, Debug, Default)]
pub struct LocalSettings {
    /// The file with the GameServer, reloaded when it changes. Without one a default GameServer is used.
    pub file: Option<PathBuf>,
    /// The names of the calls that a client's conformance test must make; `None` if this is no conformance test.
    pub test: Option<Vec<String>>,
    /// How long to run; without limit unless set.
    pub timeout: Option<Duration>,
    /// The clock.
    pub clock: Clock,
    /// The source of random numbers.
    pub random: Random,
}

/// Why an SDK server failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file with the GameServer could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A client's conformance test failed.
    #[error("the conformance test failed: {0}")]
    Conformance(String),
}

/// Serves the SDK for one GameServer of a Kubernetes API until `stop`, and then writes the pending changes.
pub async fn run(
    client: kube::Client,
    settings: Settings,
    listeners: Listeners,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), Error> {
    let token = CancellationToken::new();
    // Stops all tasks, however this function ends.
    let _guard = token.clone().drop_guard();
    let core = Arc::new(Core::new(
        WriteMode::Deferred,
        None,
        settings.clock.clone(),
        settings.random.clone(),
        token.clone(),
    ));
    let backend = cluster::Backend::new(client, &settings);
    let shutdown = async {
        stop.await;
        if settings.graceful_termination {
            core.terminating().await;
        }
    };
    let shutdown = run_until_cancelled(&token, shutdown);
    let monitor = async {
        health::monitor(&core, settings.health_from_start).await;
        token.cancelled().await;
    };
    let monitor = run_until_cancelled(&token, monitor);
    let served = serving::run(&core, listeners);
    tokio::join!(shutdown, monitor, backend.run(&core), served);
    Ok(())
}

/// Serves the SDK in local mode until `stop` or the timeout, and then returns the result of the conformance test, if it is one.
pub async fn run_local(
    local: LocalSettings,
    listeners: Listeners,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), Error> {
    let token = CancellationToken::new();
    let _guard = token.clone().drop_guard();
    let recorder = local.test.map(Recorder::new);
    let server = match &local.file {
        Some(file) => local::read(file)?,
        None if recorder.is_some() => {
            local::default_server(local.random.u64().to_string(), local.clock.now())
        }
        None => local::default_server("1234".to_owned(), local.clock.now()),
    };
    let core = Arc::new(Core::new(
        WriteMode::Immediate,
        recorder,
        local.clock.clone(),
        local.random.clone(),
        token.clone(),
    ));
    core.replace(server);
    let timeout = async {
        match local.timeout {
            Some(span) => tokio::time::sleep(span).await,
            None => std::future::pending().await,
        }
    };
    let shutdown = async {
        tokio::select! {
            () = stop => {}
            () = timeout => {}
        }
    };
    let served = serving::run(&core, listeners);
    tokio::join!(run_until_cancelled(&token, shutdown), local::run(&core, local.file), served);
    core.recorder.as_ref().map_or(Ok(()), Recorder::result).map_err(Error::Conformance)
}

/// Runs `work` until the token is cancelled; when `work` ends first, it cancels the token.
async fn run_until_cancelled(token: &CancellationToken, work: impl Future<Output = ()>) {
    tokio::select! {
        () = token.cancelled() => {}
        () = work => token.cancel(),
    }
}
