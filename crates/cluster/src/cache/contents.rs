//! The entries of a cache, by key and by owner, with the versions that the watch has delivered.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::{CacheEntry, owner};
use crate::Key;

/// Everything that a cache guards with its lock.
pub(super) struct Contents<E> {
    pub(super) entries: HashMap<Key, Versioned<E>>,
    pub(super) by_owner: HashMap<Arc<str>, BTreeSet<Key>>,
    /// The newest version that the watch has delivered.
    pub(super) watched: u64,
    /// The keys of the list in progress.
    pub(super) listed: Option<HashSet<Key>>,
    /// How many lists have begun.
    lists: u64,
    /// The objects that cannot be decoded.
    pub(super) unreadable: HashSet<Key>,
}

/// An entry with the version of its object.
pub(super) struct Versioned<E> {
    pub(super) entry: Arc<E>,
    pub(super) version: u64,
    /// How many lists had begun when it was inserted.
    lists: u64,
}

impl<E> Default for Contents<E> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            by_owner: HashMap::new(),
            watched: 0,
            listed: None,
            lists: 0,
            unreadable: HashSet::new(),
        }
    }
}

impl<E: CacheEntry> Contents<E> {
    /// Whether an object is held at this version or a newer one.
    pub(super) fn holds(&self, key: &Key, version: u64) -> bool {
        self.entries.get(key).is_some_and(|held| held.version >= version)
    }

    /// Records that the watch has delivered a version, if the object is held at that version or a newer one; returns whether it is.
    pub(super) fn skip_known(&mut self, key: &Key, version: u64) -> bool {
        let is_known = self.holds(key, version);
        if is_known {
            self.watched = self.watched.max(version);
        }
        is_known
    }

    /// Replaces an entry, and returns the old one.
    pub(super) fn replace(&mut self, key: Key, version: u64, entry: Arc<E>) -> Option<Arc<E>> {
        let held = Versioned { entry: Arc::clone(&entry), version, lists: self.lists };
        let old = self.entries.insert(key.clone(), held).map(|held| held.entry);
        let (was, is) = (old.as_deref().and_then(owner), owner(&*entry));
        if was != is {
            was.inspect(|uid| self.unlink(uid, &key));
            is.inspect(|uid| self.link(uid, &key));
        }
        old
    }

    /// Removes and returns an entry.
    pub(super) fn remove(&mut self, key: &Key) -> Option<Arc<E>> {
        let held = self.entries.remove(key)?;
        owner(&*held.entry).inspect(|uid| self.unlink(uid, key));
        Some(held.entry)
    }

    /// Begins a list.
    pub(super) fn begin_list(&mut self) {
        self.listed = Some(HashSet::new());
        self.lists += 1;
    }

    /// Ends the list, and returns the objects that it does not name. An object that this process wrote after the list began may be
    /// newer than the list; one from before it was deleted while no watch was open.
    pub(super) fn finish_list(&mut self) -> Vec<Key> {
        let listed = self.listed.take().unwrap_or_default();
        self.unreadable.retain(|key| listed.contains(key));
        let is_gone = |(key, held): &(&Key, &Versioned<E>)| {
            let may_be_newer = held.version > self.watched && held.lists == self.lists;
            !listed.contains(*key) && !may_be_newer
        };
        self.entries.iter().filter(is_gone).map(|(key, _)| key.clone()).collect()
    }

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
