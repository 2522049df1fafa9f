//! Subscribers of a cache; each is removed when its guard is dropped.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Receives the old and the new entry of a change.
type Subscriber<E> = Box<dyn Fn(Option<&Arc<E>>, Option<&Arc<E>>) + Send + Sync>;

/// The subscribers of a cache, in the order in which they subscribed.
pub(super) struct Subscribers<E> {
    inner: RwLock<NumberedSubscribers<E>>,
}

struct NumberedSubscribers<E> {
    last: u64,
    by_number: BTreeMap<u64, Subscriber<E>>,
}

impl<E> Default for Subscribers<E> {
    fn default() -> Self {
        Self { inner: RwLock::new(NumberedSubscribers { last: 0, by_number: BTreeMap::new() }) }
    }
}

impl<E: Send + Sync + 'static> Subscribers<E> {
    pub(super) fn add(self: &Arc<Self>, subscriber: Subscriber<E>) -> Subscription {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.last += 1;
        let number = inner.last;
        inner.by_number.insert(number, subscriber);
        let subscribers = Arc::downgrade(self);
        Subscription {
            end: Some(Box::new(move || {
                if let Some(subscribers) = subscribers.upgrade() {
                    subscribers.remove(number);
                }
            })),
        }
    }

    pub(super) fn notify(&self, old: Option<&Arc<E>>, new: Option<&Arc<E>>) {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.by_number.values().for_each(|subscriber| subscriber(old, new));
    }

    fn remove(&self, number: u64) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let subscriber = inner.by_number.remove(&number);
        // What the subscriber owns is dropped without the lock.
        drop(inner);
        drop(subscriber);
    }
}

/// A subscription to a cache. It ends when this is dropped: no call begins afterwards, and none is in progress. It must not be dropped by a
/// subscriber.
#[must_use = "a subscription ends when this is dropped"]
pub struct Subscription {
    end: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end();
        }
    }
}
