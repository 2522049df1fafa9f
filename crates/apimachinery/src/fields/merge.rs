//! Merges an applied configuration into a live object.

use super::element;
use super::typing::{Atom, atoms, entry};
use crate::schema::Shape;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Merges `applied` into `live`: fields in both take the applied value; the rest is unchanged.
pub fn merge(live: &Value, applied: &Value, shape: Option<Shape<'_>>) -> Value {
    place(Some(live), Some(applied), shape).unwrap_or_default()
}

fn place(live: Option<&Value>, applied: Option<&Value>, shape: Option<Shape<'_>>) -> Option<Value> {
    match atoms(shape, live, applied).0 {
        Atom::Leaf => applied.or(live).cloned(),
        Atom::Map(shape) => {
            let (left, right) =
                (live.and_then(Value::as_object), applied.and_then(Value::as_object));
            if left.is_none_or(Map::is_empty) && right.is_none_or(Map::is_empty) {
                return applied.or(live).cloned();
            }
            let merged = maps(left, right, shape);
            (!merged.is_empty()).then_some(Value::Object(merged))
        }
        Atom::List(list) => {
            let (left, right) = (items(live), items(applied));
            if left.is_empty() && right.is_empty() {
                return applied.or(live).cloned();
            }
            let merged = lists(left, right, list);
            (!merged.is_empty()).then_some(Value::Array(merged))
        }
    }
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn maps(
    live: Option<&Map<String, Value>>,
    applied: Option<&Map<String, Value>>,
    shape: Option<Shape<'_>>,
) -> Map<String, Value> {
    let names = live.into_iter().chain(applied).flat_map(Map::keys);
    let names: BTreeSet<&String> = names.collect();
    names
        .into_iter()
        .filter_map(|name| {
            let left = live.and_then(|live| live.get(name));
            let right = applied.and_then(|applied| applied.get(name));
            let merged = place(left, right, entry(shape, name).0)?;
            Some((name.clone(), merged))
        })
        .collect()
}

/// Merges two lists item by item: applied items keep their order among themselves, live ones stay next to their
/// neighbours.
fn lists(live: &[Value], applied: &[Value], list: Shape<'_>) -> Vec<Value> {
    let left = Indexed::new(live, list);
    let right = Indexed::new(applied, list);
    let mut shared: VecDeque<&str> =
        right.order.iter().map(AsRef::as_ref).filter(|element| left.contains(element)).collect();
    let mut merged: BTreeSet<&str> = BTreeSet::new();
    let mut out = Vec::with_capacity(live.len().max(applied.len()));
    let (mut l, mut r) = (0, 0);
    while l < left.order.len() || r < right.order.len() {
        if let (Some(mine), Some(theirs)) = (left.order.get(l), right.order.get(r)) {
            if mine == theirs {
                merged.insert(mine);
                out.extend(place(left.get(mine), right.get(mine), list.items()));
                (l, r) = (l + 1, r + 1);
                shared.pop_front();
                continue;
            }
            if right.contains(mine) && shared.front().is_some_and(|next| *next != mine.as_ref()) {
                l += 1;
                continue;
            }
        }
        if let Some(mine) = left.order.get(l) {
            if !right.contains(mine) {
                out.extend(place(live.get(l), None, list.items()));
                l += 1;
                continue;
            }
            if merged.contains(mine.as_ref()) {
                l += 1;
            }
        }
        if let Some(theirs) = right.order.get(r) {
            merged.insert(theirs);
            out.extend(place(left.get(theirs), right.get(theirs), list.items()));
            r += 1;
            if shared.front().is_some_and(|next| *next == theirs.as_ref()) {
                shared.pop_front();
            }
        }
    }
    out
}

struct Indexed<'a> {
    order: Vec<Box<str>>,
    items: BTreeMap<Box<str>, Option<&'a Value>>,
}

impl<'a> Indexed<'a> {
    fn new(items: &'a [Value], list: Shape<'_>) -> Self {
        let mut indexed = Self { order: Vec::with_capacity(items.len()), items: BTreeMap::new() };
        for item in items {
            // An item without identity keeps its position under a unique name.
            let element = element::item(list, item)
                .unwrap_or_else(|_| format!("?:{}", indexed.order.len()).into());
            // Items with equal keys are merged as if they had no identity.
            let known = if indexed.items.contains_key(&element) { None } else { Some(item) };
            indexed.items.insert(element.clone(), known);
            indexed.order.push(element);
        }
        indexed
    }

    fn contains(&self, element: &str) -> bool {
        self.items.contains_key(element)
    }

    fn get(&self, element: &str) -> Option<&'a Value> {
        self.items.get(element).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Types;
    use serde_json::json;

    fn containers(names: &str) -> Value {
        json!({"spec": {"containers": names.chars().map(|name| json!({"name": name.to_string()})).collect::<Vec<_>>()}})
    }

    #[test]
    fn applied_items_keep_their_order_and_live_ones_their_neighbours() {
        for (live, applied, wanted) in [
            ("ab", "ab", "ab"),
            ("ab", "ba", "ba"),
            ("abc", "c", "abc"),
            ("abc", "ca", "bca"),
            ("abc", "x", "abcx"),
            ("ab", "xb", "axb"),
            ("", "ab", "ab"),
            ("ab", "", "ab"),
        ] {
            let merged = merge(
                &containers(live),
                &containers(applied),
                Types::builtin().kind("", "v1", "Pod"),
            );
            assert_eq!(merged, containers(wanted), "{applied} over {live}");
        }
    }

    #[test]
    fn applied_values_win_and_the_rest_stays() {
        let live = json!({"data": {"a": "1", "b": "2"}, "metadata": {"finalizers": ["x"]}});
        let applied = json!({"data": {"b": "3", "c": "4"}, "metadata": {"finalizers": ["y"]}});
        let merged = merge(&live, &applied, Types::builtin().kind("", "v1", "ConfigMap"));
        assert_eq!(
            merged,
            json!({"data": {"a": "1", "b": "3", "c": "4"}, "metadata": {"finalizers": ["x", "y"]}})
        );
    }
}
