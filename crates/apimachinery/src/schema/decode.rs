//! Decodes documents as Kubernetes' typed decoding does.
//!
//! One pass along the shape rejects values of the wrong type, collects unknown and duplicate fields in document order, drops
//! fields that Go would not serialize, adds those that Go serializes even when unset, and normalizes quantities and times.
//! Without a shape it only collects duplicates.

mod fill;
mod scalar;
mod strict_errors;
mod syntax;

use std::cell::RefCell;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{Shape, ValueType};
use crate::depth::{MAX_DEPTH, MAX_STORED, TOO_DEEP};
pub use fill::zero;
pub use strict_errors::StrictErrors;

/// A decoded document and its strict decoding errors.
#[derive(Debug, Default, PartialEq)]
pub struct Decoded {
    pub value: Value,
    /// Such as `unknown field "spec.foo"`, in document order; limited by [`StrictErrors`].
    pub strict: Vec<String>,
}

/// The reason why a document cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is not JSON or YAML; in the wording of Go's parser.
    #[error("{0}")]
    Syntax(String),
    /// A value has the wrong type.
    #[error("{0}")]
    Type(String),
}

/// Decodes JSON.
pub fn json(text: &[u8], shape: Option<Shape<'_>>) -> Result<Decoded, Error> {
    let mut from = serde_json::Deserializer::from_slice(text);
    let state = DecodeState::default();
    let value = Position::root(&state, shape, MAX_DEPTH)
        .deserialize(&mut from)
        .and_then(|value| from.end().map(|()| value))
        .map_err(|_| Error::Syntax(syntax::syntax_error(text)))?;
    state.finish(value)
}

/// Decodes a document that is already in memory. Its depth was limited when it was received; managed fields added since then
/// may be a little deeper.
pub fn value(document: &Value, shape: Option<Shape<'_>>) -> Result<Decoded, Error> {
    let state = DecodeState::default();
    let value = Position::root(&state, shape, MAX_STORED)
        .deserialize(document)
        .map_err(|error| Error::Syntax(error.to_string()))?;
    state.finish(value)
}

/// The results of a pass over a document so far.
#[derive(Default)]
struct DecodeState {
    strict: RefCell<StrictErrors>,
    /// The first type error; decoding continues, so that the rest is still parsed.
    error: RefCell<Option<String>>,
}

impl DecodeState {
    fn finish(self, value: Value) -> Result<Decoded, Error> {
        match self.error.into_inner() {
            Some(error) => Err(Error::Type(error)),
            None => Ok(Decoded { value, strict: self.strict.into_inner().into_vec() }),
        }
    }

    fn note(&self, what: &str, path: impl FnOnce() -> String) {
        self.strict.borrow_mut().add(|| format!("{what} field \"{}\"", path()));
    }

    fn refuse(&self, error: impl FnOnce() -> String) {
        self.error.borrow_mut().get_or_insert_with(error);
    }
}

