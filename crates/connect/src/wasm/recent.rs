//! A cache of the most recently used entries, bounded by number and bytes.

use std::collections::HashMap;

pub(super) struct LruCache<V> {
    entries: HashMap<String, Entry<V>>,
    bytes: usize,
    most: usize,
    most_bytes: usize,
    uses: u64,
}

struct Entry<V> {
    value: V,
    bytes: usize,
    used: u64,
}

impl<V> LruCache<V> {
    pub(super) fn new(most: usize, most_bytes: usize) -> Self {
        Self { entries: HashMap::new(), bytes: 0, most, most_bytes, uses: 0 }
    }

    /// Finds an entry, which counts as used then.
    pub(super) fn get(&mut self, key: &str) -> Option<&V> {
        self.uses += 1;
        let entry = self.entries.get_mut(key)?;
        entry.used = self.uses;
        Some(&entry.value)
    }

    /// Keeps an entry in place of an earlier one. Others go, those that were not used for the longest time first, until
    /// there is room for it.
    pub(super) fn insert(&mut self, key: String, value: V, bytes: usize) {
        self.remove(&key);
        while self.entries.len() >= self.most || self.bytes.saturating_add(bytes) > self.most_bytes
        {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            self.remove(&oldest);
        }
        self.uses += 1;
        self.bytes += bytes;
        self.entries.insert(key, Entry { value, bytes, used: self.uses });
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<V> {
        let entry = self.entries.remove(key)?;
        self.bytes -= entry.bytes;
        Some(entry.value)
    }

    /// Keeps only the entries whose key is wanted.
    pub(super) fn retain(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.entries.retain(|key, _| is_wanted(key));
        self.bytes = self.entries.values().map(|entry| entry.bytes).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_entry_is_evicted_first() {
        let mut recent = LruCache::new(2, 100);
        recent.insert("a".to_owned(), 1, 40);
        recent.insert("b".to_owned(), 2, 40);
        assert_eq!(recent.get("a"), Some(&1));
        recent.insert("c".to_owned(), 3, 40);
        assert_eq!(recent.get("b"), None, "two at most");
        assert_eq!(recent.get("a"), Some(&1));
        recent.insert("d".to_owned(), 4, 70);
        assert_eq!(recent.get("c"), None, "100 bytes at most");
        assert_eq!(recent.get("a"), None, "neither of them fits beside it");
        recent.retain(|key| key != "d");
        recent.insert("e".to_owned(), 5, 100);
        assert_eq!(recent.remove("e"), Some(5));
    }
}
