//! The pods of the kubelet's nodes, in their latest known versions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cluster::{Key, resource_version};
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use tokio::sync::Notify;

/// One pod; a later one with the same name has another entry.
pub(crate) struct PodEntry {
    pub(crate) key: Key,
    pub(crate) uid: Arc<str>,
    latest: Mutex<Arc<Pod>>,
    /// Notified when another version is known. Only the task of the pod waits for it.
    pub(crate) updated: Notify,
    /// The status that was written last. The lock is held while writing, so that statuses stay in order.
    pub(crate) written: tokio::sync::Mutex<Option<Value>>,
}

impl PodEntry {
    fn new(pod: Arc<Pod>) -> Self {
        let key = Key::from_meta(&pod.metadata);
        let uid = pod.metadata.uid.as_deref().unwrap_or_default().into();
        let (latest, written) = (Mutex::new(pod), tokio::sync::Mutex::default());
        Self { key, uid, latest, updated: Notify::new(), written }
    }

    /// Returns the latest known version of the pod.
    pub(crate) fn latest(&self) -> Arc<Pod> {
        Arc::clone(&self.latest.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Stores a version of the pod, unless a newer one is known.
    pub(crate) fn update(&self, pod: Arc<Pod>) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if resource_version(&pod.metadata) >= resource_version(&latest.metadata) {
            *latest = pod;
            self.updated.notify_one();
        }
    }
}

/// Pods by namespace and name.
#[derive(Default)]
pub(crate) struct PodIndex(Mutex<BTreeMap<Key, Arc<PodEntry>>>);

impl PodIndex {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<PodEntry>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a version of a pod.
    pub(crate) fn insert(&self, pod: Arc<Pod>) -> Arc<PodEntry> {
        let mut entries = self.entries();
        let key = Key::from_meta(&pod.metadata);
        if let Some(entry) = entries.get(&key)
            && pod.metadata.uid.as_deref() == Some(&*entry.uid)
        {
            entry.update(pod);
            return Arc::clone(entry);
        }
        let entry = Arc::new(PodEntry::new(pod));
        entries.insert(key, Arc::clone(&entry));
        entry
    }

    /// Returns the pod with a name.
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<PodEntry>> {
        self.entries().get(key).cloned()
    }

    /// Removes a pod, unless another one has its name by now.
    pub(crate) fn remove(&self, key: &Key, uid: &str) {
        let mut entries = self.entries();
        if entries.get(key).is_some_and(|entry| &*entry.uid == uid) {
            entries.remove(key);
        }
    }

    /// Removes all pods but those for which `keep` holds.
    pub(crate) fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.entries().retain(|_, entry| keep(&entry.uid));
    }

    /// Lists all pods.
    pub(crate) fn list(&self) -> Vec<Arc<Pod>> {
        self.entries().values().map(|entry| entry.latest()).collect()
    }
}
