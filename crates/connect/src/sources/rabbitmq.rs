//! RabbitMQ's management API: the messages of a queue, and the rate at which they are published.

use futures::future::BoxFuture;
use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use super::{Answer, MetricSource, Query, QueryError};
use crate::connection::{BasicAuth, Connection, ConnectionSettings, Credentials};
use crate::registry::{Context, read_settings};
use crate::tls::TlsSettings;

/// The last part of a query, and where the API has the number. The numbers of a queue are absent right after it was declared.
const MEASURES: [(&str, &str); 5] = [
    ("messages", "/messages"),
    ("messages_ready", "/messages_ready"),
    ("messages_unacknowledged", "/messages_unacknowledged"),
    ("publish_rate", "/message_stats/publish_details/rate"),
    ("deliver_rate", "/message_stats/deliver_get_details/rate"),
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    url: String,
    #[serde(default = "default_vhost")]
    vhost: String,
    basic_auth: Option<BasicAuth>,
    tls: Option<TlsSettings>,
}

fn default_vhost() -> String {
    "/".to_owned()
}

struct RabbitMq {
    connection: Connection,
    vhost: String,
}

pub(super) fn open(context: &Context, settings: &Value) -> Result<Box<dyn MetricSource>, String> {
    let Settings { url, vhost, basic_auth, tls } = read_settings(settings)?;
    let credentials = basic_auth.map_or(Credentials::None, Credentials::Basic);
    let settings = ConnectionSettings { url, credentials, tls, ..Default::default() };
    Ok(Box::new(RabbitMq { connection: Connection::new(context, settings)?, vhost }))
}

/// Splits a query into the queue and where its number is.
fn parse(text: &str) -> Result<(&str, &'static str), QueryError> {
    let parsed = text.rsplit_once('/').and_then(|(queue, measure)| {
        let (_, pointer) = MEASURES.iter().find(|(name, _)| *name == measure)?;
        (!queue.is_empty()).then_some((queue, *pointer))
    });
    parsed.ok_or_else(|| {
        let known = MEASURES.map(|(name, _)| name).join(", ");
        let problem = format!(
            "`{text}` is not a query of the source rabbitmq; write `QUEUE/` and one of {known}"
        );
        QueryError::Unsupported(problem)
    })
}

impl MetricSource for RabbitMq {
    fn query<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Answer, QueryError>> {
        Box::pin(async move {
            query.expect_present("rabbitmq")?;
            let (queue, pointer) = parse(&query.text)?;
            let answer = self.connection.get(&["api", "queues", &self.vhost, queue], &[]).await?;
            if answer.status == StatusCode::NOT_FOUND {
                let message =
                    format!("there is no queue `{queue}` in the virtual host `{}`", self.vhost);
                return Err(QueryError::Refused { url: answer.url.into(), message });
            }
            let answer = answer.success()?;
            let value: Value = answer.json()?;
            number(&value, pointer)
                .map(|found| found.map_or(Answer::NoData, |value| Answer::now(query, value)))
                .map_err(|problem| QueryError::WrongAnswer { url: answer.url.into(), problem })
        })
    }
}

/// Finds the number; `None` where the queue has none yet. A queue in which nothing was ever published has no rate, which is 0.
fn number(queue: &Value, pointer: &str) -> Result<Option<f64>, String> {
    if !queue.is_object() || queue.get("name").is_none() {
        return Err("something other than a queue".to_owned());
    }
    match queue.pointer(pointer) {
        Some(value) => match value.as_f64() {
            Some(number) => Ok(Some(number)),
            None => Err(format!("`{value}` at {pointer}; expected a number")),
        },
        None if pointer.starts_with("/message_stats") && queue.get("messages").is_some() => {
            Ok(Some(0.0))
        }
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_query_names_a_queue_and_a_number() {
        assert_eq!(parse("jobs/messages").unwrap(), ("jobs", "/messages"));
        assert_eq!(parse("a/b/publish_rate").unwrap().0, "a/b");
        for bad in ["", "jobs", "jobs/", "/messages", "jobs/age"] {
            let problem = parse(bad).unwrap_err().to_string();
            assert!(problem.contains("is not a query of the source rabbitmq"), "{bad}");
        }
    }

    #[test]
    fn the_number_of_a_queue_may_be_missing() {
        let rate = "/message_stats/publish_details/rate";
        let stats = json!({"publish_details": {"rate": 2.5}});
        let busy = json!({"name": "q", "messages": 7, "message_stats": stats});
        assert_eq!(number(&busy, "/messages"), Ok(Some(7.0)));
        assert_eq!(number(&busy, rate), Ok(Some(2.5)));
        assert_eq!(number(&json!({"name": "q", "messages": 0}), rate), Ok(Some(0.0)));
        assert_eq!(number(&json!({"name": "q"}), "/messages"), Ok(None));
        assert_eq!(number(&json!({"name": "q"}), rate), Ok(None));
        assert!(number(&json!([]), rate).unwrap_err().contains("other than a queue"));
        assert!(number(&json!({"name": "q", "messages": "x"}), "/messages").is_err());
    }
}
