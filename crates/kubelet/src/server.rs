//! The kubelet's HTTP API: `/containerLogs/{namespace}/{pod}/{container}`, `/pods`, `/metrics/resource`, `/healthz`, and the
//! sessions of `/exec`, `/attach` and `/portForward`.
//!
//! A client presents a certificate of the configured authority, or the token. All others get 401.

mod tls;

use std::convert::Infallible;
use std::sync::Arc;

use api::PodLogOptions;
use bytes::Bytes;
use futures::StreamExt as _;
use http::{Method, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::service::service_fn;
use k8s_openapi::api::core::v1::Pod;
use percent_encoding::percent_decode_str;
use process::listen::{self, Known, Limits, Peer, RequestBody, Tls, VerifiedClient};
use serde_json::json;
use subtle::ConstantTimeEq as _;
use tokio::net::TcpListener;

use crate::container_logs::{ContainerLogError, ContainerLogs};
use crate::error::StartError;
use crate::metrics::ResourceMetrics;
use crate::pods::PodIndex;
use crate::settings::ServerSettings;
use crate::streaming::{StreamRefused, Streaming};

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A bound listener that does not serve yet.
pub(crate) struct Server {
    listener: TcpListener,
    port: u16,
    tls: Tls,
    token: Option<Arc<str>>,
}

impl Server {
    /// Binds the port.
    pub(crate) async fn bind(settings: ServerSettings) -> Result<Self, StartError> {
        let address = settings.address;
        let config = tls::config(&settings).map_err(StartError::Certificates)?;
        let failed = |source| StartError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let tls = Tls { config: Arc::new(config), admits: Arc::new(|_| true) };
        let token = settings.token.filter(|token| !token.is_empty()).map(Arc::from);
        Ok(Self { listener, port, tls, token })
    }

    /// Returns the port that it listens on.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Serves requests for as long as it is polled.
    pub(crate) async fn serve(
        self,
        logs: ContainerLogs,
        pods: Arc<PodIndex>,
        metrics: ResourceMetrics,
        streaming: Streaming,
    ) {
        let Self { listener, tls, token, .. } = self;
        let settings = listen::Settings {
            limits: Limits::USUAL,
            known: Known::ByService,
            tls: Some(Arc::new(move || tls.clone())),
        };
        let service = service_fn(move |request: Request<RequestBody>| {
            let is_authorized = is_authorized(&request, token.as_deref());
            let (logs, pods, streaming) = (logs.clone(), Arc::clone(&pods), streaming.clone());
            let metrics = metrics.clone();
            async move {
                let response = if !is_authorized {
                    text(StatusCode::UNAUTHORIZED, "Unauthorized")
                } else if Streaming::serves(request.uri().path()) {
                    open_session(request, &streaming).await
                } else if request.uri().path() == "/metrics/resource" {
                    measured(&metrics).await
                } else {
                    answer(&request, &logs, &pods)
                };
                Ok::<_, Infallible>(response)
            }
        });
        listen::serve(listener, settings, service, std::future::pending()).await;
    }
}

/// Whether the client of a request is authorized.
fn is_authorized<B>(request: &Request<B>, token: Option<&str>) -> bool {
    let presented = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    let presented = presented.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    let has_token =
        token.is_some_and(|token| bool::from(token.as_bytes().ct_eq(presented.trim().as_bytes())));
    let is_authorized = has_token || request.extensions().get::<VerifiedClient>().is_some();
    if is_authorized && let Some(peer) = request.extensions().get::<Peer>() {
        peer.is_known();
    }
    is_authorized
}

fn text(status: StatusCode, message: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(message.into()).boxed_unsync());
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("text/plain");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Returns the totals of this machine's pods in Prometheus' text format.
async fn measured(metrics: &ResourceMetrics) -> Response<Body> {
    match metrics.text().await {
        Some(measured) => text(StatusCode::OK, measured),
        None => text(StatusCode::SERVICE_UNAVAILABLE, "the kubelet is stopping"),
    }
}

/// Opens a session.
async fn open_session(request: Request<RequestBody>, streaming: &Streaming) -> Response<Body> {
    match streaming.answer(request.map(|_| ())).await {
        Ok(response) => response.map(|()| Full::default().boxed_unsync()),
        Err(StreamRefused { code, message }) => {
            text(StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), message)
        }
    }
}

