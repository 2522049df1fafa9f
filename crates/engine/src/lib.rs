//! The embedded engine: an API server, a scheduler and a kubelet in one process.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = plimsoll_engine::Engine::open(plimsoll_engine::Settings::ephemeral()).await?;
//! let client = engine.client();
//! # Ok(()) }
//! ```

mod metrics;
mod node_proxy;
mod run;

use std::ops::Deref;

pub use apiserver::{
    AccessError, Body, Caller, Delegate, History, Listening, OpenError, Service, Settings,
    StoreError,
};
pub use run::{RunError, Runtime};

use apiserver::ApiServer;

/// An API server that can also run pods. It has all methods of [`ApiServer`].
pub struct Engine {
    server: ApiServer,
}

impl Engine {
    /// Opens an engine. It runs on the present tokio runtime until it is dropped.
    pub async fn open(settings: Settings) -> Result<Self, OpenError> {
        Ok(Self { server: ApiServer::open(settings).await? })
    }

    /// Schedules and runs pods. Without it pods stay as they are, as with an API server alone.
    pub async fn run(&self, settings: kubelet::Settings) -> Result<Runtime, RunError> {
        run::start(self.server.handle(), settings).await
    }
}

impl Deref for Engine {
    type Target = ApiServer;

    fn deref(&self) -> &ApiServer {
        &self.server
    }
}
