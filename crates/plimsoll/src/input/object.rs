//! Turns a document into objects while it is parsed, whichever parser that is.
//!
//! The items of a List are passed on one by one, so that only one of them is in memory. A key that stands twice in an
//! object is an error, and so is an object that is nested too deeply.

use std::fmt;
use std::ops::ControlFlow;

use api::Problem;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{Content, Entry, Place};

/// How deeply a document may be nested. The API takes no deeper objects either.
pub(super) const MAX_DEPTH: usize = 100;

/// What is known while a document is read.
pub(super) struct Reading<'t> {
    place: Place,
    /// The way from the document to where the parser is.
    path: Vec<Step>,
    /// How much of the path leads to the object that is being read.
    object_at: usize,
    take: &'t mut dyn FnMut(Entry) -> ControlFlow<()>,
    /// Whether nobody wants more entries.
    is_stopped: bool,
    /// Whether the document could be parsed further, but has what no object may have.
    is_refused: bool,
}

enum Step {
    Field(String),
    Item(usize),
}

impl<'t> Reading<'t> {
    pub(super) fn new(place: Place, take: &'t mut dyn FnMut(Entry) -> ControlFlow<()>) -> Self {
        Self { place, path: Vec::new(), object_at: 0, take, is_stopped: false, is_refused: false }
    }

    /// Reports that the document cannot be read any further as what it is written in.
    pub(super) fn fail(&mut self, form: &str, message: &str) -> ControlFlow<()> {
        if self.is_stopped {
            return ControlFlow::Break(());
        }
        let not = if self.is_refused { String::new() } else { format!("not {form}: ") };
        let message = format!("{not}{message}");
        let problem = Problem::new(written(&self.path[self.object_at..]), message);
        self.pass_on(Err(problem))
    }

    /// Reports a key that the parser found twice.
    pub(super) fn refuse_key(&mut self, key: &str, line: u64) -> ControlFlow<()> {
        self.path.push(Step::Field(key.to_owned()));
        self.is_refused = true;
        self.fail("", &format!("duplicate key at line {line}"))
    }

    fn pass_on(&mut self, content: Result<Content, Problem>) -> ControlFlow<()> {
        let item = written(&self.path[..self.object_at]);
        let flow = (self.take)(Entry { place: self.place, item, content });
        self.is_stopped |= flow.is_break();
        flow
    }

