//! A decision as `plimsoll evaluate` prints it and as the journal keeps it.

use std::fmt;

use decide::Reason;
use kube::Resource;
use serde_json::{Map, Value, json};

/// The kind, namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectName {
    /// The kind.
    pub kind: String,
    /// Absent for a cluster-wide kind.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl ObjectName {
    /// Returns the name of an object.
    pub fn new<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        let meta = object.meta();
        Self {
            kind: K::kind(&()).into_owned(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }

    /// Returns the name as `{"kind", "namespace", "name"}`.
    pub fn to_json(&self) -> Value {
        let mut out = Map::new();
        out.insert("kind".to_owned(), self.kind.clone().into());
        if let Some(namespace) = &self.namespace {
            out.insert("namespace".to_owned(), namespace.clone().into());
        }
        out.insert("name".to_owned(), self.name.clone().into());
        out.into()
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// A decision about one object, for programs and for people.
pub struct Description {
    /// The output of `-o json`.
    pub json: Map<String, Value>,
    /// The output of `-o text`: a heading, and indented lines beneath it.
    lines: Vec<String>,
}

impl Description {
    /// Starts the description of a decision about `subject`, under a heading that names it.
    pub fn about(subject: &ObjectName) -> Self {
        let mut json = Map::new();
        json.insert("subject".to_owned(), subject.to_json());
        Self { json, lines: vec![subject.to_string()] }
    }

    /// Adds a key for programs.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.json.insert(key.to_owned(), value.into());
        self
    }

    /// Adds a line for people.
    #[must_use]
    pub fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Adds the reasons, for programs and for people.
    #[must_use]
    pub fn because<R: Reason>(mut self, reasons: &[R]) -> Self {
        let all: Vec<Value> =
            reasons.iter().map(|r| json!({"code": r.code(), "message": r.to_string()})).collect();
        self.lines.extend(reasons.iter().map(|r| format!("{}: {r}", r.code())));
        self.with("reasons", all)
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = self.lines.iter();
        if let Some(heading) = lines.next() {
            writeln!(f, "{heading}")?;
        }
        lines.try_for_each(|line| writeln!(f, "  {line}"))
    }
}
