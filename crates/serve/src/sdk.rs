//! The SDK server: what a game server's own process talks to.
//!
//! ```text
//!  process ──gRPC, REST──▶ calls ──▶ core ◀──▶ cluster (an object of a Kubernetes API)
//!                                         ◀──▶ local   (a stand-in with no control plane)
//! ```

mod calls;
mod changes;
mod cluster;
mod conformance;
mod core;
mod events;
mod grpc;
mod health;
mod local;
mod message;
mod refusal;
mod rest;
mod serving;
mod size;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use process::{Clock, Supervisor};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::conformance::Recorder;
use self::core::{Core, Writes};

pub use self::local::FileError;

/// Where an SDK server listens. The listeners may be in another network namespace.
pub struct Listeners {
    /// For gRPC; clients look for it on port 9357.
    pub grpc: TcpListener,
    /// For REST; clients look for it on port 9358.
    pub http: TcpListener,
    /// For probes; kubelets look for it on port 8080.
    pub health: Option<TcpListener>,
}

/// Which game server to speak for, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the GameServer.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The least time between two writes.
    pub rate_limit: Duration,
    /// Whether the process starts together with the SDK server, so that its silence counts from the start. Otherwise it
    /// counts from the first probe of its container, or from its first call.
    pub health_from_start: bool,
    /// Whether to go on after `stop` until the game server is on its way out, if its process ever set a state.
    pub graceful_termination: bool,
    /// Where time comes from.
    pub clock: Clock,
    /// What watches over the tasks.
    pub supervisor: Supervisor,
}

impl Settings {
    /// Speaks for a game server with the usual settings.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: namespace.into(),
            rate_limit: Duration::from_millis(500),
            health_from_start: false,
            graceful_termination: false,
            clock: Clock::system(),
            supervisor: Supervisor::new(),
        }
    }
}

/// What a stand-in with no control plane does.
#[derive(Clone, Debug, Default)]
pub struct Local {
    /// The file with the GameServer; it is read again whenever it changes. Without one there is one made up.
    pub file: Option<PathBuf>,
    /// The calls that a client's conformance test is to make, by name. None: this is no conformance test.
    pub test: Option<Vec<String>>,
    /// How long to stand in; without end unless given.
    pub timeout: Option<Duration>,
    /// Where time comes from.
    pub clock: Clock,
}

/// Why an SDK server ended before it was told to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The game server could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A client's conformance test failed.
    #[error("the conformance test failed: {0}")]
    Conformance(String),
}

/// Speaks for one GameServer of a Kubernetes API until `stop`, and then writes what is left.
pub async fn run(
    client: kube::Client,
    settings: Settings,
    listeners: Listeners,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), Error> {
    let token = CancellationToken::new();
    // Whatever ends this, what it has started ends too.
    let _end = token.clone().drop_guard();
    let core = Arc::new(Core::new(Writes::Behind, None, settings.clock.clone(), token.clone()));
    let backend = cluster::Backend::new(client, &settings);
    let told = async {
        stop.await;
        if settings.graceful_termination {
            core.left().await;
        }
    };
    let told = until(&token, told);
    let watched_over = async {
        health::watch_over(&core, settings.health_from_start).await;
        token.cancelled().await;
    };
    let watched_over = until(&token, watched_over);
    let served = serving::run(&core, listeners);
    tokio::join!(told, watched_over, backend.run(&core), served);
    Ok(())
}

/// Stands in with no control plane until `stop` or its time is over, and judges the conformance test, if it is one.
pub async fn run_local(
    local: Local,
    listeners: Listeners,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), Error> {
    let token = CancellationToken::new();
    let _end = token.clone().drop_guard();
    let recorder = local.test.map(Recorder::new);
    let server = match &local.file {
        Some(file) => local::read(file)?,
        None if recorder.is_some() => {
            local::default(fastrand::u32(..).to_string(), local.clock.now())
        }
        None => local::default("1234".to_owned(), local.clock.now()),
    };
    let core = Arc::new(Core::new(Writes::Here, recorder, local.clock.clone(), token.clone()));
    core.replace(server);
    let over = async {
        match local.timeout {
            Some(span) => tokio::time::sleep(span).await,
            None => std::future::pending().await,
        }
    };
    let told = async {
        tokio::select! {
            () = stop => {}
            () = over => {}
        }
    };
    let served = serving::run(&core, listeners);
    tokio::join!(until(&token, told), local::keep(&core, local.file), served);
    core.recorder.as_ref().map_or(Ok(()), Recorder::verdict).map_err(Error::Conformance)
}

/// Waits for `work` or for the end; the end of `work` is the end of everything.
async fn until(end: &CancellationToken, work: impl Future<Output = ()>) {
    tokio::select! {
        () = end.cancelled() => {}
        () = work => end.cancel(),
    }
}
