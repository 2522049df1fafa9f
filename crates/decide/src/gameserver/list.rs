//! A list of distinct words with a capacity, and what may be done to it.

use std::collections::BTreeSet;
use std::sync::Arc;

/// The largest capacity a list may be given.
pub const MOST_VALUES: i64 = 1000;

/// One list of a game server, or of its template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// How many values it may hold.
    pub capacity: i64,
    /// The values, in the order in which they came.
    pub values: Vec<Arc<str>>,
}

impl List {
    /// Counts the values.
    pub fn len(&self) -> i64 {
        i64::try_from(self.values.len()).unwrap_or(i64::MAX)
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Gives the room that is left.
    pub fn available(&self) -> i64 {
        self.capacity.saturating_sub(self.len())
    }
}

/// A capacity that no list may have; the list stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange(
    /// The capacity that was asked for.
    pub i64,
);

impl List {
    /// Sets the capacity with an allocation's rules, and cuts the values down to it.
    pub fn set_capacity(&mut self, capacity: i64) -> Result<(), OutOfRange> {
        if !(0..=MOST_VALUES).contains(&capacity) {
            return Err(OutOfRange(capacity));
        }
        self.capacity = capacity;
        self.truncate();
        Ok(())
    }

    /// Adds the values that are not there yet; what does not fit is cut off without a word.
    pub fn append(&mut self, values: &[Arc<str>]) {
        let mut seen: BTreeSet<&Arc<str>> = BTreeSet::new();
        let all = self.values.iter().chain(values).filter(|value| seen.insert(value));
        self.values = all.cloned().collect();
        self.truncate();
    }

    /// Takes the values away that are there.
    pub fn delete(&mut self, values: &[Arc<str>]) {
        let gone: BTreeSet<&Arc<str>> = values.iter().collect();
        self.values.retain(|value| !gone.contains(value));
    }

    /// Whether the value is there.
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
    fn appending_keeps_order_drops_repeats_and_cuts_off() {
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
    fn deleting_ignores_what_is_not_there() {
        let mut one = list(4, "a b c");
        one.delete(&words("b x"));
        assert_eq!(one, list(4, "a c"));
    }

    #[test]
    fn a_capacity_is_within_what_lists_may_have_and_cuts_values() {
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
