//! The state that all requests share: the store, the registry of resources, the clock.

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
use crate::tokens::TokenKey;
use apimachinery::resource::Registry;

/// The shared state of an API server.
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) supervisor: Supervisor,
    /// Tasks that run until the server stops.
    tasks: Mutex<Vec<Supervised>>,
    /// The identity of the data directory; random for a server without one.
    pub(crate) identity: String,
    pub(crate) delegates: Delegates,
    /// Connects to kubelets; `None`: no node can be reached.
    node_proxy: Mutex<Option<Arc<dyn NodeProxy>>>,
    /// The CA certificate.
    pub(crate) ca_pem: String,
    /// The bearer token of the administrator.
    token: String,
    /// Signs the tokens of service accounts.
    pub(crate) token_key: TokenKey,
    stopping: watch::Sender<bool>,
    /// The allocated addresses and node ports of Services.
    pub(crate) service_addresses: ServiceAddresses,
    /// Notified when a CustomResourceDefinition was written.
    pub(crate) definition_written: Notify,
    /// The definitions that are being finalized.
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
            token_key: TokenKey::new(&access.token_key),
            stopping: watch::Sender::new(false),
            service_addresses: ServiceAddresses::default(),
            definition_written: Notify::new(),
            terminating: Mutex::default(),
        })
    }

    /// Compares a token with that of the administrator in constant time.
    pub(crate) fn is_admin_token(&self, token: &str) -> bool {
        token.as_bytes().ct_eq(self.token.as_bytes()).into()
    }

    /// Returns the proxy to the kubelets.
    pub(crate) fn node_proxy(&self) -> Option<Arc<dyn NodeProxy>> {
        self.node_proxy.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the proxy to the kubelets.
    pub(crate) fn set_node_proxy(&self, proxy: Option<Arc<dyn NodeProxy>>) {
        *self.node_proxy.lock().unwrap_or_else(PoisonError::into_inner) = proxy;
    }

    /// Owns a task until the server stops.
    pub(crate) fn own_task(&self, task: Supervised) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }

    /// Returns a signal that becomes true when the server stops.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    /// Returns the definitions that are being finalized.
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
