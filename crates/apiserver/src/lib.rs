//! The embedded Kubernetes API server: objects on disk, watches from memory, in this process.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let server = plimsoll_apiserver::ApiServer::open(plimsoll_apiserver::Settings::ephemeral()).await?;
//! let client = kube::Client::new(server.service(), "default");
//! # Ok(()) }
//! ```

mod access;
mod bootstrap;
mod controllers;
mod core;
mod deadline;
mod definitions;
mod delegate;
mod discovery;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod identity;
mod listen;
mod node_proxy;
mod openapi;
mod request;
mod rest;
mod service;
mod service_addresses;
mod status;
mod store;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use access::AccessError;
pub use delegate::Delegate;
pub use listen::Listening;
pub use node_proxy::{ByteStream, ContainerAddress, LogOptions, NodeProxy, NodeProxyError};
pub use request::{Body, Caller};
pub use service::Service;
pub use store::{History, StoreError};

use access::Access;
use process::{Clock, Random, Supervisor};
use store::Store;
use tokio::sync::watch;

/// How an API server is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The data directory; `None`: objects are kept in memory only.
    pub data: Option<PathBuf>,
    /// Where time comes from.
    pub clock: Clock,
    /// How much of the history of changes is kept.
    pub history: History,
    /// Supervises the tasks of the server. `/readyz` reports every problem that it knows of.
    pub supervisor: Supervisor,
    /// Where uids and generated names come from.
    pub random: Random,
}

impl Settings {
    /// Keeps everything in memory.
    pub fn ephemeral() -> Self {
        Self {
            data: None,
            clock: Clock::system(),
            history: History::default(),
            supervisor: Supervisor::new(),
            random: Random::system(),
        }
    }

    /// Keeps everything in a directory.
    pub fn in_directory(data: impl Into<PathBuf>) -> Self {
        Self { data: Some(data.into()), ..Self::ephemeral() }
    }
}

/// Why an API server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Keys and certificates cannot be made or kept.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The objects of every new cluster could not be stored.
    #[error("could not store the first objects: {0}")]
    Bootstrap(String),
}

/// An API server in this process.
pub struct ApiServer {
    core: Arc<core::Core>,
    access: Access,
}

impl ApiServer {
    /// Opens an API server. It runs on the present tokio runtime until it is dropped.
    pub async fn open(settings: Settings) -> Result<Self, OpenError> {
        let Settings { data, clock, history, supervisor, random } = settings;
        let (store, access, identity) = match &data {
            None => {
                (Store::in_memory(clock.clone(), history), Access::fresh()?, identity::random())
            }
            Some(dir) => {
                let failed = |source| StoreError::Io { path: dir.display().to_string(), source };
                files::private_directory(dir).map_err(failed)?;
                // Opening the store locks the directory, so the rest comes after it.
                let store = Store::on_disk(dir, clock.clone(), history, &supervisor)?;
                (store, Access::kept_in(dir)?, identity::kept_in(dir).map_err(failed)?)
            }
        };
        let core = core::Core::new(store, clock, random, supervisor, &access, identity);
        let server = Self { core, access };
        bootstrap::run(&server.core).await.map_err(OpenError::Bootstrap)?;
        definitions::install(&server.core).await.map_err(OpenError::Bootstrap)?;
        definitions::start(&server.core);
        controllers::start(&server.core);
        Ok(server)
    }

    /// Returns the identity of the data directory: the same after a restart, and different from that of any other directory.
    pub fn identity(&self) -> &str {
        &self.core.identity
    }

    /// Returns the service that answers requests in this process, for `kube::Client::new`.
    pub fn service(&self) -> Service {
        Service::new(Arc::clone(&self.core))
    }

    /// Returns a client that needs no socket.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), "default")
    }

    /// Delegates a group and version to a service: it gets every request below `/apis/GROUP/VERSION`, discovery
    /// included, with the [`Caller`] among the request's extensions.
    pub fn delegate(&self, group: &str, version: &str, service: Delegate) {
        self.core.delegates.add(group, version, service);
    }

    /// Returns a handle for what runs beside the server and ends with it.
    pub fn handle(&self) -> Handle {
        Handle { core: Arc::clone(&self.core) }
    }

    /// Listens on an address, with TLS and the token. Port 0 takes a free one.
    pub async fn listen(&self, address: SocketAddr) -> Result<Listening, AccessError> {
        listen::listen(Arc::clone(&self.core), &self.access, address).await
    }

    /// Writes a kubeconfig for a port that is listened on, readable by its owner only.
    pub fn write_kubeconfig(&self, path: &Path, listening: &Listening) -> Result<(), AccessError> {
        self.access.write_kubeconfig(path, &listening.url())
    }

    /// Returns the certificate that clients trust, as PEM.
    pub fn ca_pem(&self) -> &str {
        self.access.ca_pem()
    }

    /// Ends every watch, commits the writes in progress, and releases the data directory.
    pub fn stop(&self) {
        self.core.stop();
    }
}

/// What a part that runs beside an API server needs of it.
#[derive(Clone)]
pub struct Handle {
    core: Arc<core::Core>,
}

impl Handle {
    /// Returns a client that needs no socket.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(Service::new(Arc::clone(&self.core)), "default")
    }

    /// Returns the clock of the server.
    pub fn clock(&self) -> &Clock {
        &self.core.clock
    }

    /// Returns the server's source of random numbers.
    pub fn random(&self) -> &Random {
        &self.core.random
    }

    /// Returns the supervisor of the server's tasks.
    pub fn supervisor(&self) -> &Supervisor {
        &self.core.supervisor
    }

    /// Returns the identity of the data directory.
    pub fn identity(&self) -> &str {
        &self.core.identity
    }

    /// Returns a signal that becomes true when the server stops.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.core.stopping()
    }

    /// Sets how the kubelets of nodes are reached; `None`: they cannot be.
    pub fn set_node_proxy(&self, proxy: Option<Arc<dyn NodeProxy>>) {
        self.core.set_node_proxy(proxy);
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.stop();
    }
}
