//! How deep may objects be nested?
//!
//! Most programs that read JSON stop at some depth: `serde_json` at 127 levels, Go at 10,000. An object that is stored
//! must be readable for all of them, also as an item of a list or of a table, so what comes in is bounded well below.

use serde_json::Value;

/// How many objects and lists may be nested in the body of a request, and in what a patch makes of an object.
///
/// What is stored is at most five levels deeper: a path in `metadata.managedFields` has one level for each level of the
/// object and a last, empty one, and stands four levels below the top.
pub const MAX_DEPTH: usize = 100;

/// How deep a stored object may be and still be read by `serde_json` as a part of a list, a table or an event.
pub const MAX_STORED: usize = 120;

/// What Go's JSON decoder says about a document that is too deep.
pub const TOO_DEEP: &str = "exceeded max depth";

/// Counts how many objects and lists are nested in a value, and how many values there are in all.
pub fn measure(value: &Value) -> Measure {
    let inner = |inner: &mut dyn Iterator<Item = &Value>| {
        let mut all = Measure { depth: 0, values: 0 };
        for below in inner.map(measure) {
            all = Measure { depth: all.depth.max(below.depth), values: all.values + below.values };
        }
        Measure { depth: all.depth + 1, values: all.values + 1 }
    };
    match value {
        Value::Array(items) => inner(&mut items.iter()),
        Value::Object(members) => inner(&mut members.values()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Measure { depth: 0, values: 1 }
        }
    }
}

/// How deep and how large a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    pub depth: usize,
    pub values: usize,
}

/// Tells whether the JSON of a stored object is shallow enough to be read.
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
            assert_eq!(measure(&value), Measure { depth, values }, "{value}");
        }
    }

    #[test]
    fn the_depth_of_json_is_counted_outside_of_its_texts() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(is_readable(nested(MAX_STORED).as_bytes()));
        assert!(!is_readable(nested(MAX_STORED + 1).as_bytes()));
        let text = Value::from(format!("\"{}\\", "{[".repeat(200)));
        assert!(is_readable(text.to_string().as_bytes()));
        let after = format!("[{text},{}]", nested(MAX_STORED));
        assert!(!is_readable(after.as_bytes()));
    }
}
