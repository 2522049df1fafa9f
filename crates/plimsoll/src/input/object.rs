//! Builds objects while a document is parsed, with any serde parser.
//!
//! The items of a List are emitted one by one, so that only one of them is in memory. Duplicate keys are errors, and so are
//! objects that are nested too deeply.

use std::fmt;
use std::ops::ControlFlow;

use api::Problem;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{Content, Entry, Position};

/// The maximum nesting of a document; the API has the same limit.
pub(super) const MAX_DEPTH: usize = 100;

/// The state of reading a document.
pub(super) struct Reading<'t> {
    position: Position,
    /// The path from the document to the parser's position.
    path: Vec<Step>,
    /// The length of the path to the object that is being read.
    object_at: usize,
    handle: &'t mut dyn FnMut(Entry) -> ControlFlow<()>,
    /// Whether the caller needs no more entries.
    is_stopped: bool,
    /// Whether the syntax is valid, but the object is not allowed.
    is_invalid: bool,
}

enum Step {
    Field(String),
    Item(usize),
}

impl<'t> Reading<'t> {
    pub(super) fn new(
        position: Position,
        handle: &'t mut dyn FnMut(Entry) -> ControlFlow<()>,
    ) -> Self {
        Self {
            position,
            path: Vec::new(),
            object_at: 0,
            handle,
            is_stopped: false,
            is_invalid: false,
        }
    }

    /// Reports that the rest of the document cannot be parsed.
    pub(super) fn fail(&mut self, form: &str, message: &str) -> ControlFlow<()> {
        if self.is_stopped {
            return ControlFlow::Break(());
        }
        let not = if self.is_invalid { String::new() } else { format!("not {form}: ") };
        let message = format!("{not}{message}");
        let problem = Problem::new(format_path(&self.path[self.object_at..]), message);
        self.emit(Err(problem))
    }

    /// Reports a key that the parser found twice.
    pub(super) fn report_duplicate_key(&mut self, key: &str, line: u64) -> ControlFlow<()> {
        self.path.push(Step::Field(key.to_owned()));
        self.is_invalid = true;
        self.fail("", &format!("duplicate key at line {line}"))
    }

    fn emit(&mut self, content: Result<Content, Problem>) -> ControlFlow<()> {
        let item = format_path(&self.path[..self.object_at]);
        let flow = (self.handle)(Entry { position: self.position, item, content });
        self.is_stopped |= flow.is_break();
        flow
    }

    /// Adds a field or item to the path. After an error it stays there, for the message.
    fn enter<E: Error>(&mut self, step: Step) -> Result<(), E> {
        self.path.push(step);
        if self.path.len() > MAX_DEPTH {
            self.is_invalid = true;
            return Err(E::custom(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        Ok(())
    }

    /// Returns the error for the last field, which is a duplicate.
    fn duplicate<E: Error>(&mut self) -> E {
        self.is_invalid = true;
        E::custom("duplicate key")
    }

    /// Whether the parser is at `metadata.managedFields`, which is skipped.
    fn is_managed_fields(&self) -> bool {
        let [Step::Field(metadata), Step::Field(field)] = &self.path[self.object_at..] else {
            return false;
        };
        metadata == "metadata" && field == "managedFields"
    }
}

fn format_path(path: &[Step]) -> String {
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

/// A document or an item of a List: an object, or a List of objects. Returns whether it has content.
pub(super) struct Document<'r, 't> {
    reading: &'r mut Reading<'t>,
    /// The `apiVersion` and `kind` of items that have none, as in responses of the API.
    default_types: (Option<Value>, Option<Value>),
}

impl<'r, 't> Document<'r, 't> {
    pub(super) fn new(reading: &'r mut Reading<'t>) -> Self {
        Self { reading, default_types: (None, None) }
    }

    fn finish<E: Error>(self, mut value: Value) -> Result<bool, E> {
        if value.is_null() && self.reading.path.is_empty() {
            return Ok(false);
        }
        if let Value::Object(fields) = &mut value {
            for (name, default_types) in
                [("apiVersion", self.default_types.0), ("kind", self.default_types.1)]
            {
                if let Some(default_types) = default_types.filter(|_| !fields.contains_key(name)) {
                    fields.insert(name.to_owned(), default_types);
                }
            }
        }
        match self.reading.emit(Ok(Content::Object(value))) {
            ControlFlow::Continue(()) => Ok(true),
            ControlFlow::Break(()) => Err(E::custom("stopped")),
        }
    }

    /// Checks the kind and version of a List.
    fn finish_list<E: Error>(self, head: &Map<String, Value>) -> Result<bool, E> {
        let is_list = |kind: &Value| kind.as_str().is_some_and(|kind| kind.ends_with("List"));
        let (field, message) = if !head.get("kind").is_some_and(is_list) {
            ("kind", "expected `List` or the list of a kind, since there are `items`")
        } else if !head.get("apiVersion").is_some_and(Value::is_string) {
            ("apiVersion", "required: the version of the List, such as `v1`")
        } else {
            return Ok(true);
        };
        match self.reading.emit(Err(Problem::new(field, message))) {
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
            let is_duplicate = fields.contains_key(&name) || (has_items && name == "items");
            self.reading.enter(Step::Field(name.clone()))?;
            if is_duplicate {
                return Err(self.reading.duplicate());
            }
            if name == "items" {
                let default_types = default_types(&fields);
                let items = Items { reading: &mut *self.reading, default_types };
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

/// Returns the `apiVersion` and `kind` of items of a typed list.
fn default_types(list: &Map<String, Value>) -> (Option<Value>, Option<Value>) {
    let kind = list.get("kind").and_then(Value::as_str).and_then(|kind| kind.strip_suffix("List"));
    match kind.filter(|kind| !kind.is_empty()) {
        Some(kind) => (list.get("apiVersion").cloned(), Some(kind.into())),
        None => (None, None),
    }
}

/// The items of a List; null is an empty list. Returns true if they are one.
struct Items<'r, 't> {
    reading: &'r mut Reading<'t>,
    default_types: (Option<Value>, Option<Value>),
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
            let item = Document { reading, default_types: self.default_types.clone() };
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
        if self.reading.is_managed_fields() {
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
            let is_duplicate = fields.contains_key(&name);
            self.reading.enter(Step::Field(name.clone()))?;
            if is_duplicate {
                return Err(self.reading.duplicate());
            }
            let is_managed_fields = self.reading.is_managed_fields();
            let value = from.next_value_seed(Node { reading: &mut *self.reading })?;
            self.reading.path.pop();
            if !is_managed_fields {
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
