//! What does an object become under a patch?
//!
//! Each kind of patch has its file. All work on plain JSON values and leave conversion, defaults and validation of the
//! outcome to the caller.

#![allow(clippy::wildcard_enum_match_arm, reason = "JSON's six types are all there will ever be")]

pub mod apply;
pub mod json;
#[cfg(test)]
mod laws;
pub mod merge;
pub mod strategic;

/// Says why a patch could not be carried out, in the class the API answers with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The patch itself cannot be read: 400, with this text.
    #[error("{0}")]
    Malformed(String),
    /// A JSON patch with too many operations: 413.
    #[error("The allowed maximum operations in a JSON patch is {limit}, got {count}", limit = json::MAX_OPERATIONS)]
    TooManyOperations {
        /// How many there were.
        count: usize,
    },
    /// The patch does not fit the object: 422. The API does not pass the reason on; it is for our own logs.
    #[error("{0}")]
    DoesNotApply(String),
    /// The real API server reports these as its own failure: 500, with this text and no reason.
    #[error("{0}")]
    Unexpected(String),
}

/// Names a value's JSON type as Go's decoder does.
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

/// Names a value's Go type after decoding from JSON.
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

/// Prints a value as Go's `%v` does.
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
