//! Any address that answers with JSON: a JSON pointer selects the number, which counts as measured now.

use futures::future::BoxFuture;
use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use super::{Answer, MetricSource, Query, QueryError};
use crate::call::CallError;
use crate::endpoint::{Endpoint, EndpointSettings};
use crate::registry::{Context, read_settings};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    url: String,
    /// A JSON pointer; empty: the whole answer is the number.
    #[serde(default)]
    value: String,
}

struct Http {
    endpoint: Endpoint,
    pointer: String,
}

pub(super) fn open(context: &Context, settings: &Value) -> Result<Box<dyn MetricSource>, String> {
    let Settings { url, value: pointer } = read_settings(settings)?;
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return Err(format!(
            "value: `{pointer}` is not a JSON pointer; write it like `/queue/length`"
        ));
    }
    let settings = EndpointSettings { services: context.services(), ..Default::default() };
    let endpoint = Endpoint::new(&url, settings).map_err(|err| format!("url: {err}"))?;
    Ok(Box::new(Http { endpoint, pointer }))
}

impl MetricSource for Http {
    fn query<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Answer, QueryError>> {
        Box::pin(async move {
            query.expect_present("http")?;
            let answer = self.endpoint.get().await?;
            if answer.status != StatusCode::OK {
                return Err(CallError::Status { url: answer.url, status: answer.status }.into());
            }
            match number(&answer.body, &self.pointer) {
                Ok(Some(value)) => Ok(Answer::now(query, value)),
                Ok(None) => Ok(Answer::NoData),
                Err(problem) => Err(QueryError::WrongAnswer { url: answer.url.into(), problem }),
            }
        })
    }
}

/// Finds the number in an answer; `None` where it is null.
fn number(body: &[u8], pointer: &str) -> Result<Option<f64>, String> {
    // An overflowing number is a syntax error to the parser, so that every number it returns is finite.
    let answer: Value =
        serde_json::from_slice(body).map_err(|err| format!("something other than JSON: {err}"))?;
    match answer.pointer(pointer) {
        None => Err(format!("nothing at `{pointer}`")),
        Some(Value::Null) => Ok(None),
        Some(found) => match found.as_f64().filter(|number| number.is_finite()) {
            Some(number) => Ok(Some(number)),
            None => Err(format!("{} at `{pointer}`; expected a number", type_name(found))),
        },
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number out of range",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pointer_selects_a_finite_number() {
        for (body, pointer, wanted) in [
            (r#"{"queue": {"length": 12}}"#, "/queue/length", Ok(Some(12.0))),
            (r#"{"a/b": [1, -2.5e3]}"#, "/a~1b/1", Ok(Some(-2500.0))),
            ("7", "", Ok(Some(7.0))),
            (r#"{"n": null}"#, "/n", Ok(None)),
            (r#"{"n": 1}"#, "/m", Err("nothing at `/m`")),
            (r#"{"n": "1"}"#, "/n", Err("a string at `/n`; expected a number")),
            (r#"{"n": {}}"#, "/n", Err("an object at `/n`; expected a number")),
        ] {
            assert_eq!(number(body.as_bytes(), pointer), wanted.map_err(str::to_owned), "{body}");
        }
        for body in [r#"{"n": 1e999}"#, r#"{"n": NaN}"#, r#"{"n": Infinity}"#, "<html>", ""] {
            let problem = number(body.as_bytes(), "/n").unwrap_err();
            assert!(problem.starts_with("something other than JSON: "), "{body}: {problem}");
        }
    }
}
