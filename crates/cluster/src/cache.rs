//! An informer cache: the objects of one kind, as the API server last reported them.
//!
//! A cache follows a watch, and also takes in the answer to each write of this process before the watch delivers it: the next
//! reconciliation sees what the previous one did. Resource versions decide which of two objects is newer. An object is decoded once:
//! what is not newer than the held entry, as the watch's echo of an own write, is dropped by its version.

mod contents;
mod subscription;

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

use crate::Key;
use crate::undecoded::Undecoded;
use crate::watch::watch_reporting;
use contents::{Contents, Versioned};
use subscription::Subscribers;
pub use subscription::Subscription;

/// The part of an object that a cache keeps.
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

    /// Makes an entry from the JSON text of an object.
    fn decode(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text).map(Self::from_object)
    }

    /// Keeps the JSON text that the entry was decoded from. Called only by a cache that keeps texts.
    #[expect(clippy::boxed_local, reason = "entries that keep the text own it")]
    fn with_text(self, _text: Box<str>) -> Self {
        self
    }

    /// Returns the object's metadata.
    fn meta(&self) -> &ObjectMeta;
}

/// The objects of one kind.
pub struct Cache<E: CacheEntry> {
    contents: RwLock<Contents<E>>,
    subscribers: Arc<Subscribers<E>>,
    progress: watch::Sender<Progress>,
    keeps_text: bool,
}

/// How far the watch has come.
#[derive(Clone, Copy, Default)]
struct Progress {
    /// How many lists are complete.
    lists: u64,
    /// Whether a request has failed.
    has_failed: bool,
}

impl<E: CacheEntry> Default for Cache<E> {
    fn default() -> Self {
        Self {
            contents: RwLock::new(Contents::default()),
            subscribers: Arc::default(),
            progress: watch::Sender::default(),
            keeps_text: false,
        }
    }
}

impl<E: CacheEntry> Cache<E> {
    /// Returns a cache whose entries keep the JSON text of their objects, if `keeps_text`.
    pub fn new(keeps_text: bool) -> Self {
        Self { keeps_text, ..Self::default() }
    }

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

    /// Returns how many objects are skipped at present because they cannot be decoded.
    pub fn unreadable(&self) -> usize {
        self.read().unreadable.len()
    }

    /// Decodes the answer to a request, without inserting it. The text is kept if this cache keeps texts.
    pub fn decode(&self, text: String) -> serde_json::Result<Arc<E>> {
        let entry = E::decode(&text)?;
        Ok(Arc::new(if self.keeps_text { entry.with_text(text.into_boxed_str()) } else { entry }))
    }

    /// Inserts the answer to a write of this process.
    pub fn insert(&self, object: E::Object) {
        self.insert_entry(Arc::new(E::from_object(object)));
    }

    /// Inserts the answer to a request of this process.
    pub fn insert_entry(&self, entry: Arc<E>) {
        let (key, version) = (Key::from_meta(entry.meta()), resource_version(entry.meta()));
        let mut contents = self.write();
        let is_held = |held: &Versioned<E>| held.entry.meta().uid == entry.meta().uid;
        // Otherwise the watch is past it: it has delivered this write, and the object's deletion.
        if version > contents.watched || contents.entries.get(&key).is_some_and(is_held) {
            self.apply(&mut contents, key, version, entry);
        }
    }

    /// Removes an object that a request reported as not found.
    pub fn remove(&self, key: &Key, uid: Option<&str>) {
        let mut contents = self.write();
        let is_it = |held: &Versioned<E>| held.entry.meta().uid.as_deref() == uid;
        if contents.entries.get(key).is_some_and(is_it) {
            self.drop_entry(&mut contents, key);
        }
    }

    /// Calls `subscriber` with the old and the new entry of each change, in order, until the returned guard is dropped; first with every
    /// object that is present, as if it were new. It must be quick and must not use the cache, which is locked in the meantime.
    pub fn subscribe(
        &self,
        subscriber: impl Fn(Option<&Arc<E>>, Option<&Arc<E>>) + Send + Sync + 'static,
    ) -> Subscription {
        // Nothing changes for as long as this is held.
        let contents = self.read();
        contents.entries.values().for_each(|held| subscriber(None, Some(&held.entry)));
        self.subscribers.add(Box::new(subscriber))
    }

