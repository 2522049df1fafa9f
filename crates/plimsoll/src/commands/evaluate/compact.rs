//! Keeps an object until a decision reads it, in as little memory as its JSON text takes.
//!
//! A tree of values takes about eight times as much, which 100,000 objects would multiply.

use std::borrow::Cow;

use api::{Problem, decode};
use serde::de::DeserializeOwned;
use serde_json::{Number, Value};

/// The deepest tree that is kept as text. The parser refuses more than 127 levels.
const MAX_DEPTH: usize = 120;

/// An object in memory.
pub(crate) enum Compact {
    /// JSON without spaces.
    Text(Box<str>),
    /// An object that would change if it were serialized and parsed again.
    Tree(Value),
}

impl Compact {
    /// Stores an object as text if that loses nothing.
    pub(crate) fn new(value: Value) -> Self {
        if is_lossless(&value, MAX_DEPTH) {
            Self::Text(value.to_string().into_boxed_str())
        } else {
            Self::Tree(value)
        }
    }

    /// Returns the object as a tree.
    pub(crate) fn value(&self) -> Cow<'_, Value> {
        match self {
            Self::Text(text) => {
                Cow::Owned(serde_json::from_str(text).expect("what was written as JSON is JSON"))
            }
            Self::Tree(value) => Cow::Borrowed(value),
        }
    }

    /// Reads the object as its type, or returns the path of the mismatch.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Vec<Problem>> {
        if let Self::Text(text) = self
            && let Ok(read) = serde_json::from_str(text)
        {
            return Ok(read);
        }
        decode::lenient(&self.value())
    }
}

/// Returns whether a value is the same after it was written and parsed: the parser may miss the last digit of a fraction.
fn is_lossless(value: &Value, depth: usize) -> bool {
    let Some(below) = depth.checked_sub(1) else { return false };
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => true,
        Value::Number(number) => {
            !number.is_f64() || number.to_string().parse::<Number>().is_ok_and(|n| n == *number)
        }
        Value::Array(items) => items.iter().all(|item| is_lossless(item, below)),
        Value::Object(fields) => fields.values().all(|field| is_lossless(field, below)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_comes_back_as_it_was() {
        let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
        for value in [
            json!({"b": [null, true, "\u{0}\"é", -1, u64::MAX, i64::MIN], "a": {}}),
            json!([0.1, 1.0, -0.0, 1e300, f64::MIN_POSITIVE]),
            json!(0.000_123_456_789_012_345_68),
            nested(100),
            nested(1000),
        ] {
            let kept = Compact::new(value.clone());
            assert_eq!(kept.value().to_string(), value.to_string());
            assert_eq!(kept.read::<Value>().map(|read| read.to_string()), Ok(value.to_string()));
        }
    }

    #[test]
    fn every_fraction_comes_back_to_the_last_digit() {
        // Enough of them that some are among those which the parser misses.
        let fractions =
            (0..10_000_u64).map(|n| f64::from_bits(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        for fraction in fractions.filter(|fraction| fraction.is_finite()) {
            let kept = Compact::new(json!(fraction));
            assert_eq!(kept.value().as_f64().map(f64::to_bits), Some(fraction.to_bits()));
        }
    }

    #[test]
    fn output_of_kubernetes_is_stored_as_text() {
        let pod = json!({"kind": "Pod", "spec": {"priority": 0, "containers": [{"name": "c"}]}});
        assert!(matches!(Compact::new(pod), Compact::Text(_)));
        assert!(matches!(Compact::new(json!({"value": 0.25})), Compact::Text(_)));
    }
}