fn answer<B>(request: &Request<B>, logs: &ContainerLogs, pods: &PodIndex) -> Response<Body> {
    if request.method() != Method::GET {
        return text(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed");
    }
    let segments: Vec<&str> = request.uri().path().trim_matches('/').split('/').collect();
    match segments[..] {
        ["healthz"] => text(StatusCode::OK, "ok"),
        ["pods"] => {
            let pods = pods.list();
            let items: Vec<&Pod> = pods.iter().map(|pod| &**pod).collect();
            let list =
                json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items});
            let mut response = text(StatusCode::OK, list.to_string());
            let kind = header::HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            response
        }
        ["containerLogs", namespace, pod, container] => {
            let options = match log_options(request.uri().query().unwrap_or_default()) {
                Ok(options) => options,
                Err(why) => return text(StatusCode::BAD_REQUEST, why),
            };
            match logs.read(namespace, pod, container, &options) {
                Ok(stream) => {
                    let mut response = text(StatusCode::OK, "");
                    let frames = stream.map(|chunk| Ok(Frame::data(chunk)));
                    *response.body_mut() = StreamBody::new(frames).boxed_unsync();
                    response
                }
                Err(ContainerLogError::NotFound(why)) => text(StatusCode::NOT_FOUND, why),
                Err(ContainerLogError::NotAvailable(why)) => text(StatusCode::BAD_REQUEST, why),
            }
        }
        _ => text(StatusCode::NOT_FOUND, "404 page not found"),
    }
}

/// Reads the options of a log request as the API server sends them.
fn log_options(query: &str) -> Result<PodLogOptions, String> {
    let mut options = PodLogOptions::default();
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        let invalid = || format!("invalid value {value:?} of {name}");
        let flag = || value.parse::<bool>().map_err(|_| invalid());
        match name {
            "follow" => options.follow = flag()?,
            "previous" => options.previous = flag()?,
            "timestamps" => options.timestamps = flag()?,
            "sinceSeconds" => {
                options.since_seconds = Some(value.parse().map_err(|_| invalid())?);
            }
            "sinceTime" => {
                let time = percent_decode_str(value).decode_utf8_lossy();
                options.since_time = Some(time.parse().map_err(|_| invalid())?);
            }
            "tailLines" => options.tail_lines = Some(value.parse().map_err(|_| invalid())?),
            "limitBytes" => options.limit_bytes = Some(value.parse().map_err(|_| invalid())?),
            _ => {}
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_options_are_those_that_the_api_server_sends() {
        let query = "follow=true&tailLines=3&sinceTime=2026-01-02T03%3A04%3A05Z&timestamps=true&limitBytes=9&stream=All";
        let options = log_options(query).unwrap();
        assert!(options.follow && options.timestamps && !options.previous);
        assert_eq!((options.tail_lines, options.limit_bytes), (Some(3), Some(9)));
        assert_eq!(options.since_time.unwrap().to_string(), "2026-01-02T03:04:05Z");
        assert_eq!(log_options("tailLines=x").unwrap_err(), "invalid value \"x\" of tailLines");
    }

    #[test]
    fn only_the_token_or_a_verified_certificate_is_admitted() {
        let with = |value: &str| {
            Request::get("/healthz").header(header::AUTHORIZATION, value).body(()).unwrap()
        };
        assert!(is_authorized(&with("Bearer secret"), Some("secret")));
        for (value, token) in
            [("Bearer other", Some("secret")), ("secret", Some("secret")), ("Bearer ", None)]
        {
            assert!(!is_authorized(&with(value), token), "{value}");
        }
        let mut verified = with("");
        verified.extensions_mut().insert(VerifiedClient);
        assert!(is_authorized(&verified, None));
    }
}
