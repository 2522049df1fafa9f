//! The embedded Kubernetes API: an API server in this process, with objects on disk and watches from memory.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = plimsoll_engine::Engine::open(plimsoll_engine::Settings::ephemeral()).await?;
//! let client = kube::Client::new(engine.service(), "default");
//! # Ok(()) }
//! ```

mod access;
mod bootstrap;
mod core;
mod deadline;
mod definitions;
mod delegate;
mod discovery;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod identity;
mod keep;
mod node_proxy;
mod openapi;
mod rest;
mod run;
mod schedule;
mod service;
mod status;
mod store;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use access::{AccessError, Listening};
pub use delegate::Delegate;
pub use node_proxy::{ByteStream, ContainerAddress, LogOptions, NodeProxy, NodeProxyError};
pub use rest::{Body, Caller};
pub use run::{RunError, Runtime};
pub use service::Service;
pub use store::{History, StoreError};

use access::Access;
use process::{Clock, Supervisor};
use store::Store;

/// How an engine is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where objects are kept; `None`: in memory only.
    pub data: Option<PathBuf>,
    /// Where time comes from.
    pub clock: Clock,
    /// How much of the past is kept.
    pub history: History,
    /// What watches over the engine's tasks. `/readyz` tells of everything that it finds wrong.
    pub supervisor: Supervisor,
}

impl Settings {
    /// Keeps everything in memory.
    pub fn ephemeral() -> Self {
        let (clock, supervisor) = (Clock::system(), Supervisor::new());
        Self { data: None, clock, history: History::default(), supervisor }
    }

    /// Keeps everything in a directory.
    pub fn in_directory(data: impl Into<PathBuf>) -> Self {
        Self { data: Some(data.into()), ..Self::ephemeral() }
    }
}

/// Why an engine did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Keys and certificates cannot be made or kept.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// What every cluster has could not be made.
    #[error("could not store the first objects: {0}")]
    Bootstrap(String),
}

/// An API server in this process.
pub struct Engine {
    core: Arc<core::Core>,
    access: Access,
}

impl Engine {
    /// Opens an engine. It runs on the present tokio runtime until it is dropped.
    pub async fn open(settings: Settings) -> Result<Self, OpenError> {
        let Settings { data, clock, history, supervisor } = settings;
        let (store, access, identity) = match &data {
            None => {
                (Store::in_memory(clock.clone(), history), Access::fresh()?, identity::random())
            }
            Some(dir) => {
                let failed = |source| StoreError::Io { path: dir.display().to_string(), source };
                files::private_directory(dir).map_err(failed)?;
                // Who has the store open has the directory, so the rest comes after it.
                let store = Store::on_disk(dir, clock.clone(), history, &supervisor)?;
                (store, Access::kept_in(dir)?, identity::kept_in(dir).map_err(failed)?)
            }
        };
        let core = core::Core::new(store, clock, supervisor, &access, identity);
        let engine = Self { core, access };
        bootstrap::run(&engine.core).await.map_err(OpenError::Bootstrap)?;
        definitions::install(&engine.core).await.map_err(OpenError::Bootstrap)?;
        definitions::start(&engine.core);
        keep::start(&engine.core);
        Ok(engine)
    }

    /// Returns the identity of the data directory: the same after a restart, and nobody else's.
    pub fn identity(&self) -> &str {
        &self.core.identity
    }

    /// Gives the service that answers requests in this process, for `kube::Client::new`.
    pub fn service(&self) -> Service {
        Service::new(Arc::clone(&self.core))
    }

    /// Gives a client that reaches the engine without a socket.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), "default")
    }

    /// Lets a service answer for a group and version: it gets every request below `/apis/GROUP/VERSION`, discovery
    /// included, with the [`Caller`] among the request's extensions.
    pub fn delegate(&self, group: &str, version: &str, service: Delegate) {
        self.core.delegates.add(group, version, service);
    }

    /// Schedules and runs pods. Without it pods stay as they are, as with an API server alone.
    pub async fn run(&self, settings: kubelet::Settings) -> Result<Runtime, RunError> {
        run::start(&self.core, self.client(), settings).await
    }

    /// Sets how the kubelets of nodes are reached; [`Engine::run`] sets the kubelet of this process.
    pub fn set_node_proxy(&self, proxy: Arc<dyn NodeProxy>) {
        self.core.set_node_proxy(Some(proxy));
    }

    /// Listens on an address, with TLS and the token. Port 0 takes a free one.
    pub async fn listen(&self, address: SocketAddr) -> Result<Listening, AccessError> {
        access::listen(Arc::clone(&self.core), &self.access, address).await
    }

    /// Writes a kubeconfig for a port that is listened on, readable by its owner only.
    pub fn write_kubeconfig(&self, path: &Path, listening: &Listening) -> Result<(), AccessError> {
        self.access.write_kubeconfig(path, &listening.url())
    }

    /// Gives the certificate that clients trust, as PEM.
    pub fn ca_pem(&self) -> &str {
        self.access.ca_pem()
    }

    /// Ends every watch, stores what is under way, and lets go of the data directory.
    pub fn stop(&self) {
        self.core.stop();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}
