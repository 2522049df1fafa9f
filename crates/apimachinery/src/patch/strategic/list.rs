//! Merges and orders lists under a strategic merge patch.

use super::{DIRECTIVE, JsonMap, ORDER, merge_map, unknown_directive, without_directives};
use crate::patch::{Error, go_type, go_value};
use crate::schema::Shape;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Merges two lists whose field declares the merge strategy, or deletes the patch's items.
pub(super) fn merge(
    original: Vec<Value>,
    patch: Vec<Value>,
    field: Option<Shape<'_>>,
    deletes: bool,
) -> Result<Vec<Value>, Error> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    if !holds_maps(&original, &patch)? {
        if deletes {
            let removed: HashSet<&Value> = patch.iter().collect();
            return Ok(original.into_iter().filter(|item| !removed.contains(item)).collect());
        }
        let mut known = HashSet::new();
        let all = original.iter().chain(&patch);
        let merged = all.filter(|item| known.insert(*item)).cloned().collect();
        return arrange(merged, &patch, &original, None);
    }
    let key = field.and_then(Shape::merge_key).ok_or_else(no_key_declared)?;
    let (original, patch) = take_directives(original, patch, key)?;
    let merged = merge_maps(original.clone(), &patch, key, field.and_then(Shape::items))?;
    arrange(merged, &patch, &original, Some(key))
}

fn no_key_declared() -> Error {
    Error::Unexpected("cannot merge lists without merge key for struct".into())
}

/// Returns whether the items are objects; all items must be of one type.
fn holds_maps(original: &[Value], patch: &[Value]) -> Result<bool, Error> {
    let mut items = original.iter().chain(patch);
    let Some(first) = items.next() else {
        return Err(Error::Unexpected("no elements in any of the given slices".into()));
    };
    if first.is_array() {
        return Err(Error::DoesNotApply("lists of lists are not supported".into()));
    }
    if items.any(|item| go_type(item) != go_type(first)) {
        let lists = Value::Array(vec![Value::from(original), Value::from(patch)]);
        return Err(Error::Unexpected(format!(
            "list element types are not identical: {}",
            go_value(&lists)
        )));
    }
    Ok(first.is_object())
}

/// Applies the `$patch` directives among the items of a patch and returns the lists without them.
fn take_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut removed = HashSet::new();
    let mut replaces = false;
    for item in patch {
        match item.get(DIRECTIVE).map(|directive| directive.as_str()) {
            None => plain.push(item),
            Some(Some("delete")) => {
                removed.insert(key_of(&item, key)?.clone());
            }
            Some(Some("replace")) => replaces = true,
            Some(Some("merge")) => {
                return Err(Error::Unexpected(
                    "merging lists cannot yet be specified in the patch".into(),
                ));
            }
            Some(_) => return Err(unknown_directive(item.as_object().unwrap_or(&JsonMap::new()))),
        }
    }
    original.retain(|item| item.get(key).is_none_or(|identity| !removed.contains(identity)));
    if replaces { Ok((plain, Vec::new())) } else { Ok((original, plain)) }
}

fn key_of<'a>(item: &'a Value, key: &str) -> Result<&'a Value, Error> {
    item.get(key).ok_or_else(|| {
        Error::Unexpected(format!(
            "map: {} does not contain declared merge key: {key}",
            go_value(item)
        ))
    })
}

fn merge_maps(
    mut original: Vec<Value>,
    patch: &[Value],
    key: &str,
    items: Option<Shape<'_>>,
) -> Result<Vec<Value>, Error> {
    let mut places: HashMap<Value, usize> = HashMap::new();
    for (index, item) in original.iter().enumerate() {
        if let Some(identity) = item.get(key) {
            places.entry(identity.clone()).or_insert(index);
        }
    }
    for item in patch {
        let identity = key_of(item, key)?;
        let Some(&index) = places.get(identity) else {
            places.insert(identity.clone(), original.len());
            original.push(item.clone());
            continue;
        };
        if let (Value::Object(target), Value::Object(item)) = (original[index].take(), item.clone())
        {
            original[index] = Value::Object(merge_map(target, item, items)?);
        }
    }
    Ok(original)
}

