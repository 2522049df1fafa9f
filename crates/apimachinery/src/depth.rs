//! Limits how deeply objects may be nested.
//!
//! Most JSON parsers have a nesting limit: 127 levels in `serde_json`, 10,000 in Go. All of them must be able to read a stored
//! object, also as an item of a list or a table, so the depth of requests is limited well below that.

use serde_json::Value;

/// The nesting limit for request bodies and for the result of a patch.
///
/// Stored objects are at most five levels deeper: a path in `metadata.managedFields` has one level for each level of the
/// object and a last, empty one, and starts four levels below the top.
pub const MAX_DEPTH: usize = 100;

/// The nesting limit for a stored object that `serde_json` can still read as part of a list, a table or an event.
pub const MAX_STORED: usize = 120;

/// The message of Go's JSON decoder for a document that is too deep.
pub const TOO_DEEP: &str = "exceeded max depth";

/// Measures the nesting depth of a value and counts the values in it.
pub fn measure(value: &Value) -> JsonSize {
    let inner = |inner: &mut dyn Iterator<Item = &Value>| {
        let mut all = JsonSize { depth: 0, values: 0 };
        for below in inner.map(measure) {
            all = JsonSize { depth: all.depth.max(below.depth), values: all.values + below.values };
        }
        JsonSize { depth: all.depth + 1, values: all.values + 1 }
    };
    match value {
        Value::Array(items) => inner(&mut items.iter()),
        Value::Object(members) => inner(&mut members.values()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            JsonSize { depth: 0, values: 1 }
        }
    }
}

/// The nesting depth of a value and the number of values in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonSize {
    pub depth: usize,
    pub values: usize,
}

/// Returns whether the JSON of a stored object is shallow enough to be read.
pub fn is_readable(json: &[u8]) -> bool {
    let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => {
                depth += 1;
                if depth > MAX_STORED {
                    return false;
                }
            }
            b'}' | b']' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn depth_and_size_of_a_value_are_counted() {
        for (value, depth, values) in
            [(json!(1), 0, 1), (json!({}), 1, 1), (json!({"a": [1, {"b": "c"}], "d": null}), 3, 6)]
        {
            assert_eq!(measure(&value), JsonSize { depth, values }, "{value}");
        }
    }

    #[test]
    fn brackets_inside_strings_do_not_count_as_depth() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(is_readable(nested(MAX_STORED).as_bytes()));
        assert!(!is_readable(nested(MAX_STORED + 1).as_bytes()));
        let text = Value::from(format!("\"{}\\", "{[".repeat(200)));
        assert!(is_readable(text.to_string().as_bytes()));
        let after = format!("[{text},{}]", nested(MAX_STORED));
        assert!(!is_readable(after.as_bytes()));
    }
}
