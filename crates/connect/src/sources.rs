//! Metric sources: where live checks get their numbers.
//!
//! A new source is one file beside `http.rs` and one line in `SOURCES`.

mod container_usage;
mod docker;
mod external_scaler;
mod haproxy;
mod http;
mod kubernetes;
mod nats;
mod nomad;
mod prometheus;
mod rabbitmq;
mod rancher;
mod redis;
mod sqs;

use std::sync::Arc;
use std::time::Duration;

use api::plimsoll::Span;
use decide::checks::{Series, Window};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::call::CallError;
use crate::connection::ConnectionError;
use crate::registry::{Context, OpenError, Registry};
use crate::targets::{TargetError, TargetRef};

type Constructor = fn(&Context, &Value) -> Result<Box<dyn MetricSource>, String>;

/// All sources by the name of their block in a MetricSource.
const SOURCES: Registry<Constructor> = Registry {
    what: "metric source",
    constructors: &[
        ("docker", docker::open),
        ("externalScaler", external_scaler::open),
        ("haproxy", haproxy::open),
        ("http", http::open),
        ("kubernetes", kubernetes::open),
        ("nats", nats::open),
        ("nomad", nomad::open),
        ("prometheus", prometheus::open),
        ("rabbitmq", rabbitmq::open),
        ("rancher", rancher::open),
        ("redis", redis::open),
        ("sqs", sqs::open),
    ],
};

/// How long a query may take where the MetricSource does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// A system that has numbers over time.
pub trait MetricSource: Send + Sync {
    /// Queries the points in the window. Dropping the future cancels the query.
    fn query<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Answer, QueryError>>;

    /// Returns a stream with an item for each change of the numbers; `None` where the source can only be polled.
    fn changes(&self) -> Option<BoxStream<'static, ()>> {
        None
    }
}

/// One question to a source.
#[derive(Clone, Debug)]
pub struct Query {
    /// The text of the query, in the language of the source.
    pub text: String,
    /// What the numbers are about, for sources that measure the target itself.
    pub target: Option<TargetRef>,
    /// The time window of the query.
    pub window: Window,
    /// The time of the evaluation, from which the window counts back.
    pub now: Timestamp,
    /// When an answer is of no use any more.
    pub deadline: Instant,
}

impl Query {
    /// Returns when the window ends.
    fn ends_at(&self) -> Timestamp {
        self.now.saturating_sub(self.window.offset).unwrap_or(Timestamp::MIN)
    }

    /// Rejects a query for a past window, for sources that have only current values.
    fn expect_present(&self, source: &str) -> Result<(), QueryError> {
        if self.window.offset.is_zero() {
            return Ok(());
        }
        let problem =
            format!("a source of the type {source} has no history: windowOffset must be 0s");
        Err(QueryError::Unsupported(problem))
    }

    /// Returns when a window ends and how long before that it begins.
    fn starts_at(&self, length: SignedDuration) -> Timestamp {
        self.ends_at().saturating_sub(length).unwrap_or(Timestamp::MIN)
    }
}

/// The answer of a source.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// At least one point.
    Points(Series),
    /// The source works and has no points for this query.
    NoData,
    /// All points are older than the window.
    Stale {
        /// The time of the newest point.
        newest_at: Timestamp,
    },
}

impl Answer {
    /// Makes an answer of the present value.
    fn now(query: &Query, value: f64) -> Self {
        Self::from_points(vec![(query.now, value)], None)
    }

    /// Makes an answer of points in any order; numbers that are not finite are left out.
    fn from_points(points: Vec<(Timestamp, f64)>, step: Option<SignedDuration>) -> Self {
        let series = Series::new(points, step);
        if series.first_at().is_some() { Self::Points(series) } else { Self::NoData }
    }
}

/// Why a source did not answer a query.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The source did not answer in time.
    #[error("no answer within {} ms", within.as_millis())]
    Timeout {
        /// How long it had.
        within: Duration,
    },
    /// The source could not be reached, or its answer could not be read.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The source could not be reached, refused the credentials, or its answer could not be read.
    #[error(transparent)]
    Connection(ConnectionError),
    /// The target of the query could not be read.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The source refused the query.
    #[error("{url} refused the query: {message}")]
    Refused {
        /// The address of the source.
        url: String,
        /// The message of the source.
        message: String,
    },
    /// The answer is not one number, or not one series.
    #[error("{url} answered with {problem}")]
    WrongAnswer {
        /// The address of the source.
        url: String,
        /// What was found, and what was expected.
        problem: String,
    },
    /// The source cannot answer such a query.
    #[error("{0}")]
    Unsupported(String),
}

impl QueryError {
    /// Whether the source is unavailable, so that other queries would fail too.
    pub fn is_unreachable(&self) -> bool {
        matches!(
            self,
            Self::Timeout { .. }
                | Self::Call(CallError::Unreachable { .. } | CallError::Slow { .. })
                | Self::Connection(ConnectionError::Unreachable { .. })
        )
    }