    /// Waits until the first list is complete.
    pub async fn synced(&self) {
        self.progress(|progress| progress.lists > 0).await;
    }

    /// Waits until the first list is complete or a request for it has failed.
    pub async fn synced_or_failed(&self) {
        self.progress(|progress| progress.lists > 0 || progress.has_failed).await;
    }

    /// Waits until more than `known` lists are complete, and returns how many are.
    pub async fn next_list(&self, known: u64) -> u64 {
        self.progress(|progress| progress.lists > known).await.lists
    }

    async fn progress(&self, is_enough: impl FnMut(&Progress) -> bool) -> Progress {
        let mut progress = self.progress.subscribe();
        let found = progress.wait_for(is_enough).await.map(|progress| *progress);
        // It fails only when the cache was dropped, and then nothing waits for it.
        found.unwrap_or_default()
    }

    /// Follows a watch for as long as it is polled. An object that cannot be decoded is skipped: its last known state stays.
    pub async fn run(
        &self,
        api: Api<Undecoded<E::Object>>,
        config: watcher::Config,
        random: &Random,
    ) {
        let failed = || {
            self.progress
                .send_if_modified(|progress| !std::mem::replace(&mut progress.has_failed, true));
        };
        let mut events = pin!(watch_reporting(api, config, random.clone(), failed));
        while let Some(event) = events.next().await {
            self.handle(event);
        }
    }

    fn handle(&self, event: Event<Undecoded<E::Object>>) {
        match event {
            Event::Init => self.write().begin_list(),
            Event::InitApply(object) => {
                let key = Key::from_meta(object.meta());
                self.write().listed.get_or_insert_default().insert(key);
                self.observe(object);
            }
            Event::InitDone => self.finish_list(),
            Event::Apply(object) => self.observe(object),
            Event::Delete(object) => {
                let key = Key::from_meta(object.meta());
                let version = resource_version(object.meta());
                let mut contents = self.write();
                contents.watched = contents.watched.max(version);
                contents.unreadable.remove(&key);
                if contents.entries.get(&key).is_some_and(|held| held.version <= version) {
                    self.drop_entry(&mut contents, &key);
                }
            }
        }
    }

    /// Removes what the complete list does not name.
    fn finish_list(&self) {
        let mut contents = self.write();
        for key in contents.finish_list() {
            self.drop_entry(&mut contents, &key);
        }
        drop(contents);
        self.progress.send_modify(|progress| progress.lists += 1);
    }

    /// Inserts an object that the watch has delivered. It is decoded only if it is newer than the held entry, and without the lock.
    fn observe(&self, object: Undecoded<E::Object>) {
        let (key, version) = (Key::from_meta(object.meta()), resource_version(object.meta()));
        if self.write().skip_known(&key, version) {
            return;
        }
        let decoded = E::decode(object.text());
        let mut contents = self.write();
        contents.watched = contents.watched.max(version);
        match decoded {
            Ok(entry) => {
                contents.unreadable.remove(&key);
                let entry =
                    if self.keeps_text { entry.with_text(object.into_text()) } else { entry };
                self.apply(&mut contents, key, version, Arc::new(entry));
            }
            Err(reason) => {
                object.log_unreadable(&reason);
                contents.unreadable.insert(key);
            }
        }
    }

    fn apply(&self, contents: &mut Contents<E>, key: Key, version: u64, entry: Arc<E>) {
        if !contents.holds(&key, version) {
            let old = contents.replace(key, version, Arc::clone(&entry));
            self.subscribers.notify(old.as_ref(), Some(&entry));
        }
    }

    fn drop_entry(&self, contents: &mut Contents<E>, key: &Key) {
        if let Some(old) = contents.remove(key) {
            self.subscribers.notify(Some(&old), None);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Contents<E>> {
        self.contents.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Contents<E>> {
        self.contents.write().unwrap_or_else(PoisonError::into_inner)
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
