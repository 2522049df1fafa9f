//! Does a value merge as one, as a map or as a list?

use crate::schema::{ListType, Shape, What};
use serde_json::Value;

/// How a value at some place merges.
#[derive(Clone, Copy)]
pub(super) enum Atom<'a> {
    /// As one value: a scalar, or a list or map declared atomic.
    Leaf,
    /// Entry by entry.
    Map(Option<Shape<'a>>),
    /// Item by item, each known by its keys or, without keys, by its value.
    List(Shape<'a>),
}

impl Atom<'_> {
    fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

/// Finds how a value merges: by its shape, and where the shape leaves it open, by what it is.
pub(super) fn atom<'a>(shape: Option<Shape<'a>>, value: Option<&Value>) -> Atom<'a> {
    let Some(shape) = shape else { return deduced(value) };
    match shape.what() {
        What::Object if shape.is_atomic() => Atom::Leaf,
        What::Object => Atom::Map(Some(shape)),
        What::List if shape.list_type() == ListType::Atomic => Atom::Leaf,
        What::List => Atom::List(shape),
        What::Any => deduced(value),
        What::String
        | What::Integer
        | What::Number
        | What::Boolean
        | What::Quantity
        | What::IntOrString => Atom::Leaf,
    }
}

/// Without a declared type, maps merge by entry and lists as one value.
fn deduced<'a>(value: Option<&Value>) -> Atom<'a> {
    match value {
        Some(Value::Object(_) | Value::Null) | None => Atom::Map(None),
        Some(_) => Atom::Leaf,
    }
}

/// Finds how two values at one place merge, and whether they merge alike.
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

/// Finds the shape of a map's entry and whether the map declares it as a field.
pub(super) fn entry<'a>(map: Option<Shape<'a>>, name: &str) -> (Option<Shape<'a>>, bool) {
    let Some(map) = map else { return (None, false) };
    match map.field(name) {
        Some(field) => (Some(field), true),
        None => (map.values(), false),
    }
}