/// The position in the document. Positions form a chain on the stack, so that paths cost nothing until needed.
#[derive(Clone, Copy)]
struct Position<'p, 's> {
    state: &'p DecodeState,
    shape: Option<Shape<'s>>,
    /// The Go type of the value, where it is not that of the shape: an item of a list, a value of a map.
    go: &'p str,
    step: Step<'p>,
    parent: Option<&'p Position<'p, 's>>,
    /// How many more objects and lists may be nested here.
    levels: usize,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Root,
    Field(&'p str),
    Key(&'p str),
    Item(usize),
}

impl<'p, 's> Position<'p, 's> {
    fn root(state: &'p DecodeState, shape: Option<Shape<'s>>, levels: usize) -> Self {
        Self { state, shape, go: "", step: Step::Root, parent: None, levels }
    }

    /// Returns how many levels an object or list here may contain, or an error if it is nested too deeply.
    fn levels_inside<E: serde::de::Error>(&self) -> Result<usize, E> {
        self.levels.checked_sub(1).ok_or_else(|| E::custom(TOO_DEEP))
    }

    /// Returns the path as strict errors format it: `spec.containers[0].name`.
    fn path(&self, leaf: &str) -> String {
        let mut path = self.parent.map(|p| p.path("")).unwrap_or_default();
        match self.step {
            Step::Root => {}
            Step::Field(name) | Step::Key(name) => push(&mut path, name),
            Step::Item(index) => path.push_str(&format!("[{index}]")),
        }
        if !leaf.is_empty() {
            push(&mut path, leaf);
        }
        path
    }

    /// Returns the path as Go's type errors format it: fields only, with the embedded structs between them.
    fn go_path(&self) -> String {
        let mut path = self.parent.map(Position::go_path).unwrap_or_default();
        if let Step::Field(name) = self.step {
            if let Some(through) = self.shape.map(Shape::through).filter(|t| !t.is_empty()) {
                push(&mut path, through);
            }
            push(&mut path, name);
        }
        path
    }

    /// Returns the name of the struct that the innermost field of the path belongs to.
    fn struct_name(&self) -> &'static str {
        let mut at = self;
        while !matches!(at.step, Step::Field(_)) {
            match at.parent {
                Some(parent) => at = parent,
                None => return "",
            }
        }
        let owner = at.parent.and_then(|p| p.shape).map(Shape::name).unwrap_or_default();
        owner.rsplit('.').next().unwrap_or_default()
    }

    fn wrong_type(&self, found: &str, go: &str) {
        self.state.refuse(|| {
            let path = self.go_path();
            if path.is_empty() {
                return format!("json: cannot unmarshal {found} into Go value of type {go}");
            }
            let of = self.struct_name();
            format!("json: cannot unmarshal {found} into Go struct field {of}.{path} of type {go}")
        });
    }

    /// Returns the type as Go's errors name it.
    fn go_type(&self) -> String {
        if !self.go.is_empty() {
            return self.go.trim_start_matches('*').to_owned();
        }
        let declared = self.shape.map(Shape::go).unwrap_or_default();
        if !declared.is_empty() {
            return declared.trim_start_matches('*').to_owned();
        }
        let name = self.shape.map(Shape::name).unwrap_or_default();
        format!("v1.{}", name.rsplit('.').next().unwrap_or_default())
    }
}

fn push(path: &mut String, step: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(step);
}

impl<'de> DeserializeSeed<'de> for Position<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Position<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(self.boolean(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(self.number(v.into()))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(self.number(v.into()))
    }

    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        Ok(Number::from_f64(v).map_or(Value::Null, |n| self.number(n)))
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(self.string(v))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let levels = self.levels_inside()?;
        let mut list = Vec::new();
        let items = self.shape.and_then(Shape::items);
        if let Some(shape) = self.shape
            && items.is_none()
            && !accepts_anything(shape)
        {
            self.wrong_kind("array");
        }
        let go = items.map(|items| element(&self.go_type(), items));
        let go = go.as_deref().unwrap_or_default();
        loop {
            let step = Step::Item(list.len());
            let parent = Some(&self);
            let item = Position { state: self.state, shape: items, go, step, parent, levels };
            match from.next_element_seed(item)? {
                Some(Value::Null) => list.push(items.map_or(Value::Null, zero)),
                Some(value) => list.push(value),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let levels = self.levels_inside()?;
        let shape = self.shape.map(alternative);
        let is_struct = shape.is_some_and(Shape::has_fields);
        let values = shape.and_then(Shape::values);
        if let Some(shape) = shape
            && !is_struct
            && values.is_none()
            && shape.value_type() != ValueType::Object
            && !accepts_anything(shape)
        {
            self.wrong_kind("object");
        }
        let here = Position { shape, ..self };
        let go = values.map(|values| element(&self.go_type(), values)).unwrap_or_default();
        let mut map = Map::new();
        while let Some(key) = from.next_key::<String>()? {
            let field = if is_struct { shape.and_then(|s| s.field(&key)) } else { values };
            let step = if is_struct { Step::Field(&key) } else { Step::Key(&key) };
            let go = if is_struct { "" } else { go.as_str() };
            if is_struct && field.is_none() {
                self.state.note("unknown", || here.path(&key));
                let ignored = DecodeState::default();
                from.next_value_seed(Position::root(&ignored, None, levels))?;
                continue;
            }
            if map.contains_key(&key) {
                self.state.note("duplicate", || here.path(&key));
            }
            let parent = Some(&here);
            let place = Position { state: self.state, shape: field, go, step, parent, levels };
            let value = from.next_value_seed(place)?;
            let value = match (value, field) {
                (Value::Null, Some(field)) if !is_struct => zero(field),
                (value, _) => value,
            };
            map.insert(key, value);
        }
        if let Some(shape) = shape.filter(|_| is_struct) {
            fill::apply_omitempty(shape, &mut map);
        }
        Ok(Value::Object(map))
    }
}

impl Position<'_, '_> {
    fn wrong_kind(&self, found: &str) {
        match self.shape.map(Shape::value_type) {
            Some(ValueType::Quantity) => {
                self.state.refuse(|| api::quantity::QuantityError::Format.to_string());
            }
            Some(ValueType::IntOrString) => self.wrong_type(found, "int32"),
            Some(_) | None => self.wrong_type(found, &self.go_type()),
        }
    }
}

/// Returns the schema's own shape where a CustomResourceDefinition also allows a boolean or a list.
fn alternative(shape: Shape<'_>) -> Shape<'_> {
    let name = shape.name();
    match name.strip_suffix("OrBool").or_else(|| name.strip_suffix("OrArray")) {
        Some(schema) => super::Types::builtin().named(schema).unwrap_or(shape),
        None => shape,
    }
}

fn accepts_anything(shape: Shape<'_>) -> bool {
    shape.value_type() == ValueType::Any
}

/// Returns the type of a list's item or a map's value, as Go's errors name it.
fn element(go: &str, shape: Shape<'_>) -> String {
    if let Some(item) = go.strip_prefix("[]") {
        return item.to_owned();
    }
    if let Some((_, value)) = go.strip_prefix("map[").and_then(|g| g.split_once(']')) {
        return value.to_owned();
    }
    match shape.value_type() {
        ValueType::String => "string".to_owned(),
        ValueType::Any
        | ValueType::Integer
        | ValueType::Number
        | ValueType::Boolean
        | ValueType::Object
        | ValueType::List
        | ValueType::Quantity
        | ValueType::IntOrString => {
            format!("v1.{}", shape.name().rsplit('.').next().unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests;
