//! What `evaluate` prints about one object.

use std::fmt;

use decide::Reason;
use serde_json::{Map, Value, json};

use super::world::Object;

/// A decision about one object, for programs and for people.
pub(crate) struct Decision {
    /// What `-o json` prints.
    pub(crate) json: Map<String, Value>,
    /// What `-o text` prints: the first line stands alone, the others are set in beneath it.
    lines: Vec<String>,
}

impl Decision {
    /// Starts a decision about `subject`, under a heading that names it.
    pub(crate) fn about(subject: &Object) -> Self {
        let mut json = Map::new();
        json.insert("subject".to_owned(), subject.reference());
        Self { json, lines: vec![subject.to_string()] }
    }

    /// Adds a key for programs.
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.json.insert(key.to_owned(), value.into());
        self
    }

    /// Adds a line for people.
    pub(crate) fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Adds the reasons, for programs and for people.
    pub(crate) fn because<R: Reason>(mut self, reasons: &[R]) -> Self {
        let all: Vec<Value> =
            reasons.iter().map(|r| json!({"code": r.code(), "message": r.to_string()})).collect();
        self.lines.extend(reasons.iter().map(|r| format!("{}: {r}", r.code())));
        self.with("reasons", all)
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = self.lines.iter();
        if let Some(heading) = lines.next() {
            writeln!(f, "{heading}")?;
        }
        lines.try_for_each(|line| writeln!(f, "  {line}"))
    }
}
