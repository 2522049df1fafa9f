//! Prometheus, and other servers of its HTTP API: a range query for a window, an instant query for the newest point.

mod answer;

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::{Answer, MetricSource, Query, QueryError};
use crate::connection::{BasicAuth, Connection, ConnectionSettings, Credentials};
use crate::endpoint::Endpoint;
use crate::registry::{Context, read_settings};
use crate::secret::SecretRef;
use crate::tls::TlsSettings;

/// The most points that Prometheus returns for one series.
const MOST_POINTS: i64 = 11_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    basic_auth: Option<BasicAuth>,
    bearer_from: Option<SecretRef>,
    tls: Option<TlsSettings>,
}

struct Prometheus {
    connection: Connection,
}

pub(super) fn open(context: &Context, settings: &Value) -> Result<Box<dyn MetricSource>, String> {
    let Settings { url, headers, basic_auth, bearer_from, tls } = read_settings(settings)?;
    let credentials = match (basic_auth, bearer_from) {
        (None, None) => Credentials::None,
        (Some(basic), None) => Credentials::Basic(basic),
        (None, Some(token)) => Credentials::Bearer(token),
        (Some(_), Some(_)) => {
            return Err("basicAuth and bearerFrom cannot be given together".to_owned());
        }
    };
    let headers = read_headers(&headers)?;
    let settings = ConnectionSettings { url, headers, credentials, tls, ..Default::default() };
    Ok(Box::new(Prometheus { connection: Connection::new(context, settings)? }))
}

fn read_headers(given: &BTreeMap<String, String>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let key: HeaderName =
            name.parse().map_err(|_| format!("headers: `{name}` is not the name of a header"))?;
        let mut value: HeaderValue =
            value.parse().map_err(|_| format!("headers.{name}: must be printable ASCII"))?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

impl MetricSource for Prometheus {
    fn query<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Answer, QueryError>> {
        Box::pin(async move {
            let endpoint = self.connection.endpoint().await?;
            let (url, step) = request(&endpoint, query);
            let answer = self.connection.send(url, |client, url| client.get(url)).await?;
            answer::read(&answer, step)
        })
    }
}

/// Returns the address for a query, and the distance of the points that it asks for.
fn request(endpoint: &Endpoint, query: &Query) -> (Url, Option<SignedDuration>) {
    let path = if query.window.length.is_some() { "query_range" } else { "query" };
    let mut url = endpoint.below(&["api", "v1", path]);
    let mut pairs = url.query_pairs_mut();
    pairs.append_pair("query", &query.text);
    // The server stops working on a query that nothing waits for any more.
    let left = query.deadline.saturating_duration_since(Instant::now());
    pairs.append_pair("timeout", &format!("{:.3}", left.as_secs_f64().max(0.001)));
    let Some(length) = query.window.length else {
        pairs.append_pair("time", &seconds(query.ends_at()));
        drop(pairs);
        return (url, None);
    };
    let step = step(length);
    pairs.append_pair("start", &seconds(query.starts_at(length)));
    pairs.append_pair("end", &seconds(query.ends_at()));
    pairs.append_pair("step", &step.to_string());
    drop(pairs);
    (url, Some(SignedDuration::from_secs(step)))
}

/// Returns the distance of the points in seconds: one, or more for a window of over three hours.
fn step(length: SignedDuration) -> i64 {
    length.as_secs() / MOST_POINTS + 1
}

fn seconds(at: Timestamp) -> String {
    let millis = at.as_millisecond();
    format!("{}.{:03}", millis.div_euclid(1000), millis.rem_euclid(1000))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use decide::checks::Window;

    use super::*;

    fn request(length: Option<i64>, offset: i64) -> String {
        let endpoint = Endpoint::new("http://127.0.0.1:1/prefix/", Default::default()).unwrap();
        let query = Query {
            text: "sum(rate(a[1m]))".to_owned(),
            target: None,
            window: Window {
                length: length.map(SignedDuration::from_secs),
                offset: SignedDuration::from_secs(offset),
            },
            now: Timestamp::from_millisecond(1_700_000_000_250).unwrap(),
            deadline: Instant::now() + Duration::from_secs(5),
        };
        super::request(&endpoint, &query).0.to_string()
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_is_a_range_query_and_instant_is_an_instant_query() {
        assert_eq!(
            request(Some(60), 30),
            "http://127.0.0.1:1/prefix/api/v1/query_range?query=sum%28rate%28a%5B1m%5D%29%29&timeout=5.000\
             &start=1699999910.250&end=1699999970.250&step=1"
        );
        assert_eq!(
            request(None, 0),
            "http://127.0.0.1:1/prefix/api/v1/query?query=sum%28rate%28a%5B1m%5D%29%29&timeout=5.000&time=1700000000.250"
        );
    }

    #[test]
    fn a_long_window_stays_below_the_limit_of_points() {
        for hours in [1, 3, 4, 24, 24 * 365] {
            let length = SignedDuration::from_hours(hours);
            let points = length.as_secs() / step(length) + 1;
            assert!(points <= MOST_POINTS, "{hours} h: {points}");
        }
        assert_eq!(step(SignedDuration::from_secs(60)), 1);
    }

    #[test]
    fn a_header_that_cannot_be_sent_is_refused() {
        let read = |name: &str, value: &str| {
            read_headers(&BTreeMap::from([(name.to_owned(), value.to_owned())])).map(drop)
        };
        assert_eq!(read("X-Scope-OrgID", "games"), Ok(()));
        assert!(read("a b", "x").unwrap_err().contains("`a b` is not the name of a header"));
        assert_eq!(read("a", "x\ny").unwrap_err(), "headers.a: must be printable ASCII");
    }
}
