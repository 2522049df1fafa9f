//! The embedded Kubernetes API server: objects on disk, watches from memory, in this process.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let server = plimsoll_apiserver::ApiServer::open(plimsoll_apiserver::Settings::ephemeral()).await?;
//! let client = kube::Client::new(server.service(), "default");
//! # Ok(()) }
//! ```

mod access;
mod authentication;
mod authorization;
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
mod tokens;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use access::AccessError;
pub use api::PodLogOptions;
pub use delegate::Delegate;
pub use listen::Listening;
pub use node_proxy::{ByteStream, ContainerAddress, NodeProxy, NodeProxyError};
pub use request::{Body, Caller};
pub use service::Service;
pub use store::{History, StoreError};

use access::Access;
use process::{Clock, Random, Supervisor};
use store::Store;
use tokio::sync::watch;

/// Settings of an API server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The data directory; `None` stores objects in memory only.
    pub data: Option<PathBuf>,
    /// The clock.
    pub clock: Clock,
    /// Limits of the change history.
    pub history: History,
    /// Supervises the tasks of the server. `/readyz` reports its problems.
    pub supervisor: Supervisor,
    /// The source of uids and generated names.
    pub random: Random,
}

impl Settings {
    /// Stores objects in memory.
    pub fn ephemeral() -> Self {
        Self {
            data: None,
            clock: Clock::system(),
            history: History::default(),
            supervisor: Supervisor::new(),
            random: Random::system(),
        }
    }

    /// Stores objects in a directory.
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
    /// Keys and certificates cannot be generated or stored.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The initial objects of a cluster could not be stored.
    #[error("could not store the initial objects: {0}")]
    Bootstrap(String),
}

/// An API server in this process.
pub struct ApiServer {
    core: Arc<core::Core>,
    access: Access,
}

impl ApiServer {
    /// Opens an API server. It runs on the current tokio runtime until it is dropped.
    pub async fn open(settings: Settings) -> Result<Self, OpenError> {
        let Settings { data, clock, history, supervisor, random } = settings;
        let (store, access, identity) = match &data {
            None => {
                (Store::in_memory(clock.clone(), history), Access::generate()?, identity::random())
            }
            Some(dir) => {
                let failed = |source| StoreError::Io { path: dir.display().to_string(), source };
                files::create_private_directory(dir).map_err(failed)?;
                // The store locks the directory, so it is opened first.
                let store = Store::on_disk(dir, clock.clone(), history, &supervisor)?;
                (
                    store,
                    Access::load_or_create(dir)?,
                    identity::load_or_create(dir).map_err(failed)?,
                )
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

    /// Returns the tower service that handles requests in this process, for `kube::Client::new`.
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

    /// Returns a handle for components that run beside the server and stop with it.
    pub fn handle(&self) -> Handle {
        Handle { core: Arc::clone(&self.core) }
    }

    /// Listens on an address with TLS and bearer token authentication. Port 0 picks a free port.
    pub async fn listen(&self, address: SocketAddr) -> Result<Listening, AccessError> {
        listen::listen(Arc::clone(&self.core), &self.access, address).await
    }

    /// Writes a kubeconfig for a listener, readable by its owner only.
    pub fn write_kubeconfig(&self, path: &Path, listening: &Listening) -> Result<(), AccessError> {
        self.access.write_kubeconfig(path, &listening.url())
    }

    /// Returns the CA certificate as PEM.
    pub fn ca_pem(&self) -> &str {
        self.access.ca_pem()
    }

    /// Ends every watch, commits the writes in progress, and releases the data directory.
    pub fn stop(&self) {
        self.core.stop();
    }
}

/// Access to an API server for other components, which does not keep it open.
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

    /// Delegates a group and version to a service, as [`ApiServer::delegate`] does.
    pub fn delegate(&self, group: &str, version: &str, service: Delegate) {
        self.core.delegates.add(group, version, service);
    }

    /// Sets the proxy to the kubelets; `None`: no node can be reached.
    pub fn set_node_proxy(&self, proxy: Option<Arc<dyn NodeProxy>>) {
        self.core.set_node_proxy(proxy);
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.stop();
    }
}
