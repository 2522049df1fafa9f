//! Patches: JSON patch, merge patch, strategic merge patch and server-side apply.
//!
//! All of them work on plain JSON values and leave conversion, defaulting and validation of the result to the caller.

#![allow(clippy::wildcard_enum_match_arm, reason = "JSON's six types are all there will ever be")]

pub mod apply;
pub mod json;
pub mod merge;
#[cfg(test)]
mod property_tests;
pub mod strategic;

/// The reason why a patch failed, by the API's response code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The patch is malformed: 400, with this message.
    #[error("{0}")]
    Malformed(String),
    /// A JSON patch has too many operations: 413.
    #[error("The allowed maximum operations in a JSON patch is {limit}, got {count}", limit = json::MAX_OPERATIONS)]
    TooManyOperations {
        /// The number of operations.
        count: usize,
    },
    /// The patch does not apply to the object: 422. The API does not return the reason; it is for our own logs.
    #[error("{0}")]
    DoesNotApply(String),
    /// A failure that kube-apiserver reports as an internal error: 500, with this message and no reason.
    #[error("{0}")]
    Unexpected(String),
}

/// Returns a value's JSON type as Go's decoder names it.
pub fn type_name(value: &serde_json::Value) -> &'static str {
    use serde_json::Value;
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns the Go type that a value decodes to.
fn go_type(value: &serde_json::Value) -> &'static str {
    use serde_json::Value;
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Formats a value as Go's `%v` does.
pub fn go_value(value: &serde_json::Value) -> String {
    use serde_json::Value;
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(go_value).collect::<Vec<_>>().join(" "))
        }
        Value::Object(members) => {
            let mut members: Vec<String> =
                members.iter().map(|(name, value)| format!("{name}:{}", go_value(value))).collect();
            members.sort_unstable();
            format!("map[{}]", members.join(" "))
        }
        other => other.to_string(),
    }
}
