//! What every request shares: the store, what is served, the clock.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use process::{Clock, Random, Supervised, Supervisor};
use subtle::ConstantTimeEq as _;
use tokio::sync::{Notify, watch};

use crate::access::Access;
use crate::delegate::Delegates;
use crate::node_proxy::NodeProxy;
use crate::service_addresses::ServiceAddresses;
use crate::store::Store;
use apimachinery::resource::Registry;

/// The inside of an engine.
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
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
    pub(crate) service_addresses: ServiceAddresses,
    /// Says that a CustomResourceDefinition was written.
    pub(crate) definition_written: Notify,
    /// The definitions whose deletion is being carried out.
    terminating: Mutex<BTreeSet<String>>,
}

impl Core {
    pub(crate) fn new(
        store: Store,
        clock: Clock,
        random: Random,
        supervisor: Supervisor,
        access: &Access,
        identity: String,
    ) -> Arc<Self> {
        Arc::new(Self {
            store,
            registry: Registry::built_in(),
            clock,
            random,
            supervisor,
            tasks: Mutex::default(),
            identity,
            delegates: Delegates::default(),
            node_proxy: Mutex::default(),
            ca_pem: access.ca_pem().to_owned(),
            token: access.token.clone(),
            stopping: watch::Sender::new(false),
            service_addresses: ServiceAddresses::default(),
            definition_written: Notify::new(),
            terminating: Mutex::default(),
        })
    }

    /// Compares a token with ours in constant time.
    pub(crate) fn is_token(&self, token: &str) -> bool {
        token.as_bytes().ct_eq(self.token.as_bytes()).into()
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
}
