//! Compares the members of two JSON objects.
//!
//! Members are sorted by name, so two objects are compared in one pass over both, without lookups.

use std::cmp::Ordering;
use std::iter::Peekable;

use serde_json::{Map, Value, map};

/// The members of an object's previous version, for one pass over the members of the new one.
pub struct OldMembers<'a>(Option<Peekable<map::Iter<'a>>>);

impl<'a> OldMembers<'a> {
    pub fn new(old: Option<&'a Value>) -> Self {
        Self(old.and_then(Value::as_object).map(|old| old.iter().peekable()))
    }

    /// Returns the previous value of a member. Members must be requested in the order of their names.
    pub fn get(&mut self, name: &str) -> Option<&'a Value> {
        let rest = self.0.as_mut()?;
        while let Some((next, _)) = rest.peek() {
            match next.as_str().cmp(name) {
                Ordering::Less => drop(rest.next()),
                Ordering::Equal => return rest.next().map(|(_, value)| value),
                Ordering::Greater => return None,
            }
        }
        None
    }
}

type Pair<'a> = (&'a String, Option<&'a Value>, Option<&'a Value>);

/// Returns each member that differs, with its old and new value.
pub fn changed<'a>(
    old: Option<&'a Map<String, Value>>,
    new: Option<&'a Map<String, Value>>,
) -> impl Iterator<Item = Pair<'a>> {
    let mut left = old.into_iter().flatten().peekable();
    let mut right = new.into_iter().flatten().peekable();
    let pairs = std::iter::from_fn(move || {
        let order = match (left.peek(), right.peek()) {
            (Some((was, _)), Some((is, _))) => was.cmp(is),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return None,
        };
        let was = if order == Ordering::Greater { None } else { left.next() };
        let is = if order == Ordering::Less { None } else { right.next() };
        let (name, _) = was.or(is)?;
        Some((name, was.map(|(_, value)| value), is.map(|(_, value)| value)))
    });
    pairs.filter(|(_, was, is)| was != is)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn all_changed_members_are_found_in_one_pass() {
        let (old, new) = (json!({"z": 0, "b": 1, "c": 2}), json!({"z": 0, "c": 3, "a": 4}));
        let found: Vec<_> = changed(old.as_object(), new.as_object()).collect();
        let (one, two, three, four) = (json!(1), json!(2), json!(3), json!(4));
        let wanted =
            [("a", None, Some(&four)), ("b", Some(&one), None), ("c", Some(&two), Some(&three))];
        let found: Vec<_> = found.into_iter().map(|(n, was, is)| (n.as_str(), was, is)).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn members_are_sorted_by_name() {
        // A dependency that enables `preserve_order` of serde_json for the whole build would silently break this module.
        let object = json!({"b": 1, "a": 2});
        let names: Vec<&String> = object.as_object().unwrap().keys().collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn old_members_are_found_in_one_pass() {
        let (old, new) = (json!({"z": 0, "b": 1, "c": 2}), json!({"z": 5, "a": 3, "c": 4}));
        let mut before = OldMembers::new(Some(&old));
        let were: Vec<_> =
            new.as_object().unwrap().iter().map(|(name, _)| before.get(name).cloned()).collect();
        assert_eq!(were, [None, Some(json!(2)), Some(json!(0))]);
        assert_eq!(OldMembers::new(None).get("a"), None);
        assert_eq!(OldMembers::new(Some(&json!("a"))).get("a"), None);
    }
}
