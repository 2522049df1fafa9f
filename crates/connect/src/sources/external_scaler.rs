//! KEDA's external scalers, by gRPC: the query is the name of a metric. A scaler that is not active counts as 0.
//!
//! Scalers that push are watched with `StreamIsActive`, so that policies are evaluated as soon as something changes.

mod messages;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};
use http::uri::PathAndQuery;
use serde::Deserialize;
use serde_json::Value;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use self::messages::{
    GetMetricsRequest, GetMetricsResponse, IsActiveResponse, MetricValue, ScaledObjectRef,
};
use super::{Answer, MetricSource, Query, QueryError};
use crate::connection::ConnectionError;
use crate::grpc::{GrpcServer, root_cause};
use crate::registry::{Context, read_settings};
use crate::tls::TlsSettings;

/// How long after a stream ended the next one is opened: at first, and at most.
const FIRST_BACKOFF: Duration = Duration::from_secs(2);
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    /// Host and port.
    address: String,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    tls: Option<TlsSettings>,
}

#[derive(Clone)]
struct ExternalScaler {
    address: String,
    metadata: BTreeMap<String, String>,
    channel: Channel,
}

pub(super) fn open(context: &Context, settings: &Value) -> Result<Box<dyn MetricSource>, String> {
    let Settings { address, mut metadata, tls } = read_settings(settings)?;
    let channel = GrpcServer::new(context, &address, tls)?.channel();
    metadata.entry("scalerAddress".to_owned()).or_insert_with(|| address.clone());
    Ok(Box::new(ExternalScaler { address, metadata, channel }))
}

impl MetricSource for ExternalScaler {
    fn query<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Answer, QueryError>> {
        Box::pin(async move {
            query.expect_present("externalScaler")?;
            let target = query.target.as_ref();
            let object = ScaledObjectRef {
                name: target.and_then(|target| target.spec.name.clone()).unwrap_or_default(),
                namespace: target.map_or_else(String::new, |target| target.namespace.clone()),
                scaler_metadata: self.metadata.clone(),
            };
            let active: IsActiveResponse = self.call("IsActive", object.clone()).await?;
            if !active.result {
                return Ok(Answer::now(query, 0.0));
            }
            let metric_name = query.text.clone();
            let request = GetMetricsRequest { scaled_object_ref: Some(object), metric_name };
            let metrics: GetMetricsResponse = self.call("GetMetrics", request).await?;
            let found = find(&metrics.metric_values, &query.text);
            let found = found.map_err(|problem| self.wrong(problem))?;
            Ok(found.map_or(Answer::NoData, |number| Answer::now(query, number)))
        })
    }

    fn changes(&self) -> Option<BoxStream<'static, ()>> {
        let watch = Watch { scaler: self.clone(), stream: None, backoff: FIRST_BACKOFF };
        Some(
            stream::unfold(
                watch,
                |mut watch| async move { watch.next().await.then_some(((), watch)) },
            )
            .boxed(),
        )
    }
}

/// Finds the value of a metric; `None` where the scaler has no values at all. Some scalers answer about the only metric they have without
/// its name.
fn find(values: &[MetricValue], name: &str) -> Result<Option<f64>, String> {
    let named = values.iter().find(|value| value.metric_name == name);
    let found = match (named, values) {
        (Some(found), _) => found,
        (None, []) => return Ok(None),
        (None, [only]) if only.metric_name.is_empty() => only,
        (None, others) => {
            let names: Vec<String> =
                others.iter().take(5).map(|value| format!("`{}`", value.metric_name)).collect();
            let (noun, names) =
                (if others.len() == 1 { "metric" } else { "metrics" }, names.join(", "));
            return Err(format!("the {noun} {names}; expected `{name}`"));
        }
    };
    match found.number() {
        number if number.is_finite() => Ok(Some(number)),
        number => Err(format!("{number} for `{name}`; expected a number")),
    }
}