/// Orders merged items: those of the patch in its order, the others in their old order, interleaved as before.
fn arrange(
    merged: Vec<Value>,
    order: &[Value],
    before: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>, Error> {
    if let Some(key) = key {
        for item in merged.iter().chain(order).chain(before) {
            key_of(item, key)?;
        }
    }
    let (order, before) = (FirstPositions::new(order, key), FirstPositions::new(before, key));
    let (mut ours, mut theirs): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| order.find(item).is_some());
    ours.sort_by_key(|item| order.find(item));
    theirs.sort_by_key(|item| before.find(item).unwrap_or(usize::MAX));

    let mut all = Vec::with_capacity(ours.len() + theirs.len());
    let (mut ours, mut theirs) = (ours.into_iter().peekable(), theirs.into_iter().peekable());
    while let (Some(mine), Some(other)) = (ours.peek(), theirs.peek()) {
        let was_first =
            matches!((before.find(other), before.find(mine)), (Some(a), Some(b)) if a < b);
        all.extend(if was_first { theirs.next() } else { ours.next() });
    }
    all.extend(ours);
    all.extend(theirs);
    Ok(all)
}

/// The first position of each item of a list, by its key or, without one, by its value.
struct FirstPositions<'v> {
    key: Option<&'v str>,
    first: HashMap<Option<&'v Value>, usize>,
}

impl<'v> FirstPositions<'v> {
    fn new(list: &'v [Value], key: Option<&'v str>) -> Self {
        let mut places = Self { key, first: HashMap::new() };
        for (index, item) in list.iter().enumerate() {
            places.first.entry(identity(item, key)).or_insert(index);
        }
        places
    }

    fn find(&self, item: &Value) -> Option<usize> {
        self.first.get(&identity(item, self.key)).copied()
    }
}

fn identity<'v>(item: &'v Value, key: Option<&str>) -> Option<&'v Value> {
    key.map_or(Some(item), |key| item.get(key))
}

/// Applies `$setElementOrder/…`: merges each list it names and orders it.
pub(super) fn order(
    original: &mut JsonMap,
    patch: &mut JsonMap,
    shape: Option<Shape<'_>>,
) -> Result<(), Error> {
    let names: Vec<String> = patch.keys().filter(|name| name.starts_with(ORDER)).cloned().collect();
    for directive in names {
        let wanted = patch.remove(&directive).unwrap_or_default();
        let wanted = list_of(Some(wanted))?.unwrap_or_default();
        let Some(name) = directive.strip_prefix(ORDER).and_then(|rest| rest.strip_prefix('/'))
        else {
            return Err(Error::Malformed("invalid patch format of setElementOrder list".into()));
        };
        let field = shape.and_then(|shape| shape.field(name));
        let key = field.and_then(Shape::merge_key);
        let before = list_of(original.get(name).cloned())?;
        let items = list_of(patch.remove(name))?;
        check_order(items.as_deref().unwrap_or_default(), &wanted, key)?;
        let merged = match (&before, items) {
            (None, None) => continue,
            (Some(before), None) => before.clone(),
            (None, Some(items)) => match without_directives(Value::Array(items)) {
                Some(Value::Array(items)) => items,
                _ => continue,
            },
            (Some(before), Some(items)) if super::merges(field) => {
                merge(before.clone(), items, field, false)?
            }
            (Some(_), Some(items)) => items,
        };
        let before = before.unwrap_or_default();
        holds_maps(&before, &merged)?;
        original.insert(name.to_owned(), Value::Array(arrange(merged, &wanted, &before, key)?));
    }
    Ok(())
}

fn list_of(value: Option<Value>) -> Result<Option<Vec<Value>>, Error> {
    match value {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => Err(Error::Unexpected(format!(
            "expected a []interface {{}}, but received a {}",
            go_type(&other)
        ))),
    }
}

/// Rejects a patch whose items are not in the order that it requests.
fn check_order(items: &[Value], wanted: &[Value], key: Option<&str>) -> Result<(), Error> {
    if items.is_empty() || wanted.is_empty() {
        return Ok(());
    }
    let mut left = wanted.iter();
    let plain = items.iter().filter(|item| item.get(DIRECTIVE).is_none());
    for (index, item) in plain.enumerate() {
        let found = match key {
            None => left.any(|other| other == item),
            Some(key) => {
                let identity = key_of(item, key)?;
                if index == 0 {
                    wanted.iter().try_for_each(|other| key_of(other, key).map(drop))?;
                }
                left.any(|other| other.get(key) == Some(identity))
            }
        };
        if !found {
            return Err(Error::Unexpected(format!(
                "The order in patch list:\n{}\n doesn't match {ORDER} list:\n{}\n",
                go_value(&Value::from(items)),
                go_value(&Value::from(wanted))
            )));
        }
    }
    Ok(())
}
