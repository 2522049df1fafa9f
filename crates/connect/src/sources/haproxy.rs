//! HAProxy: any numeric column of a frontend or backend, summed over all load balancers.
//!
//! Rates are the mean since the previous query, from the counters, where there was one; else those of the last second. A load
//! balancer that does not answer is an error, because the sum would be too small.

mod stats;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use futures::future::{BoxFuture, try_join_all};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::{Answer, MetricSource, Query, QueryError};
use crate::connection::{BasicAuth, Connection, ConnectionError, ConnectionSettings, Credentials};
use crate::registry::{Context, read_settings};

/// The largest answer that is read from a socket.
const LARGEST_ANSWER: u64 = 4 << 20;
/// How far apart two readings of a counter are at least, and at most, for a rate.
const SHORTEST: SignedDuration = SignedDuration::from_secs(1);
const LONGEST: SignedDuration = SignedDuration::from_mins(5);
/// How many counters are remembered.
const COUNTERS: usize = 10_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    /// `unix:PATH`, the address of a statistics page, or one that ends in `/metrics` of the Prometheus exporter.
    stats: Vec<String>,
    basic_auth: Option<BasicAuth>,
}

struct HaProxy {
    clock: process::Clock,
    addresses: Vec<Address>,
    counters: Mutex<HashMap<(usize, String), Counter>>,
}

enum Address {
    Socket(String),
    Page(Box<Connection>),
    Exporter(Box<Connection>),
}

pub(super) fn open(context: &Context, settings: &Value) -> Result<Box<dyn MetricSource>, String> {
    let Settings { stats, basic_auth } = read_settings(settings)?;
    if stats.is_empty() {
        return Err("stats: expected at least one address".to_owned());
    }
    let addresses = stats.into_iter().map(|text| {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Address::Socket(path.trim_start_matches("//").to_owned()));
        }
        let is_exporter = text.trim_end_matches('/').ends_with("/metrics");
        let url = if is_exporter || text.ends_with(";csv") { text } else { format!("{text};csv") };
        let credentials = basic_auth.clone().map_or(Credentials::None, Credentials::Basic);
        let settings = ConnectionSettings { url, credentials, ..Default::default() };
        let connection =
            Connection::new(context, settings).map_err(|err| format!("stats: {err}"))?;
        let connection = Box::new(connection);
        Ok(if is_exporter { Address::Exporter(connection) } else { Address::Page(connection) })
    });
    let addresses = addresses.collect::<Result<_, String>>()?;
    Ok(Box::new(HaProxy { clock: context.clock.clone(), addresses, counters: Mutex::default() }))
}

/// A frontend or backend, and the column that is asked for.
#[derive(Debug, PartialEq, Eq)]
struct StatsColumn<'a> {
    side: stats::Side,
    proxy: &'a str,
    column: &'a str,
}

fn parse(text: &str) -> Result<StatsColumn<'_>, QueryError> {
    let mut parts = text.splitn(2, '/');
    let side = match parts.next() {
        Some("frontend") => Some(stats::Side::Frontend),
        Some("backend") => Some(stats::Side::Backend),
        Some(_) | None => None,
    };
    let rest = parts.next().and_then(|rest| rest.rsplit_once('/'));
    match (side, rest) {
        (Some(side), Some((proxy, column))) if !proxy.is_empty() && !column.is_empty() => {
            Ok(StatsColumn { side, proxy, column })
        }
        (_, _) => Err(QueryError::Unsupported(format!(
            "`{text}` is not a query of the source haproxy; write `frontend/NAME/COLUMN` or `backend/NAME/COLUMN`, \
             for example `frontend/web/req_rate`"
        ))),
    }
}

impl MetricSource for HaProxy {
    fn query<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Answer, QueryError>> {
        Box::pin(async move {
            query.expect_present("haproxy")?;
            let cell = parse(&query.text)?;
            let values = self.addresses.iter().enumerate();
            let values = values.map(|(index, address)| self.value(index, address, &cell, query));
            let values = try_join_all(values).await?;
            let sum = values.into_iter().sum::<Option<f64>>();
            Ok(sum.map_or(Answer::NoData, |sum| Answer::now(query, sum)))
        })
    }
}

