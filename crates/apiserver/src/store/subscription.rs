//! Subscriptions to the changes of a collection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use super::Shared;

/// The subscribers, by collection.
#[derive(Default)]
pub(super) struct Subscribers {
    collections: BTreeMap<Arc<str>, Subscribed>,
    /// The number of the last one.
    last: u64,
}

struct Subscribed {
    signal: watch::Sender<u64>,
    /// Up to which version each of them has read.
    read: BTreeMap<u64, Arc<AtomicU64>>,
}

impl Subscribers {
    /// Wakes the subscribers of collections, which have reached these versions.
    pub(super) fn wake(&self, reached: BTreeMap<Arc<str>, u64>) {
        for (collection, version) in reached {
            if let Some(subscribed) = self.collections.get(&collection) {
                subscribed.signal.send_replace(version);
            }
        }
    }

    /// Returns the version up to which all subscribers have read a collection, except those that missed a change up to `missed`.
    pub(super) fn read_to(&self, collection: &str, missed: u64) -> u64 {
        let read = self.collections.get(collection).into_iter().flat_map(|s| s.read.values());
        let read = read.map(|version| version.load(Ordering::Relaxed));
        read.filter(|version| *version >= missed).min().unwrap_or(u64::MAX)
    }
}

/// A position in the changes of a collection.
pub(crate) struct Subscription {
    shared: Arc<Shared>,
    collection: Arc<str>,
    number: u64,
    read: Arc<AtomicU64>,
    changed: watch::Receiver<u64>,
}

impl Subscription {
    pub(super) fn new(shared: &Arc<Shared>, collection: &Arc<str>, version: u64) -> Self {
        let read = Arc::new(AtomicU64::new(version));
        let (shared, collection) = (Arc::clone(shared), Arc::clone(collection));
        let (number, changed) = {
            let mut subscribers = shared.subscribers();
            subscribers.last += 1;
            let number = subscribers.last;
            let subscribed =
                subscribers.collections.entry(Arc::clone(&collection)).or_insert_with(|| {
                    Subscribed { signal: watch::channel(0).0, read: BTreeMap::new() }
                });
            subscribed.read.insert(number, Arc::clone(&read));
            (number, subscribed.signal.subscribe())
        };
        Self { shared, collection, number, read, changed }
    }

    /// Records that everything up to a version was read.
    pub(crate) fn reach(&self, version: u64) {
        self.read.store(version, Ordering::Relaxed);
    }

    /// Waits until the collection changes; `None` when the store is gone.
    pub(crate) async fn changed(&mut self) -> Option<()> {
        self.changed.changed().await.ok()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(subscribed) = self.shared.subscribers().collections.get_mut(&self.collection) {
            subscribed.read.remove(&self.number);
        }
    }
}
