//! Redis: the length of a list, set, sorted set, hash or stream, and how far a consumer group is behind its stream.
//!
//! A key that does not exist has the length 0, since Redis removes empty collections.

mod resp;

use std::io::ErrorKind;
use std::sync::{Mutex, PoisonError};

use futures::future::BoxFuture;
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncWriteExt as _, BufReader};

use self::resp::Reply;
use super::{Answer, MetricSource, Query, QueryError};
use crate::connection::ConnectionError;
use crate::registry::{Context, read_settings};
use crate::secret::SecretRef;
use crate::socket::{self, Socket};
use crate::tls::TlsSettings;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    /// `redis://[USER@]HOST[:PORT][/DATABASE]`, or `rediss://` for TLS.
    url: String,
    password_from: Option<SecretRef>,
    tls: Option<TlsSettings>,
}

struct Redis {
    client: kube::Client,
    /// Host and port.
    address: String,
    user: String,
    database: Option<u32>,
    password: Option<SecretRef>,
    tls: Option<TlsSettings>,
    /// The connection while no query uses it. A query that is cancelled takes its connection with it.
    idle: Mutex<Option<Stream>>,
}

type Stream = BufReader<Box<dyn Socket>>;

pub(super) fn open(context: &Context, settings: &Value) -> Result<Box<dyn MetricSource>, String> {
    let Settings { url, password_from, tls } = read_settings(settings)?;
    let wrong = || {
        "url: expected redis:// or rediss:// with a host, such as redis://127.0.0.1:6379/0"
            .to_owned()
    };
    let parsed = Url::parse(&url).map_err(|_| wrong())?;
    let is_secured = match parsed.scheme() {
        "redis" => tls.is_some(),
        "rediss" => true,
        _ => return Err(wrong()),
    };
    if parsed.password().is_some() {
        return Err("url: must not contain a password; set `passwordFrom`".to_owned());
    }
    let host = parsed.host_str().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
    let database = match parsed.path().trim_start_matches('/') {
        "" => None,
        number => {
            Some(number.parse().map_err(|_| "url: the database must be a number".to_owned())?)
        }
    };
    let tls = is_secured.then(|| tls.unwrap_or_default());
    if let Some(tls) = &tls {
        tls.check()?;
    }
    Ok(Box::new(Redis {
        client: context.client.clone(),
        address: format!("{host}:{}", parsed.port().unwrap_or(6379)),
        user: parsed.username().to_owned(),
        database,
        password: password_from,
        tls,
        idle: Mutex::default(),
    }))
}

/// A query, parsed.
#[derive(Debug, PartialEq, Eq)]
enum Measure<'a> {
    Length(&'a str),
    Lag { stream: &'a str, group: &'a str },
    Pending { stream: &'a str, group: &'a str },
}

fn parse(text: &str) -> Result<Measure<'_>, QueryError> {
    let found = match text.split_once('/') {
        Some(("length", key)) if !key.is_empty() => Some(Measure::Length(key)),
        Some((what @ ("lag" | "pending"), rest)) => match rest.rsplit_once('/') {
            Some((stream, group)) if !stream.is_empty() && !group.is_empty() => Some(match what {
                "lag" => Measure::Lag { stream, group },
                _ => Measure::Pending { stream, group },
            }),
            Some(_) | None => None,
        },
        Some(_) | None => None,
    };
    found.ok_or_else(|| {
        QueryError::Unsupported(format!(
            "`{text}` is not a query of the source redis; write `length/KEY`, `lag/STREAM/GROUP` or `pending/STREAM/GROUP`"
        ))
    })
}

impl MetricSource for Redis {
    fn query<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Answer, QueryError>> {
        Box::pin(async move {
            query.expect_present("redis")?;
            let measure = parse(&query.text)?;
            // A kept connection may have been closed by the server: then one more attempt is made, with a new one.
            let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
            let measured = match kept {
                Some(mut stream) => match self.measure(&mut stream, &measure).await {
                    Ok(value) => Some((value, stream)),
                    Err(QueryError::Connection(_)) => None,
                    Err(err) => return Err(err),
                },
                None => None,
            };
            let (value, stream) = match measured {
                Some(measured) => measured,
                None => {
                    let mut stream = self.connect().await?;
                    (self.measure(&mut stream, &measure).await?, stream)
                }
            };
            *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
            Ok(value.map_or(Answer::NoData, |value| Answer::now(query, value as f64)))
        })
    }
}

