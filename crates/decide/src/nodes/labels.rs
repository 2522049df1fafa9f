//! Labels in a compact form, sorted by key: a cluster has hundreds of thousands of them.

/// Labels of a pod, a node or a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Box<[(Box<str>, Box<str>)]>);

impl Labels {
    /// Returns the value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        // Most objects have a handful of labels: a linear scan is faster than a search.
        self.0.iter().find(|(k, _)| &**k == key).map(|(_, v)| &**v)
    }

    /// Returns the labels, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (&**k, &**v))
    }

    /// Returns the same labels with `key` set to `value`.
    #[must_use]
    pub fn with(&self, key: &str, value: &str) -> Self {
        self.iter().chain([(key, value)]).collect()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Collects labels; the last of several values for one key wins.
impl<K: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut all: Vec<(Box<str>, Box<str>)> =
            pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        // Most come from a sorted map.
        if !all.is_sorted_by(|a, b| a.0 < b.0) {
            all.reverse();
            all.sort_by(|a, b| a.0.cmp(&b.0));
            all.dedup_by(|later, earlier| later.0 == earlier.0);
        }
        Self(all.into_boxed_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_of_a_key_wins_and_keys_are_sorted() {
        let labels: Labels = [("b", "1"), ("a", "2"), ("b", "3")].into_iter().collect();
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("a", "2"), ("b", "3")]);
        assert_eq!(labels.with("a", "9").get("a"), Some("9"));
        assert_eq!(labels.get("c"), None);
    }
}
