//! Which objects are skipped at present because they cannot be read?
//!
//! Several stores of a process may follow the same kind, so objects are counted for the process: each once, for as long as
//! any store skips it.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Key;

/// By kind and key: how many stores skip the object.
static SKIPPED: Mutex<BTreeMap<(String, Key), usize>> = Mutex::new(BTreeMap::new());

/// Returns how many objects of each kind are skipped at present; a kind of which none is has no entry.
pub fn unreadable_objects() -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for (kind, _) in skipped().keys() {
        *kinds.entry(kind.clone()).or_default() += 1;
    }
    kinds
}

/// The objects that one store skips. They are no longer counted when it is dropped.
pub(crate) struct Skipped {
    kind: String,
    keys: HashSet<Key>,
}

impl Skipped {
    pub(crate) fn new(kind: impl Into<String>) -> Self {
        Self { kind: kind.into(), keys: HashSet::new() }
    }

    pub(crate) fn insert(&mut self, key: Key) {
        if self.keys.insert(key.clone()) {
            *skipped().entry((self.kind.clone(), key)).or_default() += 1;
        }
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        if self.keys.remove(key) {
            release(&self.kind, [key.clone()]);
        }
    }

    /// Removes all but those that a list has named.
    pub(crate) fn retain(&mut self, listed: &HashSet<Key>) {
        release(&self.kind, self.keys.extract_if(|key| !listed.contains(key)));
    }
}

impl Drop for Skipped {
    fn drop(&mut self) {
        release(&self.kind, self.keys.drain());
    }
}

fn skipped() -> MutexGuard<'static, BTreeMap<(String, Key), usize>> {
    SKIPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn release(kind: &str, keys: impl IntoIterator<Item = Key>) {
    let mut skipped = skipped();
    for key in keys {
        let place = (kind.to_owned(), key);
        match skipped.get_mut(&place) {
            Some(stores) if *stores > 1 => *stores -= 1,
            _ => drop(skipped.remove(&place)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_counts_once_for_as_long_as_any_store_skips_it() {
        let count = || unreadable_objects().get("Thing").copied();
        let (mut first, mut second) = (Skipped::new("Thing"), Skipped::new("Thing"));
        let (a, b) = (Key::new("n", "a"), Key::new("n", "b"));
        first.insert(a.clone());
        first.insert(a.clone());
        second.insert(a.clone());
        second.insert(b.clone());
        assert_eq!(count(), Some(2));
        first.remove(&a);
        first.remove(&a);
        assert_eq!(count(), Some(2), "the other still skips it");
        second.retain(&HashSet::from([b]));
        assert_eq!(count(), Some(1));
        drop((first, second));
        assert_eq!(count(), None);
    }
}
