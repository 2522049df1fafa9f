//! NATS JetStream, by the server's monitoring port: what a consumer has not yet received or acknowledged.

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;

use super::{Answer, MetricSource, Query, QueryError};
use crate::connection::{Connection, ConnectionSettings};
use crate::registry::{Context, read_settings};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    url: String,
    /// Default: the only account that has the stream.
    #[serde(default)]
    account: String,
}

struct Nats {
    connection: Connection,
    account: String,
}

pub(super) fn open(context: &Context, settings: &Value) -> Result<Box<dyn MetricSource>, String> {
    let Settings { url, account } = read_settings(settings)?;
    let settings = ConnectionSettings { url, ..Default::default() };
    Ok(Box::new(Nats { connection: Connection::new(context, settings)?, account }))
}

impl MetricSource for Nats {
    fn query<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Answer, QueryError>> {
        Box::pin(async move {
            query.expect_present("nats")?;
            let (stream, consumer) = match query.text.split_once('/') {
                Some((stream, consumer)) if !stream.is_empty() && !consumer.is_empty() => {
                    (stream, consumer)
                }
                Some(_) | None => {
                    let problem = format!(
                        "`{}` is not a query of the source nats; write `STREAM/CONSUMER`",
                        query.text
                    );
                    return Err(QueryError::Unsupported(problem));
                }
            };
            let mut parameters =
                vec![("accounts", "true"), ("streams", "true"), ("consumers", "true")];
            if !self.account.is_empty() {
                parameters.push(("acc", &self.account));
            }
            let answer = self.connection.get(&["jsz"], &parameters).await?.success()?;
            let found = behind(&answer.json()?, stream, consumer);
            let found = found
                .map_err(|problem| QueryError::WrongAnswer { url: answer.url.into(), problem })?;
            Ok(found.map_or(Answer::NoData, |value| Answer::now(query, value as f64)))
        })
    }
}

/// The answer of `/jsz`.
#[derive(Deserialize)]
struct JetStream {
    #[serde(default)]
    disabled: bool,
    #[serde(default)]
    account_details: Vec<Account>,
}

#[derive(Deserialize)]
struct Account {
    #[serde(default)]
    name: String,
    #[serde(default)]
    stream_detail: Vec<Stream>,
}

#[derive(Deserialize)]
struct Stream {
    name: String,
    #[serde(default)]
    consumer_detail: Vec<Consumer>,
}

#[derive(Deserialize)]
struct Consumer {
    name: String,
    num_pending: u64,
    num_ack_pending: u64,
}

/// Returns how many messages a consumer has before it; `None` where there is no such consumer.
fn behind(found: &JetStream, stream: &str, consumer: &str) -> Result<Option<u64>, String> {
    if found.disabled {
        return Err("JetStream disabled".to_owned());
    }
    let mut matching = Vec::new();
    for account in &found.account_details {
        for stream in account.stream_detail.iter().filter(|found| found.name == stream) {
            for consumer in stream.consumer_detail.iter().filter(|found| found.name == consumer) {
                matching.push((
                    &account.name,
                    consumer.num_pending.saturating_add(consumer.num_ack_pending),
                ));
            }
        }
    }
    match &matching[..] {
        [] => Ok(None),
        [(_, count)] => Ok(Some(*count)),
        [(first, _), (second, _), ..] => Err(format!(
            "{} consumers of this name, in the accounts {first} and {second} among others; set `account`",
            matching.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pending_and_unacknowledged_messages_are_added() {
        let account = |name: &str| {
            json!({"name": name, "stream_detail": [{"name": "JOBS", "consumer_detail": [
                {"name": "w", "num_pending": 5, "num_ack_pending": 2},
                {"name": "x", "num_pending": 9, "num_ack_pending": 0},
            ]}]})
        };
        let behind = |answer: Value, stream: &str, consumer: &str| {
            behind(&serde_json::from_value(answer).unwrap(), stream, consumer)
        };
        let one = json!({"account_details": [account("$G")]});
        assert_eq!(behind(one.clone(), "JOBS", "w"), Ok(Some(7)));
        assert_eq!(behind(one.clone(), "JOBS", "y"), Ok(None));
        assert_eq!(behind(one, "NONE", "w"), Ok(None));
        let two = json!({"account_details": [account("A"), account("B")]});
        assert!(behind(two, "JOBS", "w").unwrap_err().contains("in the accounts A and B"));
        assert!(behind(json!({"disabled": true}), "JOBS", "w").is_err());
    }
}
