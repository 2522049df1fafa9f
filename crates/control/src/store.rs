//! What objects of a kind are there, as far as we know?
//!
//! A store follows a watch, and takes in the answer to each write of ours before the watch tells about it: what a controller did, the
//! next turn sees. Versions decide which of two is newer.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Debug;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::unreadable::Skipped;
use crate::{Key, Lenient};

/// How long the first failure of a row waits; each further one waits twice as long.
const FIRST_RETRY: Duration = Duration::from_millis(50);
/// The longest wait after a failure.
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// What a store keeps of an object.
pub trait Entry: Send + Sync + Sized + 'static {
    /// The object that it is read from.
    type Object: Resource<DynamicType = ()>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static;
    /// Keeps what is needed of an object.
    fn of(object: Self::Object) -> Self;
    /// Gives the object's metadata.
    fn meta(&self) -> &ObjectMeta;
}

/// Is told what was there and what is there now, in the order of changes. It must be quick, and must not look into the store.
type Hook<E> = Box<dyn Fn(Option<&Arc<E>>, Option<&Arc<E>>) + Send + Sync>;

/// The objects of one kind.
pub struct Store<E: Entry> {
    state: RwLock<State<E>>,
    hooks: RwLock<Vec<Hook<E>>>,
    synced: watch::Sender<bool>,
}

struct State<E> {
    entries: HashMap<Key, Held<E>>,
    by_owner: HashMap<Arc<str>, BTreeSet<Key>>,
    /// The newest version that the watch has told about.
    seen: u64,
    /// What the list now under way has named.
    listed: Option<HashSet<Key>>,
    /// The objects that cannot be read.
    skipped: Skipped,
}

struct Held<E> {
    entry: Arc<E>,
    version: u64,
}

impl<E: Entry> Default for Store<E> {
    fn default() -> Self {
        let (entries, by_owner) = (HashMap::new(), HashMap::new());
        let skipped = Skipped::new(E::Object::kind(&()));
        let state = State { entries, by_owner, seen: 0, listed: None, skipped };
        Self {
            state: RwLock::new(state),
            hooks: RwLock::default(),
            synced: watch::Sender::new(false),
        }
    }
}

impl<E: Entry> Store<E> {
    /// Gives an object.
    pub fn get(&self, key: &Key) -> Option<Arc<E>> {
        self.read().entries.get(key).map(|held| Arc::clone(&held.entry))
    }

    /// Gives every object.
    pub fn all(&self) -> Vec<Arc<E>> {
        self.read().entries.values().map(|held| Arc::clone(&held.entry)).collect()
    }

    /// Gives what `with` makes of each object that the object with this uid controls, in the order of their names.
    pub fn owned<T>(&self, uid: &str, with: impl Fn(&Arc<E>) -> T) -> Vec<T> {
        let state = self.read();
        let keys = state.by_owner.get(uid).into_iter().flatten();
        keys.filter_map(|key| state.entries.get(key)).map(|held| with(&held.entry)).collect()
    }

    /// Takes in the answer to a write of ours.
    pub fn put(&self, object: E::Object) {
        let version = version(object.meta());
        let mut state = self.write();
        // The watch is past it: it has told about this write, and perhaps of the object's end.
        if version > state.seen {
            self.apply(&mut state, object);
        }
    }

    /// Takes in that an object is gone, as the answer to a request said.
    pub fn forget(&self, key: &Key, uid: Option<&str>) {
        let mut state = self.write();
        let is_it = |held: &Held<E>| held.entry.meta().uid.as_deref() == uid;
        if state.entries.get(key).is_some_and(is_it) {
            self.remove(&mut state, key);
        }
    }

    /// Tells `hook` of every change from now on.
    pub fn on_change(
        &self,
        hook: impl Fn(Option<&Arc<E>>, Option<&Arc<E>>) + Send + Sync + 'static,
    ) {
        self.hooks.write().unwrap_or_else(PoisonError::into_inner).push(Box::new(hook));
    }

    /// Waits until everything that is there is known.
    pub async fn synced(&self) {
        let mut synced = self.synced.subscribe();
        // It fails only when the store is gone, and then nobody waits.
        let _ = synced.wait_for(|synced| *synced).await;
    }

