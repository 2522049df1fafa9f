//! What every request shares: the store, what is served, the clock.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use process::Clock;
use tokio::sync::watch;

use crate::access::Access;
use crate::delegate::Delegates;
use crate::resource::{Registry, Resource};
use crate::rest::Addresses;
use crate::runtime::logs::Logs;
use crate::store::Store;

/// The inside of an engine.
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) clock: Clock,
    /// Which data directory the engine uses; one that uses none has its own.
    pub(crate) identity: String,
    pub(crate) delegates: Delegates,
    /// What the containers of pods said.
    pub(crate) logs: Logs,
    /// The certificate that clients trust.
    pub(crate) ca_pem: String,
    /// What a client has to know.
    token: String,
    stopping: watch::Sender<bool>,
    /// The addresses that services have.
    pub(crate) addresses: Addresses,
    /// The definitions whose deletion is being carried out.
    terminating: Mutex<BTreeSet<String>>,
}

impl Core {
    pub(crate) fn new(store: Store, clock: Clock, access: &Access, identity: String) -> Arc<Self> {
        Arc::new(Self {
            store,
            registry: Registry::built_in(),
            clock,
            identity,
            delegates: Delegates::default(),
            logs: Logs::default(),
            ca_pem: access.ca_pem().to_owned(),
            token: access.token.clone(),
            stopping: watch::Sender::new(false),
            addresses: Addresses::default(),
            terminating: Mutex::default(),
        })
    }

    /// Tells whether a client knows what it has to know, in a time that says nothing about how much of it.
    pub(crate) fn is_token(&self, said: &str) -> bool {
        let (known, said) = (self.token.as_bytes(), said.as_bytes());
        let differs = known.iter().zip(said).fold(0, |differs, (a, b)| differs | (a ^ b));
        known.len() == said.len() && differs == 0
    }

    /// Gives a signal that turns true when the engine stops.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    /// Returns the definitions whose deletion is being carried out.
    pub(crate) fn terminating(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.terminating.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends every watch and closes the store.
    pub(crate) fn stop(&self) {
        self.stopping.send_replace(true);
        self.store.close();
    }

    /// Takes notice of a change to a kind that decides what is served.
    pub(crate) fn notice(self: &Arc<Self>, resource: &Resource) {
        if resource.is("apiextensions.k8s.io", "CustomResourceDefinition") {
            crate::crd::sync(self);
            let core = Arc::clone(self);
            tokio::spawn(async move { crate::crd::settle(&core).await });
        }
    }
}