    /// Whether the source was reached and took the credentials, so that only this query failed.
    pub fn is_about_query(&self) -> bool {
        match self {
            Self::Timeout { .. } => false,
            Self::Call(error) | Self::Connection(ConnectionError::Call(error)) => {
                has_answered(error)
            }
            Self::Connection(error) => matches!(error, ConnectionError::WrongAnswer { .. }),
            Self::Target(_)
            | Self::Refused { .. }
            | Self::WrongAnswer { .. }
            | Self::Unsupported(_) => true,
        }
    }
}

/// Whether a system answered a call, and not because of the credentials.
fn has_answered(error: &CallError) -> bool {
    match error {
        CallError::Status { status, .. } => !matches!(status.as_u16(), 401 | 403),
        CallError::TooLarge { .. } | CallError::NotAReview { .. } => true,
        CallError::Address { .. }
        | CallError::Roots(_)
        | CallError::Tls(_)
        | CallError::SystemRoots(_)
        | CallError::Unreachable { .. }
        | CallError::Service { .. }
        | CallError::Slow { .. } => false,
    }
}

impl From<ConnectionError> for QueryError {
    fn from(error: ConnectionError) -> Self {
        if let ConnectionError::Call(error) = error {
            Self::Call(error)
        } else {
            Self::Connection(error)
        }
    }
}

/// Opens the source of a MetricSource's `spec`: a `timeout`, and one block that is named after the source. Nothing is sent
/// before the first query.
pub fn open(
    context: &Context,
    spec: &Map<String, Value>,
) -> Result<Arc<dyn MetricSource>, OpenError> {
    let mut blocks = spec.clone();
    let timeout = blocks.remove("timeout");
    let (name, settings) = SOURCES.only(&blocks)?;
    let constructor = SOURCES.find(name)?;
    let timeout = read_timeout(timeout.as_ref()).map_err(SOURCES.settings_error(name))?;
    let source = constructor(context, settings).map_err(SOURCES.settings_error(name))?;
    Ok(Arc::new(Limited { source, timeout }))
}

fn read_timeout(given: Option<&Value>) -> Result<Duration, String> {
    let Some(given) = given else { return Ok(DEFAULT_TIMEOUT) };
    let span: Span =
        serde_json::from_value(given.clone()).map_err(|err| format!("timeout: {err}"))?;
    let timeout = Duration::try_from(span.0).unwrap_or_default();
    if timeout.is_zero() { Err("timeout: must be positive".to_owned()) } else { Ok(timeout) }
}

/// A source whose queries end in time, and whose old points are recognised as stale.
struct Limited {
    source: Box<dyn MetricSource>,
    timeout: Duration,
}

impl MetricSource for Limited {
    fn query<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Answer, QueryError>> {
        Box::pin(async move {
            let started_at = Instant::now();
            let deadline = query.deadline.min(started_at + self.timeout);
            let query = Query { deadline, ..query.clone() };
            let answer = tokio::time::timeout_at(deadline, self.source.query(&query)).await;
            let within = deadline.saturating_duration_since(started_at);
            Ok(fresh(answer.map_err(|_| QueryError::Timeout { within })??, &query))
        })
    }

    fn changes(&self) -> Option<BoxStream<'static, ()>> {
        self.source.changes()
    }
}

/// Returns `Stale` in place of points that are all older than the window. An instant query takes the newest, however old.
fn fresh(answer: Answer, query: &Query) -> Answer {
    let Answer::Points(series) = &answer else { return answer };
    let newest_at = series.newest_at(query.ends_at());
    match (query.window.length, newest_at) {
        (Some(length), Some(newest_at)) if newest_at < query.starts_at(length) => {
            Answer::Stale { newest_at }
        }
        (_, _) => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn points_before_the_window_are_stale_unless_the_newest_is_asked_for() {
        let answer = Answer::from_points(vec![(at(10), 1.0), (at(40), 2.0)], None);
        let query = |length: Option<i64>, offset: i64| Query {
            text: String::new(),
            target: None,
            window: Window {
                length: length.map(SignedDuration::from_secs),
                offset: SignedDuration::from_secs(offset),
            },
            now: at(100),
            deadline: Instant::now(),
        };
        let stale = Answer::Stale { newest_at: at(40) };
        for (length, offset, wanted) in [
            (Some(60), 0, answer.clone()),
            (Some(59), 0, stale),
            (Some(10), 60, answer.clone()),
            (None, 0, answer.clone()),
        ] {
            assert_eq!(
                fresh(answer.clone(), &query(length, offset)),
                wanted,
                "{length:?} {offset}"
            );
        }
        assert_eq!(Answer::from_points(vec![(at(1), f64::NAN)], None), Answer::NoData);
    }

    #[test]
    fn a_timeout_is_a_positive_duration() {
        let read = |value: Value| read_timeout(Some(&value));
        assert_eq!(read_timeout(None), Ok(DEFAULT_TIMEOUT));
        assert_eq!(read("1500ms".into()), Ok(Duration::from_millis(1500)));
        for bad in ["0s", "-1s"] {
            assert_eq!(read(bad.into()), Err("timeout: must be positive".to_owned()));
        }
        assert!(read("soon".into()).unwrap_err().starts_with("timeout: `soon` is not a duration"));
    }
}