    /// Steps into a field or item; it is left again only where reading it succeeds.
    fn enter<E: Error>(&mut self, step: Step) -> Result<(), E> {
        self.path.push(step);
        if self.path.len() > MAX_DEPTH {
            self.is_refused = true;
            return Err(E::custom(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        Ok(())
    }

    /// Refuses the field that was entered last, because there is another of its name.
    fn duplicate<E: Error>(&mut self) -> E {
        self.is_refused = true;
        E::custom("duplicate key")
    }

    /// Tells whether the parser is at what the API server notes for itself about an object's fields.
    fn is_bookkeeping(&self) -> bool {
        let [Step::Field(metadata), Step::Field(field)] = &self.path[self.object_at..] else {
            return false;
        };
        metadata == "metadata" && field == "managedFields"
    }
}

fn written(path: &[Step]) -> String {
    let mut out = String::new();
    for step in path {
        match step {
            Step::Field(name) if out.is_empty() => out.push_str(name),
            Step::Field(name) => out.extend([".", name]),
            Step::Item(index) => out.push_str(&format!("[{index}]")),
        }
    }
    out
}

/// What a document or an item of a List holds: an object, or a List of them. Yields whether there is anything.
pub(super) struct Document<'r, 't> {
    reading: &'r mut Reading<'t>,
    /// The `apiVersion` and `kind` of items that do not say, as in the API's own answers.
    usual: (Option<Value>, Option<Value>),
}

impl<'r, 't> Document<'r, 't> {
    pub(super) fn of(reading: &'r mut Reading<'t>) -> Self {
        Self { reading, usual: (None, None) }
    }

    fn finish<E: Error>(self, mut value: Value) -> Result<bool, E> {
        if value.is_null() && self.reading.path.is_empty() {
            return Ok(false);
        }
        if let Value::Object(fields) = &mut value {
            for (name, usual) in [("apiVersion", self.usual.0), ("kind", self.usual.1)] {
                if let Some(usual) = usual.filter(|_| !fields.contains_key(name)) {
                    fields.insert(name.to_owned(), usual);
                }
            }
        }
        match self.reading.pass_on(Ok(Content::Object(value))) {
            ControlFlow::Continue(()) => Ok(true),
            ControlFlow::Break(()) => Err(E::custom("stopped")),
        }
    }

    /// Checks what a List says of itself.
    fn finish_list<E: Error>(self, head: &Map<String, Value>) -> Result<bool, E> {
        let is_list = |kind: &Value| kind.as_str().is_some_and(|kind| kind.ends_with("List"));
        let (field, message) = if !head.get("kind").is_some_and(is_list) {
            ("kind", "expected `List` or the list of a kind, since there are `items`")
        } else if !head.get("apiVersion").is_some_and(Value::is_string) {
            ("apiVersion", "required: the version of the List, such as `v1`")
        } else {
            return Ok(true);
        };
        match self.reading.pass_on(Err(Problem::new(field, message))) {
            ControlFlow::Continue(()) => Ok(true),
            ControlFlow::Break(()) => Err(E::custom("stopped")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Document<'_, '_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
        self.reading.object_at = self.reading.path.len();
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Document<'_, '_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<bool, A::Error> {
        let mut fields = Map::new();
        let mut has_items = false;
        while let Some(name) = from.next_key::<String>()? {
            let is_second = fields.contains_key(&name) || (has_items && name == "items");
            self.reading.enter(Step::Field(name.clone()))?;
            if is_second {
                return Err(self.reading.duplicate());
            }
            if name == "items" {
                let usual = usual(&fields);
                let items = Items { reading: &mut *self.reading, usual };
                has_items = from.next_value_seed(items)?;
            } else {
                let value = from.next_value_seed(Node { reading: &mut *self.reading })?;
                fields.insert(name, value);
            }
            self.reading.path.pop();
        }
        if has_items { self.finish_list(&fields) } else { self.finish(Value::Object(fields)) }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, from: A) -> Result<bool, A::Error> {
        let value = Node { reading: &mut *self.reading }.visit_seq(from)?;
        self.finish(value)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<bool, E> {
        self.finish(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<bool, E> {
        self.finish(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<bool, E> {
        self.finish(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<bool, E> {
        self.finish(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<bool, E> {
        self.finish(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        self.finish(Value::Null)
    }
}

/// Returns what the items of the list of a kind are, unless they say so themselves.
fn usual(list: &Map<String, Value>) -> (Option<Value>, Option<Value>) {
    let kind = list.get("kind").and_then(Value::as_str).and_then(|kind| kind.strip_suffix("List"));
    match kind.filter(|kind| !kind.is_empty()) {
        Some(kind) => (list.get("apiVersion").cloned(), Some(kind.into())),
        None => (None, None),
    }
}

/// The items of a List. Yields whether they are a list, or null, which stands for an empty one.
struct Items<'r, 't> {
    reading: &'r mut Reading<'t>,
    usual: (Option<Value>, Option<Value>),
}

impl<'de> DeserializeSeed<'de> for Items<'_, '_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_, '_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<bool, A::Error> {
        let list_at = self.reading.object_at;
        for index in 0.. {
            self.reading.enter(Step::Item(index))?;
            let reading = &mut *self.reading;
            let item = Document { reading, usual: self.usual.clone() };
            if from.next_element_seed(item)?.is_none() {
                break;
            }
            self.reading.path.pop();
        }
        self.reading.path.pop();
        self.reading.object_at = list_at;
        Ok(true)
    }

    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        Ok(true)
    }
}

/// Any value inside an object.
struct Node<'r, 't> {
    reading: &'r mut Reading<'t>,
}

impl<'de> DeserializeSeed<'de> for Node<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        if self.reading.is_bookkeeping() {
            return from.deserialize_ignored_any(IgnoredAny).map(|_| Value::Null);
        }
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = from.next_key::<String>()? {
            let is_second = fields.contains_key(&name);
            self.reading.enter(Step::Field(name.clone()))?;
            if is_second {
                return Err(self.reading.duplicate());
            }
            let is_bookkeeping = self.reading.is_bookkeeping();
            let value = from.next_value_seed(Node { reading: &mut *self.reading })?;
            self.reading.path.pop();
            if !is_bookkeeping {
                fields.insert(name, value);
            }
        }
        Ok(Value::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            self.reading.enter(Step::Item(items.len()))?;
            let item = from.next_element_seed(Node { reading: &mut *self.reading })?;
            self.reading.path.pop();
            match item {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}
