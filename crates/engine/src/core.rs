//! What every request shares: the store, what is served, the clock.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use process::{Clock, Supervised, Supervisor};
use tokio::sync::{Notify, watch};

use crate::access::Access;
use crate::delegate::Delegates;
use crate::node_proxy::NodeProxy;
use crate::rest::Addresses;
use crate::store::Store;
use apimachinery::resource::{Registry, Resource};

/// The inside of an engine.
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) clock: Clock,
    pub(crate) supervisor: Supervisor,
    /// What runs until the engine stops.
    tasks: Mutex<Vec<Supervised>>,
    /// Which data directory the engine uses; one that uses none has its own.
    pub(crate) identity: String,
    pub(crate) delegates: Delegates,
    /// How kubelets are reached; `None`: no node can be.
    node_proxy: Mutex<Option<Arc<dyn NodeProxy>>>,
    /// The certificate that clients trust.
    pub(crate) ca_pem: String,
    /// What a client has to know.
    token: String,
    stopping: watch::Sender<bool>,
    /// The addresses that services have.
    pub(crate) addresses: Addresses,
    /// Says that a CustomResourceDefinition was written.
    pub(crate) definition_written: Notify,
    /// The definitions whose deletion is being carried out.
    terminating: Mutex<BTreeSet<String>>,
}

impl Core {
    pub(crate) fn new(
        store: Store,
        clock: Clock,
        supervisor: Supervisor,
        access: &Access,
        identity: String,
    ) -> Arc<Self> {
        Arc::new(Self {
            store,
            registry: Registry::built_in(),
            clock,
            supervisor,
            tasks: Mutex::default(),
            identity,
            delegates: Delegates::default(),
            node_proxy: Mutex::default(),
            ca_pem: access.ca_pem().to_owned(),
            token: access.token.clone(),
            stopping: watch::Sender::new(false),
            addresses: Addresses::default(),
            definition_written: Notify::new(),
            terminating: Mutex::default(),
        })
    }

    /// Tells whether a client knows what it has to know, in a time that says nothing about how much of it.
    pub(crate) fn is_token(&self, said: &str) -> bool {
        let (known, said) = (self.token.as_bytes(), said.as_bytes());
        let differs = known.iter().zip(said).fold(0, |differs, (a, b)| differs | (a ^ b));
        known.len() == said.len() && differs == 0
    }

    /// Returns how kubelets are reached.
    pub(crate) fn node_proxy(&self) -> Option<Arc<dyn NodeProxy>> {
        self.node_proxy.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets how kubelets are reached.
    pub(crate) fn set_node_proxy(&self, proxy: Option<Arc<dyn NodeProxy>>) {
        *self.node_proxy.lock().unwrap_or_else(PoisonError::into_inner) = proxy;
    }

    /// Keeps a task until the engine stops.
    pub(crate) fn keep(&self, task: Supervised) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task);
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
        self.supervisor.stop();
        self.stopping.send_replace(true);
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.store.close();
    }

    /// Takes notice of a change to a kind that decides what is served.
    pub(crate) fn notice(self: &Arc<Self>, resource: &Resource) {
        if resource.is("apiextensions.k8s.io", "CustomResourceDefinition") {
            crate::definitions::sync(self);
            self.definition_written.notify_one();
        }
    }
}
