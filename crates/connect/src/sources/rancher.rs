//! CPU and memory of the containers of a Rancher service, from the websocket `containerStats`: percent of one core, and percent of
//! the memory limit. Or in percent of the reservation (`cpu/request`, `memory/request`). Rancher shows no CPU limit.
//!
//! The token of a websocket names the containers that ran when it was issued, so that each query opens a websocket of its own,
//! and closes it as soon as every container has reported.

mod stats;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::plimsoll::auto_scale_policy::RelativeTo;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::SinkExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use kube::Client;
use reqwest::{StatusCode, Url};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};

use self::stats::Readings;
use super::container_usage::{Metric, UsageQuery, mean};
use super::{Answer, MetricSource, Query, QueryError};
use crate::connection::ConnectionError;
use crate::rancher::RancherApi;
use crate::registry::Context;
use crate::socket::{self, Socket};
use crate::tls::TlsSettings;

/// How long containers may take to report twice. They report about once a second.
const REPORTS_WITHIN: Duration = Duration::from_secs(5);
/// What is left of a query's time after the last report.
const RESERVE: Duration = Duration::from_millis(200);
/// The longest message, which has one element for each container.
const MESSAGE_LIMIT: usize = 4 << 20;
/// How many instances are requested at the same time.
const CONCURRENTLY: usize = 16;

struct RancherStats {
    client: Client,
    api: RancherApi,
}

pub(super) fn open(context: &Context, settings: &Value) -> Result<Box<dyn MetricSource>, String> {
    let api = RancherApi::open(context, settings)?;
    Ok(Box::new(RancherStats { client: context.client.clone(), api }))
}

/// The fields of a service that are read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Service {
    #[serde(default)]
    links: BTreeMap<String, String>,
    #[serde(default)]
    instance_ids: Option<Vec<String>>,
}

/// Where the stats of a service are read.
#[derive(Deserialize)]
struct Access {
    url: Option<String>,
    #[serde(default)]
    token: String,
}

/// The fields of an instance that are read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Instance {
    /// The memory limit in bytes.
    memory: Option<u64>,
    /// The reserved memory in bytes.
    memory_reservation: Option<u64>,
    /// The reserved CPU in thousandths of a core.
    milli_cpu_reservation: Option<u64>,
}

impl MetricSource for RancherStats {
    fn query<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Answer, QueryError>> {
        Box::pin(async move {
            let (usage, target) =
                UsageQuery::of_service(query, "rancher", |target| target.rancher.as_ref())?;
            let service = self.api.service(&target.service, None).await?;
            let service: Service = service.success()?.json()?;
            let Some(readings) = self.readings(&service, usage.metric, query.deadline).await?
            else {
                return Ok(Answer::NoData);
            };
            let values = self.values(&service, &readings, usage).await?;
            let expected = service.instance_ids.map_or(values.len(), |ids| ids.len());
            if values.len() * 2 < expected {
                let problem = format!("stats of {} of {expected} containers", values.len());
                return Err(self.wrong(&target.service, problem));
            }
            Ok(mean(query, &values))
        })
    }
}