    /// Follows a watch for as long as it is polled. An object that cannot be read is passed over: what was known of it stays.
    pub async fn follow(&self, api: Api<Lenient<E::Object>>, config: watcher::Config) {
        let mut events = pin!(watcher(api, config));
        let mut retry_after = FIRST_RETRY;
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    self.take(event);
                    retry_after = FIRST_RETRY;
                }
                Err(error) => {
                    let kind = E::Object::kind(&());
                    tracing::warn!(
                        error = %crate::error::explain(&error),
                        %kind,
                        ?retry_after,
                        "watch failed; will retry"
                    );
                    tokio::time::sleep(retry_after).await;
                    retry_after = (retry_after * 2).min(LONGEST_RETRY);
                }
            }
        }
    }

    fn take(&self, event: Event<Lenient<E::Object>>) {
        let mut state = self.write();
        match event {
            Event::Init => state.listed = Some(HashSet::new()),
            Event::InitApply(object) => {
                let key = Key::of(object.meta());
                state.listed.get_or_insert_default().insert(key);
                self.see(&mut state, object);
            }
            Event::InitDone => {
                let listed = state.listed.take().unwrap_or_default();
                let is_gone = |(key, held): &(&Key, &Held<E>)| {
                    !listed.contains(*key) && held.version <= state.seen
                };
                let gone: Vec<Key> =
                    state.entries.iter().filter(is_gone).map(|(key, _)| key.clone()).collect();
                gone.iter().for_each(|key| self.remove(&mut state, key));
                state.skipped.retain(&listed);
                self.synced.send_replace(true);
            }
            Event::Apply(object) => self.see(&mut state, object),
            Event::Delete(object) => {
                let (key, version) = (Key::of(object.meta()), version(object.meta()));
                state.seen = state.seen.max(version);
                state.skipped.remove(&key);
                if state.entries.get(&key).is_some_and(|held| held.version <= version) {
                    self.remove(&mut state, &key);
                }
            }
        }
    }

    fn see(&self, state: &mut State<E>, object: Lenient<E::Object>) {
        state.seen = state.seen.max(version(object.meta()));
        let key = Key::of(object.meta());
        match object.readable() {
            Some(object) => {
                state.skipped.remove(&key);
                self.apply(state, object);
            }
            None => state.skipped.insert(key),
        }
    }

    fn apply(&self, state: &mut State<E>, object: E::Object) {
        let (key, version) = (Key::of(object.meta()), version(object.meta()));
        if state.entries.get(&key).is_some_and(|held| held.version >= version) {
            return;
        }
        let entry = Arc::new(E::of(object));
        let held = Held { entry: Arc::clone(&entry), version };
        let old = state.entries.insert(key.clone(), held).map(|held| held.entry);
        let (was, is) = (old.as_deref().and_then(owner), owner(&*entry));
        if was != is {
            was.inspect(|uid| state.disown(uid, &key));
            is.inspect(|uid| state.own(uid, &key));
        }
        self.tell(old.as_ref(), Some(&entry));
    }

    fn remove(&self, state: &mut State<E>, key: &Key) {
        let Some(held) = state.entries.remove(key) else { return };
        owner(&*held.entry).inspect(|uid| state.disown(uid, key));
        self.tell(Some(&held.entry), None);
    }

    fn tell(&self, old: Option<&Arc<E>>, new: Option<&Arc<E>>) {
        let hooks = self.hooks.read().unwrap_or_else(PoisonError::into_inner);
        hooks.iter().for_each(|hook| hook(old, new));
    }

    fn read(&self) -> RwLockReadGuard<'_, State<E>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<E>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E> State<E> {
    fn own(&mut self, uid: &str, key: &Key) {
        self.by_owner.entry(uid.into()).or_default().insert(key.clone());
    }

    fn disown(&mut self, uid: &str, key: &Key) {
        if let Some(keys) = self.by_owner.get_mut(uid) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_owner.remove(uid);
            }
        }
    }
}

/// Gives the uid of the object that controls this one.
pub(crate) fn owner(entry: &impl Entry) -> Option<&str> {
    let owners = entry.meta().owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str())
}

/// Versions are numbers that grow, on every engine since Kubernetes 1.35 said so; one that is not is older than all.
fn version(meta: &ObjectMeta) -> u64 {
    meta.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
