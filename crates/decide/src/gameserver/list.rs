//! Lists of distinct values with a capacity.

use std::collections::BTreeSet;
use std::sync::Arc;

/// The largest capacity of a list.
pub const MOST_VALUES: i64 = 1000;

/// One list of a game server, or of its template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// The maximum number of values.
    pub capacity: i64,
    /// The values, in insertion order.
    pub values: Vec<Arc<str>>,
}

impl List {
    /// Returns the number of values.
    pub fn len(&self) -> i64 {
        i64::try_from(self.values.len()).unwrap_or(i64::MAX)
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the free capacity.
    pub fn available(&self) -> i64 {
        self.capacity.saturating_sub(self.len())
    }
}

/// An invalid capacity; the list stays unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange(
    /// The requested capacity.
    pub i64,
);

impl List {
    /// Sets the capacity as an allocation does, and truncates the values to it.
    pub fn set_capacity(&mut self, capacity: i64) -> Result<(), OutOfRange> {
        if !(0..=MOST_VALUES).contains(&capacity) {
            return Err(OutOfRange(capacity));
        }
        self.capacity = capacity;
        self.truncate();
        Ok(())
    }

    /// Appends the values that are not in the list; values beyond the capacity are dropped silently.
    pub fn append(&mut self, values: &[Arc<str>]) {
        let mut distinct: BTreeSet<&Arc<str>> = BTreeSet::new();
        let all = self.values.iter().chain(values).filter(|value| distinct.insert(value));
        self.values = all.cloned().collect();
        self.truncate();
    }

    /// Deletes values.
    pub fn delete(&mut self, values: &[Arc<str>]) {
        let gone: BTreeSet<&Arc<str>> = values.iter().collect();
        self.values.retain(|value| !gone.contains(value));
    }

    /// Returns whether the list contains a value.
    pub fn contains(&self, value: &str) -> bool {
        self.values.iter().any(|v| **v == *value)
    }

    pub(super) fn truncate(&mut self) {
        self.values.truncate(usize::try_from(self.capacity).unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Arc<str>> {
        text.split_whitespace().map(Arc::from).collect()
    }

    fn list(capacity: i64, values: &str) -> List {
        List { capacity, values: words(values) }
    }

    #[test]
    fn appending_keeps_order_drops_duplicates_and_truncates() {
        for (before, add, after) in [
            ("a b", "c", "a b c"),
            ("a b", "b a", "a b"),
            ("a b", "c c d e", "a b c d"),
            ("a a b", "c", "a b c"),
            ("a b c d", "e", "a b c d"),
        ] {
            let mut one = list(4, before);
            one.append(&words(add));
            assert_eq!(one, list(4, after), "{before} and {add}");
        }
    }

    #[test]
    fn deleting_ignores_missing_values() {
        let mut one = list(4, "a b c");
        one.delete(&words("b x"));
        assert_eq!(one, list(4, "a c"));
    }

    #[test]
    fn a_capacity_must_be_in_range_and_truncates_values() {
        let mut one = list(4, "a b c");
        one.set_capacity(2).unwrap();
        assert_eq!(one, list(2, "a b"));
        assert_eq!(one.set_capacity(1001), Err(OutOfRange(1001)));
        assert_eq!(one.set_capacity(-1), Err(OutOfRange(-1)));
        assert_eq!(one, list(2, "a b"));
        one.set_capacity(0).unwrap();
        assert_eq!(one, list(0, ""));
    }
}
