//! An informer cache: the objects of one kind, as the API server last reported them.
//!
//! A cache follows a watch, and also takes in the answer to each write of this process before the watch delivers it: the next
//! reconciliation sees what the previous one did. Resource versions decide which of two objects is newer.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Debug;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use futures::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use process::Random;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::unreadable::Skipped;
use crate::watch::watch as watch_events;
use crate::{Key, Lenient};

/// What a cache keeps of an object.
pub trait CacheEntry: Send + Sync + Sized + 'static {
    /// The object that it is made from.
    type Object: Resource<DynamicType = ()>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static;
    /// Makes an entry from an object.
    fn from_object(object: Self::Object) -> Self;
    /// Returns the object's metadata.
    fn meta(&self) -> &ObjectMeta;
}

/// Receives the old and the new entry of each change, in order. It must be quick, and must not read the cache.
type Subscriber<E> = Box<dyn Fn(Option<&Arc<E>>, Option<&Arc<E>>) + Send + Sync>;

/// The objects of one kind.
pub struct Cache<E: CacheEntry> {
    contents: RwLock<Contents<E>>,
    subscribers: RwLock<Vec<Subscriber<E>>>,
    synced: watch::Sender<bool>,
}

struct Contents<E> {
    entries: HashMap<Key, Versioned<E>>,
    by_owner: HashMap<Arc<str>, BTreeSet<Key>>,
    /// The newest version that the watch has delivered.
    watched: u64,
    /// The keys of the list in progress.
    listed: Option<HashSet<Key>>,
    /// How many lists have begun.
    lists: u64,
    /// The objects that cannot be decoded.
    skipped: Skipped,
}

struct Versioned<E> {
    entry: Arc<E>,
    version: u64,
    /// How many lists had begun when it was inserted.
    lists: u64,
}

impl<E: CacheEntry> Default for Cache<E> {
    fn default() -> Self {
        let contents = Contents {
            entries: HashMap::new(),
            by_owner: HashMap::new(),
            watched: 0,
            listed: None,
            lists: 0,
            skipped: Skipped::new(E::Object::kind(&())),
        };
        Self {
            contents: RwLock::new(contents),
            subscribers: RwLock::default(),
            synced: watch::Sender::new(false),
        }
    }
}

impl<E: CacheEntry> Cache<E> {
    /// Returns an object.
    pub fn get(&self, key: &Key) -> Option<Arc<E>> {
        self.read().entries.get(key).map(|held| Arc::clone(&held.entry))
    }

    /// Returns every object.
    pub fn all(&self) -> Vec<Arc<E>> {
        self.read().entries.values().map(|held| Arc::clone(&held.entry)).collect()
    }

    /// Maps each object that the object with this uid controls, in the order of their names.
    pub fn owned<T>(&self, uid: &str, map: impl Fn(&Arc<E>) -> T) -> Vec<T> {
        let contents = self.read();
        let keys = contents.by_owner.get(uid).into_iter().flatten();
        keys.filter_map(|key| contents.entries.get(key)).map(|held| map(&held.entry)).collect()
    }

    /// Inserts the answer to a write of this process.
    pub fn insert(&self, object: E::Object) {
        let mut contents = self.write();
        // The watch is past it: it has delivered this write, and perhaps the object's deletion.
        if resource_version(object.meta()) > contents.watched {
            self.apply(&mut contents, object);
        }
    }

    /// Removes an object that a request has found to be gone.
    pub fn remove(&self, key: &Key, uid: Option<&str>) {
        let mut contents = self.write();
        let is_it = |held: &Versioned<E>| held.entry.meta().uid.as_deref() == uid;
        if contents.entries.get(key).is_some_and(is_it) {
            self.drop_entry(&mut contents, key);
        }
    }

    /// Calls `subscriber` with every change from now on.
    pub fn subscribe(
        &self,
        subscriber: impl Fn(Option<&Arc<E>>, Option<&Arc<E>>) + Send + Sync + 'static,
    ) {
        let mut subscribers = self.subscribers.write().unwrap_or_else(PoisonError::into_inner);
        subscribers.push(Box::new(subscriber));
    }

    /// Waits until the first list is complete.
    pub async fn synced(&self) {
        let mut synced = self.synced.subscribe();
        // It fails only when the cache is gone, and then nothing waits for it.
        let _ = synced.wait_for(|synced| *synced).await;
    }

