//! The networks of the pods that run on this machine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::PodNetwork;

/// Networks by the uid of their pods. A network is gone once its pod has ended.
#[derive(Default)]
pub(crate) struct NetworkIndex(Mutex<BTreeMap<Arc<str>, Weak<PodNetwork>>>);

impl NetworkIndex {
    fn networks(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Weak<PodNetwork>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the network of a pod, and removes those that are gone.
    pub(crate) fn insert(&self, uid: Arc<str>, network: &Arc<PodNetwork>) {
        let mut networks = self.networks();
        networks.retain(|_, network| network.strong_count() > 0);
        networks.insert(uid, Arc::downgrade(network));
    }

    /// Returns the network of a pod.
    pub(crate) fn get(&self, uid: &str) -> Option<Arc<PodNetwork>> {
        self.networks().get(uid).and_then(Weak::upgrade)
    }
}
