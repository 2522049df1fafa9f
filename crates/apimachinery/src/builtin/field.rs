//! Errors about single fields, in the wording of kube-apiserver.
//!
//! Each names the field, the type of error and the value, and becomes a cause of a `Status`.

use std::collections::HashSet;
use std::fmt;

pub use api::CauseType;
use serde_json::{Value, json};

use crate::quote::quote;

/// An error in one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    pub cause_type: CauseType,
    /// Such as `spec.containers[0].name`.
    pub field: String,
    /// The value as the message shows it; empty when the message has none.
    pub value: String,
    /// The expected value or the rule that was violated.
    pub detail: String,
}

impl FieldError {
    /// Returns the message without the field's name.
    pub fn body(&self) -> String {
        let mut body = self.cause_type.words().to_owned();
        for part in [&self.value, &self.detail] {
            if !part.is_empty() {
                body.push_str(": ");
                body.push_str(part);
            }
        }
        body
    }

    /// Returns the cause as `Status.details` carries it.
    pub fn cause(&self) -> Value {
        json!({"reason": self.cause_type.reason(), "message": self.body(), "field": self.field})
    }
}

/// Converts an error that the validation of our own kinds found.
impl From<api::Problem> for FieldError {
    fn from(problem: api::Problem) -> Self {
        let api::Problem { path, message, cause } = problem;
        Self { cause_type: cause, field: path, value: String::new(), detail: message }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// Joins errors into one message: in brackets when there are several, without duplicates.
pub fn message(errors: &[FieldError]) -> String {
    let mut known = HashSet::new();
    let mut lines: Vec<String> = errors.iter().map(FieldError::to_string).collect();
    lines.retain(|line| known.insert(line.clone()));
    match lines.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// A path to a field, built step by step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    /// Starts a path.
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// Appends a field.
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { Self(format!("{}.{name}", self.0)) }
    }

    /// Appends an index of a list.
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// Appends a key of a map.
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    fn error(&self, cause_type: CauseType, value: String, detail: impl Into<String>) -> FieldError {
        FieldError { cause_type, field: self.0.clone(), value, detail: detail.into() }
    }

    pub fn required(&self, detail: impl Into<String>) -> FieldError {
        self.error(CauseType::Required, String::new(), detail)
    }

    pub fn invalid(&self, value: &Value, detail: impl Into<String>) -> FieldError {
        self.error(CauseType::Invalid, shown(value), detail)
    }

    pub fn invalid_text(&self, value: &str, detail: impl Into<String>) -> FieldError {
        self.error(CauseType::Invalid, quote(value), detail)
    }

    pub fn wrong_type(&self, value: &Value, detail: impl Into<String>) -> FieldError {
        self.error(CauseType::TypeInvalid, shown(value), detail)
    }

    pub fn forbidden(&self, detail: impl Into<String>) -> FieldError {
        self.error(CauseType::Forbidden, String::new(), detail)
    }

    pub fn duplicate(&self, value: &Value) -> FieldError {
        self.error(CauseType::Duplicate, shown(value), "")
    }

    pub fn not_found(&self, value: &Value) -> FieldError {
        self.error(CauseType::NotFound, shown(value), "")
    }

    pub fn too_long(&self, limit: usize) -> FieldError {
        let unit = if limit == 1 { "byte" } else { "bytes" };
        self.error(
            CauseType::TooLong,
            String::new(),
            format!("may not be more than {limit} {unit}"),
        )
    }

    pub fn too_many(&self, actual: usize, limit: usize) -> FieldError {
        let unit = if limit == 1 { "item" } else { "items" };
        let detail = format!("must have at most {limit} {unit}");
        self.error(CauseType::TooMany, actual.to_string(), detail)
    }

    pub fn with(
        &self,
        cause_type: CauseType,
        value: &Value,
        detail: impl Into<String>,
    ) -> FieldError {
        self.error(cause_type, shown(value), detail)
    }

    /// Rejects a value that is not one of the supported ones.
    pub fn not_supported(&self, value: &str, supported: &[&str]) -> FieldError {
        let supported: Vec<String> = supported.iter().map(|s| quote(s)).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        self.error(CauseType::NotSupported, quote(value), detail)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Formats a value for a message: strings in quotes, everything else as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_match_kube_apiserver() {
        let path = Path::new("spec").child("ports").index(0).child("protocol");
        let error = path.not_supported("X", &["TCP", "UDP"]);
        assert_eq!(
            error.to_string(),
            r#"spec.ports[0].protocol: Unsupported value: "X": supported values: "TCP", "UDP""#
        );
        assert_eq!(error.cause()["reason"], "FieldValueNotSupported");
        let several = [Path::new("a").required(""), Path::new("b").invalid(&json!(5), "too small")];
        assert_eq!(message(&several), "[a: Required value, b: Invalid value: 5: too small]");
        assert_eq!(Path::new("a").key("k").forbidden("no").to_string(), "a[k]: Forbidden: no");
    }
}