impl Redis {
    async fn measure(
        &self,
        stream: &mut Stream,
        measure: &Measure<'_>,
    ) -> Result<Option<i64>, QueryError> {
        match *measure {
            Measure::Length(key) => self.length(stream, key).await.map(Some),
            Measure::Lag { stream: key, group } => {
                let groups = self.command(stream, &["XINFO", "GROUPS", key]).await;
                if has_message(&groups, "no such key") {
                    return Ok(None);
                }
                let groups = groups?;
                let groups = groups.array().unwrap_or_default();
                let is_it =
                    |found: &&Reply| found.field("name").and_then(Reply::text) == Some(group);
                // The lag is nil where Redis cannot tell it, after entries were deleted.
                Ok(groups.iter().find(is_it).and_then(|found| found.field("lag")?.integer()))
            }
            Measure::Pending { stream: key, group } => {
                let pending = self.command(stream, &["XPENDING", key, group]).await;
                if has_message(&pending, "NOGROUP") {
                    return Ok(None);
                }
                let pending = pending?;
                let count = pending.array().and_then(|parts| parts.first()?.integer());
                count.map(Some).ok_or_else(|| self.wrong("something other than pending entries"))
            }
        }
    }

    async fn length(&self, stream: &mut Stream, key: &str) -> Result<i64, QueryError> {
        let kind = self.command(stream, &["TYPE", key]).await?;
        let command = match kind.text().unwrap_or_default() {
            "none" => return Ok(0),
            "list" => "LLEN",
            "set" => "SCARD",
            "zset" => "ZCARD",
            "hash" => "HLEN",
            "stream" => "XLEN",
            other => {
                return Err(self.wrong(&format!("a key of the type {other}, which has no length")));
            }
        };
        let length = self.command(stream, &[command, key]).await?;
        length.integer().ok_or_else(|| self.wrong("something other than a number"))
    }

    async fn command(&self, stream: &mut Stream, command: &[&str]) -> Result<Reply, QueryError> {
        stream.get_mut().write_all(&resp::encode(command)).await.map_err(|err| self.lost(&err))?;
        match resp::read(stream).await {
            Ok(Reply::Error(message)) => Err(self.refused(message)),
            Ok(reply) => Ok(reply),
            Err(err) if err.kind() == ErrorKind::InvalidData => Err(self.wrong(&err.to_string())),
            Err(err) => Err(self.lost(&err)),
        }
    }

    async fn connect(&self) -> Result<Stream, QueryError> {
        let socket = socket::connect(&self.client, &self.address, self.tls.as_ref()).await?;
        let mut stream = BufReader::new(socket);
        if let Some(password) = &self.password {
            let password = password.read_text(&self.client).await.map_err(ConnectionError::from)?;
            let mut command = vec!["AUTH"];
            command.extend(Some(self.user.as_str()).filter(|user| !user.is_empty()));
            command.push(&password);
            self.command(&mut stream, &command).await?;
        }
        if let Some(database) = self.database.filter(|database| *database > 0) {
            self.command(&mut stream, &["SELECT", &database.to_string()]).await?;
        }
        Ok(stream)
    }

    fn refused(&self, message: String) -> QueryError {
        let address = self.address.clone();
        if ["NOAUTH", "WRONGPASS", "NOPERM"].iter().any(|code| message.starts_with(code)) {
            return ConnectionError::Unauthorized { address, message }.into();
        }
        QueryError::Refused { url: address, message }
    }

    fn wrong(&self, problem: &str) -> QueryError {
        QueryError::WrongAnswer { url: self.address.clone(), problem: problem.to_owned() }
    }

    fn lost(&self, err: &std::io::Error) -> QueryError {
        let (address, message) = (self.address.clone(), err.to_string());
        ConnectionError::Unreachable { address, message }.into()
    }
}

/// Whether Redis refused a command with a message.
fn has_message(reply: &Result<Reply, QueryError>, text: &str) -> bool {
    matches!(reply, Err(QueryError::Refused { message, .. }) if message.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_a_key_or_a_stream_and_its_group() {
        assert_eq!(parse("length/jobs/high").unwrap(), Measure::Length("jobs/high"));
        assert_eq!(parse("lag/a/b/g").unwrap(), Measure::Lag { stream: "a/b", group: "g" });
        assert_eq!(parse("pending/s/g").unwrap(), Measure::Pending { stream: "s", group: "g" });
        for bad in ["", "jobs", "length/", "lag/s", "lag/s/", "pending//g", "size/k"] {
            let problem = parse(bad).unwrap_err().to_string();
            assert!(problem.contains("is not a query of the source redis"), "{bad}");
        }
    }
}