    /// Follows a watch for as long as it is polled. An object that cannot be decoded is skipped: its last known state stays.
    pub async fn run(
        &self,
        api: Api<Lenient<E::Object>>,
        config: watcher::Config,
        random: &Random,
    ) {
        let mut events = pin!(watch_events(api, config, random.clone()));
        while let Some(event) = events.next().await {
            self.handle(event);
        }
    }

    fn handle(&self, event: Event<Lenient<E::Object>>) {
        let mut contents = self.write();
        match event {
            Event::Init => {
                contents.listed = Some(HashSet::new());
                contents.lists += 1;
            }
            Event::InitApply(object) => {
                let key = Key::from_meta(object.meta());
                contents.listed.get_or_insert_default().insert(key);
                self.observe(&mut contents, object);
            }
            Event::InitDone => self.finish_list(&mut contents),
            Event::Apply(object) => self.observe(&mut contents, object),
            Event::Delete(object) => {
                let key = Key::from_meta(object.meta());
                let version = resource_version(object.meta());
                contents.watched = contents.watched.max(version);
                contents.skipped.remove(&key);
                if contents.entries.get(&key).is_some_and(|held| held.version <= version) {
                    self.drop_entry(&mut contents, &key);
                }
            }
        }
    }

    /// Removes what the complete list does not name. An object that this process wrote after the list began may be newer than the
    /// list; one from before it was deleted while no watch was open.
    fn finish_list(&self, contents: &mut Contents<E>) {
        let listed = contents.listed.take().unwrap_or_default();
        let is_gone = |(key, held): &(&Key, &Versioned<E>)| {
            let may_be_newer = held.version > contents.watched && held.lists == contents.lists;
            !listed.contains(*key) && !may_be_newer
        };
        let gone: Vec<Key> =
            contents.entries.iter().filter(is_gone).map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| self.drop_entry(contents, key));
        contents.skipped.retain(&listed);
        self.synced.send_replace(true);
    }

    fn observe(&self, contents: &mut Contents<E>, object: Lenient<E::Object>) {
        contents.watched = contents.watched.max(resource_version(object.meta()));
        let key = Key::from_meta(object.meta());
        match object.readable() {
            Some(object) => {
                contents.skipped.remove(&key);
                self.apply(contents, object);
            }
            None => contents.skipped.insert(key),
        }
    }

    fn apply(&self, contents: &mut Contents<E>, object: E::Object) {
        let (key, version) = (Key::from_meta(object.meta()), resource_version(object.meta()));
        if contents.entries.get(&key).is_some_and(|held| held.version >= version) {
            return;
        }
        let entry = Arc::new(E::from_object(object));
        let held = Versioned { entry: Arc::clone(&entry), version, lists: contents.lists };
        let old = contents.entries.insert(key.clone(), held).map(|held| held.entry);
        let (was, is) = (old.as_deref().and_then(owner), owner(&*entry));
        if was != is {
            was.inspect(|uid| contents.unlink(uid, &key));
            is.inspect(|uid| contents.link(uid, &key));
        }
        self.notify(old.as_ref(), Some(&entry));
    }

    fn drop_entry(&self, contents: &mut Contents<E>, key: &Key) {
        let Some(held) = contents.entries.remove(key) else { return };
        owner(&*held.entry).inspect(|uid| contents.unlink(uid, key));
        self.notify(Some(&held.entry), None);
    }

    fn notify(&self, old: Option<&Arc<E>>, new: Option<&Arc<E>>) {
        let subscribers = self.subscribers.read().unwrap_or_else(PoisonError::into_inner);
        subscribers.iter().for_each(|subscriber| subscriber(old, new));
    }

    fn read(&self) -> RwLockReadGuard<'_, Contents<E>> {
        self.contents.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Contents<E>> {
        self.contents.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E> Contents<E> {
    fn link(&mut self, uid: &str, key: &Key) {
        self.by_owner.entry(uid.into()).or_default().insert(key.clone());
    }

    fn unlink(&mut self, uid: &str, key: &Key) {
        if let Some(keys) = self.by_owner.get_mut(uid) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_owner.remove(uid);
            }
        }
    }
}

/// Returns the uid of the controlling owner.
pub fn owner(entry: &impl CacheEntry) -> Option<&str> {
    let owners = entry.meta().owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str())
}

/// Returns the resource version as a number. Kubernetes guarantees since 1.35 that versions are growing numbers; one that is not counts
/// as the oldest.
pub fn resource_version(meta: &ObjectMeta) -> u64 {
    meta.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
