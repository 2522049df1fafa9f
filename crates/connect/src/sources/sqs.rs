//! Amazon SQS: the messages of a queue, both visible and in flight. The query is the queue's URL.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, MetricSource, Query, QueryError};
use crate::aws::{AwsError, AwsService};
use crate::connection::ConnectionError;
use crate::registry::{Context, read_settings};

const VISIBLE: &str = "ApproximateNumberOfMessages";
const IN_FLIGHT: &str = "ApproximateNumberOfMessagesNotVisible";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    region: Option<String>,
    endpoint: Option<String>,
}

struct Sqs {
    service: AwsService,
}

pub(super) fn open(context: &Context, settings: &Value) -> Result<Box<dyn MetricSource>, String> {
    let Settings { region, endpoint } = read_settings(settings)?;
    let service = AwsService::open(&context.clock, "sqs", region.as_deref(), endpoint.as_deref())?;
    Ok(Box::new(Sqs { service }))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Attributes {
    #[serde(default)]
    attributes: BTreeMap<String, String>,
}

/// An error of AWS's JSON protocol.
#[derive(Default)]
struct Refusal {
    kind: String,
    message: String,
}

impl Refusal {
    /// Reads an error; empty where it is written in another way.
    fn read(body: &[u8]) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |field: &str| body[field].as_str().map(str::to_owned);
        let message = text("message").or_else(|| text("Message")).unwrap_or_default();
        Self { kind: text("__type").unwrap_or_default(), message }
    }
}

impl MetricSource for Sqs {
    fn query<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Answer, QueryError>> {
        Box::pin(async move {
            query.expect_present("sqs")?;
            if !query.text.starts_with("http") {
                let problem = format!(
                    "`{}` is not a query of the source sqs; write the queue's URL",
                    query.text
                );
                return Err(QueryError::Unsupported(problem));
            }
            let body = json!({"QueueUrl": query.text, "AttributeNames": [VISIBLE, IN_FLIGHT]});
            let headers = [
                ("content-type", "application/x-amz-json-1.0"),
                ("x-amz-target", "AmazonSQS.GetQueueAttributes"),
            ];
            let answer = self.service.post(&headers, body.to_string()).await.map_err(failed)?;
            if !answer.status.is_success() {
                let refusal = Refusal::read(&answer.body);
                return Err(refused(answer.url.to_string(), refusal, &answer.status.to_string()));
            }
            let found: Attributes = answer.json()?;
            let count = messages(&found.attributes);
            count
                .map(|count| Answer::now(query, count))
                .map_err(|problem| QueryError::WrongAnswer { url: answer.url.to_string(), problem })
        })
    }
}

fn failed(error: AwsError) -> QueryError {
    match error {
        AwsError::Connection(error) => error.into(),
        AwsError::Credentials(error) => QueryError::Connection(ConnectionError::Unauthorized {
            address: "sqs".to_owned(),
            message: error.to_string(),
        }),
    }
}

fn refused(url: String, Refusal { kind, message }: Refusal, status: &str) -> QueryError {
    let kind = kind.rsplit('#').next().unwrap_or_default();
    let message = if kind.is_empty() { status.to_owned() } else { format!("{kind}: {message}") };
    let is_about_credentials = [
        "AccessDenied",
        "InvalidClientTokenId",
        "SignatureDoesNotMatch",
        "ExpiredToken",
        "UnrecognizedClient",
        "InvalidSecurity",
        "IncompleteSignature",
        "MissingAuthenticationToken",
    ];
    // A proxy in front of it refuses without a code.
    let is_bare = kind.is_empty() && ["401", "403"].iter().any(|code| status.starts_with(code));
    if is_bare || is_about_credentials.iter().any(|known| kind.starts_with(known)) {
        return ConnectionError::Unauthorized { address: url, message }.into();
    }
    QueryError::Refused { url, message }
}

fn messages(attributes: &BTreeMap<String, String>) -> Result<f64, String> {
    let mut sum = 0.0;
    for name in [VISIBLE, IN_FLIGHT] {
        let text = attributes.get(name).ok_or_else(|| format!("no {name}"))?;
        let count: u64 = text.parse().map_err(|_| format!("{name} `{text}`; expected a number"))?;
        sum += count as f64;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_messages_and_those_in_flight_are_added() {
        let attributes = |values: &[(&str, &str)]| {
            values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        assert_eq!(messages(&attributes(&[(VISIBLE, "5"), (IN_FLIGHT, "2")])), Ok(7.0));
        assert!(messages(&attributes(&[(VISIBLE, "5")])).unwrap_err().contains(IN_FLIGHT));
        assert!(messages(&attributes(&[(VISIBLE, "x"), (IN_FLIGHT, "2")])).is_err());
    }

    #[test]
    fn a_refusal_is_about_credentials_or_about_the_query() {
        let refusal = |kind: &str| Refusal { kind: kind.to_owned(), message: "m".to_owned() };
        let missing = refused("u".into(), refusal("com.amazonaws.sqs#QueueDoesNotExist"), "400");
        assert_eq!(missing.to_string(), "u refused the query: QueueDoesNotExist: m");
        let denied = refused("u".into(), refusal("AccessDeniedException"), "403");
        assert_eq!(denied.to_string(), "u refused the credentials: AccessDeniedException: m");
    }
}