impl RancherStats {
    /// Reads the stats of a service's containers; `None`: no container runs.
    async fn readings(
        &self,
        service: &Service,
        metric: Metric,
        deadline: Instant,
    ) -> Result<Option<Readings>, QueryError> {
        let link = service.links.get("containerStats");
        let link =
            link.ok_or_else(|| self.wrong("service", "no link containerStats".to_owned()))?;
        let access: Access = self.api.follow(link).await?.success()?.json()?;
        let Some(url) = access.url.filter(|url| !url.is_empty()) else { return Ok(None) };
        let mut socket = self.connect(&url, &access.token).await?;
        let containers: BTreeSet<String> = service.instance_ids.iter().flatten().cloned().collect();
        let mut readings = Readings::new(containers);
        let wanted = if metric == Metric::Cpu { 2 } else { 1 };
        let until = (Instant::now() + REPORTS_WITHIN)
            .min(deadline.checked_sub(RESERVE).unwrap_or(deadline));
        while !readings.has(wanted) {
            match tokio::time::timeout_at(until, socket.next()).await {
                Ok(Some(Ok(Message::Text(text)))) => readings.add(text.as_bytes()),
                Ok(Some(Ok(Message::Binary(bytes)))) => readings.add(&bytes),
                Ok(Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)))) => {}
                // The containers have ended, or the time is up: the mean is that of those that have reported.
                Ok(None | Some(Ok(Message::Close(_)))) | Err(_) => break,
                Ok(Some(Err(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)))) => {
                    break;
                }
                Ok(Some(Err(err))) => return Err(unreachable(&url, &err).into()),
            }
        }
        let _ = socket.close(None).await;
        Ok(Some(readings))
    }

    async fn connect(
        &self,
        url: &str,
        token: &str,
    ) -> Result<WebSocketStream<Box<dyn Socket>>, ConnectionError> {
        let wrong =
            |problem: String| ConnectionError::WrongAnswer { address: url.to_owned(), problem };
        let mut parsed =
            Url::parse(url).map_err(|err| wrong(format!("a websocket's address: {err}")))?;
        let tls = match parsed.scheme() {
            "ws" => None,
            "wss" => Some(TlsSettings::default()),
            other => return Err(wrong(format!("the scheme {other}; expected ws or wss"))),
        };
        let host = parsed.host_str().unwrap_or_default();
        let address = format!("{host}:{}", parsed.port_or_known_default().unwrap_or(80));
        let socket = socket::connect(&self.client, &address, tls.as_ref()).await?;
        parsed.query_pairs_mut().append_pair("token", token);
        let request = parsed.as_str().into_client_request();
        let request = request.map_err(|err| wrong(err.to_string()))?;
        let limits = WebSocketConfig::default().max_message_size(Some(MESSAGE_LIMIT));
        let opened =
            tokio_tungstenite::client_async_with_config(request, socket, Some(limits)).await;
        let (mut socket, _) = opened.map_err(|err| {
            let refused = if let Error::Http(answer) = &err { Some(answer.status()) } else { None };
            let is_unauthorized = |status: &StatusCode| matches!(status.as_u16(), 401 | 403);
            match refused.filter(is_unauthorized) {
                Some(status) => ConnectionError::Unauthorized {
                    address: url.to_owned(),
                    message: format!("its own token: {status}"),
                },
                None => unreachable(url, &err),
            }
        })?;
        // A token with the claim `payload` is sent again as the first message.
        if has_payload(token) {
            let sent = socket.send(Message::text(token)).await;
            sent.map_err(|err| unreachable(url, &err))?;
        }
        Ok(socket)
    }

    /// Returns the use of each container in percent.
    async fn values(
        &self,
        service: &Service,
        readings: &Readings,
        usage: UsageQuery,
    ) -> Result<Vec<f64>, QueryError> {
        let of_service = service.instance_ids.as_deref().unwrap_or_default();
        match (usage.metric, usage.relative_to) {
            (Metric::Cpu, None | Some(RelativeTo::Limit)) => {
                Ok(readings.cpu(of_service).into_iter().map(|(_, cores)| cores * 100.0).collect())
            }
            (Metric::Cpu, Some(RelativeTo::Request)) => {
                let whole = |instance: Instance| Some(instance.milli_cpu_reservation? as f64 / 1e3);
                self.shares(readings.cpu(of_service), whole, "CPU reservation").await
            }
            // The limit in the stats is the memory of the host.
            (Metric::Memory, None | Some(RelativeTo::Limit)) => {
                let whole = |instance: Instance| Some(instance.memory? as f64);
                self.shares(readings.memory(of_service), whole, "memory limit").await
            }
            (Metric::Memory, Some(RelativeTo::Request)) => {
                let whole = |instance: Instance| Some(instance.memory_reservation? as f64);
                self.shares(readings.memory(of_service), whole, "memory reservation").await
            }
        }
    }

    /// Returns the use of each container in percent of a setting of its instance; an instance without it is an error.
    async fn shares(
        &self,
        used: Vec<(String, f64)>,
        whole: impl Fn(Instance) -> Option<f64>,
        what: &str,
    ) -> Result<Vec<f64>, QueryError> {
        let whole = &whole;
        stream::iter(used)
            .map(|(id, used)| async move {
                let instance = self.api.instance(&id).await?;
                let whole = whole(instance.success()?.json()?).filter(|whole| *whole > 0.0);
                let whole = whole
                    .ok_or_else(|| self.wrong(&id, format!("an instance that has no {what}")))?;
                Ok::<_, QueryError>(used / whole * 100.0)
            })
            .buffer_unordered(CONCURRENTLY)
            .try_collect()
            .await
    }

    fn wrong(&self, id: &str, problem: String) -> QueryError {
        QueryError::WrongAnswer { url: format!("Rancher ({id})"), problem }
    }
}

fn unreachable(url: &str, err: &Error) -> ConnectionError {
    ConnectionError::Unreachable { address: url.to_owned(), message: err.to_string() }
}

/// Reports whether the claims of a token ask for the token to be sent as the first message.
fn has_payload(token: &str) -> bool {
    let claims = token.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
    let claims = claims.and_then(|claims| serde_json::from_slice::<Value>(&claims).ok());
    claims.is_some_and(|claims| claims["payload"] == Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_claims_of_a_token_decide_whether_it_is_sent_again() {
        let token = |claims: &str| format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims));
        assert!(has_payload(&token(r#"{"payload": true}"#)));
        for other in
            [token(r#"{"payload": false}"#), token("{}"), "none".to_owned(), "a.%.c".to_owned()]
        {
            assert!(!has_payload(&other), "{other}");
        }
    }
}