impl ExternalScaler {
    async fn call<Q, A>(&self, method: &str, request: Q) -> Result<A, QueryError>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.map_err(|err| self.unreachable(&err))?;
        let codec: ProstCodec<Q, A> = ProstCodec::default();
        let answer = grpc.unary(Request::new(request), path(method)?, codec).await;
        answer.map(tonic::Response::into_inner).map_err(|status| self.failed(&status))
    }

    async fn stream_is_active(&self) -> Result<Streaming<IsActiveResponse>, QueryError> {
        let object =
            ScaledObjectRef { scaler_metadata: self.metadata.clone(), ..Default::default() };
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.map_err(|err| self.unreachable(&err))?;
        let codec: ProstCodec<ScaledObjectRef, IsActiveResponse> = ProstCodec::default();
        let answer =
            grpc.server_streaming(Request::new(object), path("StreamIsActive")?, codec).await;
        answer.map(tonic::Response::into_inner).map_err(|status| self.failed(&status))
    }

    fn wrong(&self, problem: String) -> QueryError {
        QueryError::WrongAnswer { url: self.address.clone(), problem }
    }

    fn unreachable(&self, error: &(dyn std::error::Error + 'static)) -> QueryError {
        let (address, message) = (self.address.clone(), root_cause(error));
        ConnectionError::Unreachable { address, message }.into()
    }

    fn failed(&self, status: &Status) -> QueryError {
        let (address, message) = (self.address.clone(), status.message().to_owned());
        let code = status.code();
        if matches!(code, Code::Unauthenticated | Code::PermissionDenied) {
            return ConnectionError::Unauthorized { address, message }.into();
        }
        // The transport's own errors have a source; the code `Unknown` without one is the scaler's.
        let has_source = std::error::Error::source(status).is_some();
        if has_source && matches!(code, Code::Unavailable | Code::Unknown | Code::Cancelled) {
            return self.unreachable(status);
        }
        if code == Code::Unavailable {
            return ConnectionError::Unreachable { address, message }.into();
        }
        if code == Code::Unimplemented {
            let problem = format!("{address} is not an external scaler: {message}");
            return QueryError::Unsupported(problem);
        }
        QueryError::Refused { url: address, message: format!("{code:?}: {message}") }
    }
}

fn path(method: &str) -> Result<PathAndQuery, QueryError> {
    let path = format!("/externalscaler.ExternalScaler/{method}");
    path.parse().map_err(|_| QueryError::Unsupported(path))
}

/// The stream with which a scaler pushes.
struct Watch {
    scaler: ExternalScaler,
    stream: Option<Streaming<IsActiveResponse>>,
    backoff: Duration,
}

impl Watch {
    /// Waits for the next message; false when the scaler does not push.
    async fn next(&mut self) -> bool {
        loop {
            if let Some(stream) = &mut self.stream {
                match stream.message().await {
                    Ok(Some(_)) => {
                        self.backoff = FIRST_BACKOFF;
                        return true;
                    }
                    // Some scalers answer the call, and say at the first message that they do not push.
                    Err(status) if status.code() == Code::Unimplemented => return false,
                    Ok(None) | Err(_) => self.stream = None,
                }
            } else {
                match self.scaler.stream_is_active().await {
                    Ok(stream) => {
                        self.stream = Some(stream);
                        continue;
                    }
                    Err(QueryError::Unsupported(_)) => return false,
                    Err(_) => {}
                }
            }
            tokio::time::sleep(self.backoff).await;
            self.backoff = (self.backoff * 2).min(LONGEST_BACKOFF);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_the_newer_field_or_the_older_one() {
        let value = |name: &str, whole, float| MetricValue {
            metric_name: name.to_owned(),
            metric_value: whole,
            metric_value_float: float,
        };
        assert_eq!(value("a", 3, 0.0).number(), 3.0);
        assert_eq!(value("a", 3, 2.5).number(), 2.5);
        assert_eq!(value("a", 3, -2.5).number(), 3.0, "as in KEDA");
        assert_eq!(value("a", 0, -2.5).number(), -2.5);
        let two = [value("a", 1, 0.0), value("b", 2, 0.0)];
        assert_eq!(find(&two, "b"), Ok(Some(2.0)));
        assert!(find(&two, "c").is_err());
        assert_eq!(find(&[value("", 7, 0.0)], "c"), Ok(Some(7.0)));
        assert_eq!(find(&[], "c"), Ok(None));
    }
}