impl HaProxy {
    /// Returns the number of one load balancer; `None` where it has none yet.
    async fn value(
        &self,
        index: usize,
        address: &Address,
        cell: &StatsColumn<'_>,
        query: &Query,
    ) -> Result<Option<f64>, QueryError> {
        let (url, text) = address.read().await?;
        let wrong = |problem: String| QueryError::WrongAnswer { url: url.clone(), problem };
        let row = match address {
            Address::Socket(_) | Address::Page(_) => stats::from_csv(&text, cell.side, cell.proxy),
            Address::Exporter(_) => stats::from_exporter(&text, cell.side, cell.proxy),
        };
        let row = row.map_err(wrong)?;
        let row = row.ok_or_else(|| wrong(format!("no {} `{}`", cell.side.name(), cell.proxy)))?;
        let shown = row.number(cell.column).map_err(wrong)?;
        let Some(total) = stats::counter_of(cell.column) else { return Ok(shown) };
        let Some(total) = row.number(total).map_err(wrong)? else { return Ok(shown) };
        Ok(self.rate((index, query.text.clone()), total).or(shown))
    }

    /// Returns the mean rate of a counter since it was read before.
    fn rate(&self, key: (usize, String), total: f64) -> Option<f64> {
        let now = self.clock.now();
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        if counters.len() >= COUNTERS && !counters.contains_key(&key) {
            counters.clear();
        }
        let counter = counters.entry(key).or_insert(Counter { at: now, total, rate: None });
        counter.read(now, total)
    }
}

/// A counter at its last reading.
#[derive(Debug)]
struct Counter {
    at: Timestamp,
    total: f64,
    rate: Option<f64>,
}

impl Counter {
    fn read(&mut self, now: Timestamp, total: f64) -> Option<f64> {
        let elapsed = now.duration_since(self.at);
        if elapsed < SHORTEST {
            return self.rate;
        }
        // A counter that is lower than before began again at 0.
        let delta = if total < self.total { total } else { total - self.total };
        self.rate = (elapsed <= LONGEST).then(|| delta / elapsed.as_secs_f64());
        (self.at, self.total) = (now, total);
        self.rate
    }
}

impl Address {
    /// Reads the statistics, and returns them with the address they are from.
    async fn read(&self) -> Result<(String, String), QueryError> {
        match self {
            Self::Socket(path) => {
                let text = from_socket(path).await;
                let address = format!("unix:{path}");
                match text {
                    Ok(text) => Ok((address, text)),
                    Err(err) => {
                        let message = err.to_string();
                        Err(ConnectionError::Unreachable { address, message }.into())
                    }
                }
            }
            Self::Page(connection) | Self::Exporter(connection) => {
                let answer = connection.get(&[], &[]).await?.success()?;
                Ok((answer.url.to_string(), String::from_utf8_lossy(&answer.body).into_owned()))
            }
        }
    }
}

async fn from_socket(path: &str) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(path).await?;
    // All proxies, frontends and backends, without their servers.
    stream.write_all(b"show stat -1 3 -1\n").await?;
    let mut answer = Vec::new();
    stream.take(LARGEST_ANSWER).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_a_proxy_and_a_column() {
        let cell = StatsColumn { side: stats::Side::Frontend, proxy: "a/b", column: "req_rate" };
        assert_eq!(parse("frontend/a/b/req_rate").unwrap(), cell);
        for bad in ["", "frontend/web", "server/web/rate", "backend//rate", "frontend/web/"] {
            let problem = parse(bad).unwrap_err().to_string();
            assert!(problem.contains("is not a query of the source haproxy"), "{bad}");
        }
    }

    #[test]
    fn a_rate_is_the_mean_since_the_last_reading() {
        let at = |millis| Timestamp::from_millisecond(millis).unwrap();
        let mut counter = Counter { at: at(0), total: 100.0, rate: None };
        for (millis, total, wanted) in [
            (500, 150.0, None),
            (2000, 200.0, Some(50.0)),
            (2500, 900.0, Some(50.0)),
            (4000, 300.0, Some(50.0)),
            (5000, 30.0, Some(30.0)), // restarted
            (1_000_000, 40.0, None),
            (1_001_000, 45.0, Some(5.0)),
        ] {
            assert_eq!(counter.read(at(millis), total), wanted, "{millis}");
        }
    }
}
