//! Checks values against a schema.

use serde_json::{Map, Value};

use super::{Kind, Schema};
use crate::{CauseType, Problem};

impl Schema {
    /// Returns every problem of `value`, with its path and what was expected.
    pub(crate) fn check(&self, value: &Value) -> Vec<Problem> {
        let mut out = Vec::new();
        self.check_value(value, "", &mut out);
        out
    }

    fn check_value(&self, value: &Value, path: &str, out: &mut Vec<Problem>) {
        if value.is_null() && self.nullable {
            return;
        }
        if let Some(expected) = self.mismatch(value) {
            let message = format!("expected {expected}, found {}", show(value));
            return out.push(Problem::of(CauseType::TypeInvalid, path, message));
        }
        if !self.choices.is_empty() && !self.choices.contains(value) {
            let choices: Vec<_> = self.choices.iter().filter_map(Value::as_str).collect();
            let message = format!("expected one of {}, found {}", choices.join(", "), show(value));
            return out.push(Problem::of(CauseType::NotSupported, path, message));
        }
        if let Some((cause, message)) = self.out_of_bounds(value) {
            out.push(Problem::of(cause, path, message));
        }
        match value {
            Value::Object(map) => self.check_object(map, path, out),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    if self.is_set && items[..index].contains(item) {
                        let message = format!("duplicate value {}", show(item));
                        out.push(Problem::of(CauseType::Duplicate, &path, message));
                    }
                    if let Some(schema) = &self.inner {
                        schema.check_value(item, &path, out);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn check_object(&self, map: &Map<String, Value>, path: &str, out: &mut Vec<Problem>) {
        let below = |name: &str| {
            if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
        };
        for name in self.required.iter().filter(|name| !map.contains_key(*name)) {
            out.push(Problem::required(below(name), "must be given"));
        }
        for (name, value) in map {
            if let Some(schema) = self.properties.get(name).or(self.inner.as_deref()) {
                schema.check_value(value, &below(name), out);
            }
        }
    }

    /// Returns what was expected where the value is of the wrong type.
    fn mismatch(&self, value: &Value) -> Option<&'static str> {
        let (fits, expected) = match self.kind {
            Kind::Anything => (true, "anything"),
            Kind::Object => (value.is_object(), "an object"),
            Kind::Array => (value.is_array(), "a list"),
            Kind::Text => (value.is_string(), "text"),
            Kind::Int32 => (
                value.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
                "a whole number of at most 32 bits",
            ),
            Kind::Int64 => (value.is_i64(), "a whole number of at most 64 bits"),
            Kind::Number => (value.is_number(), "a number"),
            Kind::Boolean => (value.is_boolean(), "true or false"),
            Kind::IntOrText => (
                value.is_string() || value.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
                "a whole number of at most 32 bits, or text such as `25%`",
            ),
        };
        (!fits).then_some(expected)
    }

    fn out_of_bounds(&self, value: &Value) -> Option<(CauseType, String)> {
        let (size, what, too_big) = match value {
            Value::Number(n) => (n.as_f64()?, "", CauseType::Invalid),
            Value::String(text) => (text.chars().count() as f64, " characters", CauseType::TooLong),
            Value::Array(items) => (items.len() as f64, " items", CauseType::TooMany),
            Value::Object(map) => (map.len() as f64, " keys", CauseType::TooMany),
            Value::Null | Value::Bool(_) => return None,
        };
        let invalid = CauseType::Invalid;
        if let Some(least) = self.least.filter(|least| size < *least) {
            return Some((invalid, format!("expected at least {least}{what}, found {size}")));
        }
        if let Some(most) = self.most.filter(|most| size > *most) {
            return Some((too_big, format!("expected at most {most}{what}, found {size}")));
        }
        let pattern = self.pattern.as_ref()?;
        let text = value.as_str()?;
        let message = || format!("expected text that matches `{pattern}`, found {}", show(value));
        (!pattern.is_match(text)).then(|| (invalid, message()))
    }
}

/// Shows a value in a message: short ones as they are, long ones by what they are.
fn show(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::String(text) if text.chars().count() > 60 => "a long text".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
    use serde_json::json;

    fn schema() -> Schema {
        let props: JSONSchemaProps = serde_json::from_value(json!({
            "type": "object", "required": ["name"], "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^[a-z]*$"},
                "mode": {"type": "string", "enum": ["A", "B"], "default": "A"},
                "size": {"x-kubernetes-int-or-string": true},
                "n": {"type": "integer", "format": "int32", "minimum": 0.0, "nullable": true},
                "big": {"type": "integer", "format": "int64"},
                "set": {"type": "array", "maxItems": 2, "x-kubernetes-list-type": "set",
                        "items": {"type": "string"}},
                "map": {"type": "object", "additionalProperties": {
                    "type": "object", "properties": {"c": {"type": "integer", "default": 7}}}}
            }
        }))
        .unwrap();
        Schema::compile(&props)
    }

    #[test]
    fn every_misfit_is_found_at_its_path() {
        for (value, wanted) in [
            (json!({"name": "ab", "size": "5%", "n": null, "other": 1, "big": i64::MAX}), vec![]),
            (json!({}), vec!["name: must be given"]),
            (json!(7), vec![": expected an object, found 7"]),
            (
                json!({"name": "abcd", "mode": "C", "n": -1}),
                vec![
                    "mode: expected one of A, B, found \"C\"",
                    "n: expected at least 0, found -1",
                    "name: expected at most 3 characters, found 4",
                ],
            ),
            (
                json!({"name": "A"}),
                vec!["name: expected text that matches `^[a-z]*$`, found \"A\""],
            ),
            (
                json!({"name": "a", "n": 2_147_483_648_i64}),
                vec!["n: expected a whole number of at most 32 bits, found 2147483648"],
            ),
            (json!({"name": "a", "set": ["x", "x"]}), vec!["set[1]: duplicate value \"x\""]),
            (
                json!({"name": "a", "set": ["x", 1, "y"]}),
                vec!["set: expected at most 2 items, found 3", "set[1]: expected text, found 1"],
            ),
            (
                json!({"name": "a", "map": {"k": {"c": "x"}}}),
                vec!["map.k.c: expected a whole number of at most 64 bits, found \"x\""],
            ),
        ] {
            let found: Vec<_> = schema()
                .check(&value)
                .iter()
                .map(|p| format!("{}: {}", p.path, p.message))
                .collect();
            assert_eq!(found, wanted, "{value}");
        }
    }

    #[test]
    fn defaults_fill_what_is_missing_or_null() {
        let mut value =
            json!({"mode": null, "n": null, "name": null, "map": {"k": {}, "l": {"c": 1}}});
        schema().fill(&mut value);
        assert_eq!(value, json!({"mode": "A", "n": null, "map": {"k": {"c": 7}, "l": {"c": 1}}}));
    }
}
