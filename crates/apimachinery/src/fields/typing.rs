//! Decides whether a value is merged as a leaf, a map or a list.

use crate::schema::{ListType, Shape, ValueType};
use serde_json::Value;

/// How a value is merged.
#[derive(Clone, Copy)]
pub(super) enum Atom<'a> {
    /// As one value: a scalar, or a list or map declared atomic.
    Leaf,
    /// Entry by entry.
    Map(Option<Shape<'a>>),
    /// Item by item; items are identified by their keys or, without keys, by their value.
    List(Shape<'a>),
}

impl Atom<'_> {
    fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

/// Returns how a value is merged: according to its shape, or without one according to its JSON type.
pub(super) fn atom<'a>(shape: Option<Shape<'a>>, value: Option<&Value>) -> Atom<'a> {
    let Some(shape) = shape else { return deduced(value) };
    match shape.value_type() {
        ValueType::Object if shape.is_atomic() => Atom::Leaf,
        ValueType::Object => Atom::Map(Some(shape)),
        ValueType::List if shape.list_type() == ListType::Atomic => Atom::Leaf,
        ValueType::List => Atom::List(shape),
        ValueType::Any => deduced(value),
        ValueType::String
        | ValueType::Integer
        | ValueType::Number
        | ValueType::Boolean
        | ValueType::Quantity
        | ValueType::IntOrString => Atom::Leaf,
    }
}

/// Deduces the type where none is declared: maps are merged by entry, lists are replaced.
fn deduced<'a>(value: Option<&Value>) -> Atom<'a> {
    match value {
        Some(Value::Object(_) | Value::Null) | None => Atom::Map(None),
        Some(_) => Atom::Leaf,
    }
}

/// Returns how two values are merged, and whether both merge in the same way.
pub(super) fn atoms<'a>(
    shape: Option<Shape<'a>>,
    left: Option<&Value>,
    right: Option<&Value>,
) -> (Atom<'a>, bool) {
    match (left, right) {
        (Some(_), None) => (atom(shape, left), true),
        (None, _) => (atom(shape, right), true),
        (Some(_), Some(_)) => {
            let (left, right) = (atom(shape, left), atom(shape, right));
            (right, left.is_like(right))
        }
    }
}

/// Returns the shape of a map's entry and whether the map declares it as a field.
pub(super) fn entry<'a>(map: Option<Shape<'a>>, name: &str) -> (Option<Shape<'a>>, bool) {
    let Some(map) = map else { return (None, false) };
    match map.field(name) {
        Some(field) => (Some(field), true),
        None => (map.values(), false),
    }
}
