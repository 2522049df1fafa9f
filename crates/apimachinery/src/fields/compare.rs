//! Compares two objects field by field.

use super::element;
use super::set::{Set, SetNode};
use super::typing::{Atom, atom, atoms, entry};
use crate::members;
use crate::schema::Shape;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The fields in which a new object differs from an old one.
#[derive(Debug, Default)]
pub struct Comparison {
    pub removed: Set,
    pub modified: Set,
    pub added: Set,
}

impl Comparison {
    /// Drops paths that start with one of the given paths.
    pub fn ignore(&mut self, ignored: &Set) {
        self.removed.remove_subtrees(ignored);
        self.modified.remove_subtrees(ignored);
        self.added.remove_subtrees(ignored);
    }
}

/// Compares two objects of one shape.
pub fn compare(old: &Value, new: &Value, shape: Option<Shape<'_>>) -> Comparison {
    let difference = differ(Some(old), Some(new), shape);
    Comparison {
        removed: difference.removed.children,
        modified: difference.modified.children,
        added: difference.added.children,
    }
}

#[derive(Default)]
struct Difference {
    removed: SetNode,
    modified: SetNode,
    added: SetNode,
}

impl Difference {
    /// Inserts the differences below an element; the element is not even formatted when there are none.
    fn put(&mut self, element: impl Fn() -> Box<str>, below: Self) {
        let parts = [
            (&mut self.removed, below.removed),
            (&mut self.modified, below.modified),
            (&mut self.added, below.added),
        ];
        for (part, below) in parts.into_iter().filter(|(_, below)| !below.is_empty()) {
            part.children.put(element(), below);
        }
    }
}

fn differ(old: Option<&Value>, new: Option<&Value>, shape: Option<Shape<'_>>) -> Difference {
    // Most of an object is unchanged, and an equality check is cheaper than a walk.
    if old == new { Difference::default() } else { differences(old, new, shape) }
}

fn differences(old: Option<&Value>, new: Option<&Value>, shape: Option<Shape<'_>>) -> Difference {
    let (kind, are_alike) = atoms(shape, old, new);
    let mut difference = differ_as(kind, old, new);
    // A value of unknown type may change from a scalar to a map or back: then it differs as both.
    if !are_alike {
        let other = differ_as(atom(shape, old), old, new);
        difference.removed.is_member |= other.removed.is_member;
        difference.modified.is_member |= other.modified.is_member;
        difference.removed.children.add(&other.removed.children);
    }
    match (old, new) {
        (None, Some(_)) => difference.added.is_member = true,
        (Some(_), None) => difference.removed.is_member = true,
        _ => {}
    }
    difference
}

fn differ_as(kind: Atom<'_>, old: Option<&Value>, new: Option<&Value>) -> Difference {
    match kind {
        Atom::Leaf => leaf(old, new),
        Atom::Map(shape) => {
            let (left, right) = (map_of(old), map_of(new));
            if left.is_none_or(Map::is_empty) && right.is_none_or(Map::is_empty) {
                return leaf(old, new);
            }
            maps(left, right, shape)
        }
        Atom::List(list) => {
            let (left, right) = (list_of(old), list_of(new));
            if left.is_empty() && right.is_empty() {
                return leaf(old, new);
            }
            lists(left, right, list)
        }
    }
}

fn map_of(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

fn list_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn leaf(old: Option<&Value>, new: Option<&Value>) -> Difference {
    let mut difference = Difference::default();
    difference.modified.is_member = matches!((old, new), (Some(old), Some(new)) if old != new);
    difference
}

fn maps(
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
    shape: Option<Shape<'_>>,
) -> Difference {
    let mut difference = Difference::default();
    for (name, left, right) in members::changed(old, new) {
        let below = differences(left, right, entry(shape, name).0);
        difference.put(|| element::field(name), below);
    }
    difference
}

fn lists(old: &[Value], new: &[Value], list: Shape<'_>) -> Difference {
    let (left, right) = (by_element(old, list), by_element(new, list));
    let mut difference = Difference::default();
    let fresh = right.keys().filter(|element| !left.contains_key(*element));
    for element in left.keys().chain(fresh) {
        let (left, right) = (items_at(&left, element), items_at(&right, element));
        let mut below = match (left, right) {
            ([_, _, ..], [_, _, ..]) => {
                let mut below = Difference::default();
                below.modified.is_member = left != right;
                below
            }
            ([_, _, ..], right) => {
                right.first().map(|item| differ(None, Some(item), list.items())).unwrap_or_default()
            }
            (left, [_, _, ..]) => {
                left.first().map(|item| differ(Some(item), None, list.items())).unwrap_or_default()
            }
            (left, right) => differ(left.first().copied(), right.first().copied(), list.items()),
        };
        below.removed.is_member |= left.len() > 1 && right.len() < 2;
        below.added.is_member |= right.len() > 1 && left.len() < 2;
        difference.put(|| element.clone(), below);
    }
    difference
}

fn items_at<'a, 'b>(
    items: &'b BTreeMap<Box<str>, Vec<&'a Value>>,
    element: &str,
) -> &'b [&'a Value] {
    items.get(element).map_or(&[], Vec::as_slice)
}

fn by_element<'a>(items: &'a [Value], list: Shape<'_>) -> BTreeMap<Box<str>, Vec<&'a Value>> {
    let mut by_element: BTreeMap<Box<str>, Vec<&'a Value>> = BTreeMap::new();
    for item in items {
        if let Ok(element) = element::item(list, item) {
            by_element.entry(element).or_default().push(item);
        }
    }
    by_element
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Types;
    use serde_json::json;

    #[test]
    fn each_difference_is_listed_once_at_its_path() {
        let old = json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"containers": [
            {"name": "x", "image": "1"}, {"name": "y", "args": ["1"]}]}});
        let new = json!({"metadata": {"labels": {"a": "9", "c": "3"}}, "spec": {"containers": [
            {"name": "y", "args": ["2"]}, {"name": "z", "image": "1"}]}});
        let difference = compare(&old, &new, Types::builtin().kind("", "v1", "Pod"));
        assert_eq!(
            json!(difference.modified),
            json!({"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:containers": {"k:{\"name\":\"y\"}": {"f:args": {}}}}})
        );
        assert_eq!(
            json!(difference.added),
            json!({"f:metadata": {"f:labels": {"f:c": {}}}, "f:spec": {"f:containers": {"k:{\"name\":\"z\"}":
                {".": {}, "f:name": {}, "f:image": {}}}}})
        );
        assert_eq!(
            json!(difference.removed),
            json!({"f:metadata": {"f:labels": {"f:b": {}}}, "f:spec": {"f:containers": {"k:{\"name\":\"x\"}":
                {".": {}, "f:name": {}, "f:image": {}}}}})
        );
    }

    #[test]
    fn a_value_that_becomes_a_map_is_modified_and_its_entries_added() {
        let difference = compare(&json!({"a": 1}), &json!({"a": {"b": 1}}), None);
        assert_eq!(json!(difference.modified), json!({"f:a": {}}));
        assert_eq!(json!(difference.added), json!({"f:a": {"f:b": {}}}));
    }
}
