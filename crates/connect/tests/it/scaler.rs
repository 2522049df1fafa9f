//! The metric source `externalScaler` on a scaler that is written with grpcio, and on a stand-in that answers wrongly.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use futures::StreamExt as _;
use plimsoll_connect::sources::Answer;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tonic::server::Grpc;
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use crate::engine;
use crate::real::{Program, ask, ask_about, open, target, value, variable};
use crate::server::Server;

#[tokio::test]
async fn an_external_scaler_is_asked_and_may_push() {
    let Some(python) = variable("PLIMSOLL_TEST_PYTHON") else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/scaler.py");
    let scaler = Program::start(&python, |port, folder| {
        vec![script.to_owned(), port.to_string(), folder.display().to_string()]
    })
    .await;
    let (_engine, context) = engine().await;
    let address = format!("127.0.0.1:{}", scaler.port);
    let spec = |metadata| json!({"timeout": "2s", "externalScaler": {"address": address, "metadata": metadata}});
    let source = open(&context, spec(json!({"token": "t"})));
    assert_eq!(value(&ask(&*source, "length").await), 12.5);
    assert_eq!(value(&ask(&*source, "whole").await), 7.0);
    assert_eq!(ask(&*source, "none").await, Ok(Answer::NoData));
    let idle = target(json!({"kind": "Deployment", "name": "idle"}));
    assert_eq!(value(&ask_about(&*source, "length", Some(idle)).await), 0.0);
    let slow = ask(&*source, "slow").await.unwrap_err();
    assert!(slow.starts_with("no answer within "), "{slow}");
    let refused = ask(&*open(&context, spec(json!({}))), "length").await.unwrap_err();
    assert!(refused.ends_with("refused the credentials: who are you?"), "{refused}");
    let mut changes = source.changes().unwrap();
    for _ in 0..3 {
        changes.next().await.unwrap();
    }
    drop((changes, scaler));
    let down = ask(&*source, "length").await.unwrap_err();
    assert!(down.starts_with("could not reach 127.0.0.1:"), "{down}");
}

/// The messages of the protocol, as far as the stand-in needs them.
#[derive(Clone, PartialEq, prost::Message)]
struct Activity {
    #[prost(bool, tag = "1")]
    result: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct MetricsRequest {
    #[prost(string, tag = "2")]
    metric_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Metrics {
    #[prost(message, repeated, tag = "1")]
    values: Vec<Metric>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Metric {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int64, tag = "2")]
    whole: i64,
    #[prost(double, tag = "3")]
    float: f64,
}

async fn is_active(request: Request) -> Response {
    let active = async |_: tonic::Request<()>| Ok(tonic::Response::new(Activity { result: true }));
    let codec: ProstCodec<Activity, ()> = ProstCodec::default();
    Grpc::new(codec).unary(tower::service_fn(active), request).await.map(Body::new)
}

/// Answers as the name of the metric says.
async fn metrics(request: Request) -> Response {
    let answer = async |request: tonic::Request<MetricsRequest>| {
        let name = request.into_inner().metric_name;
        let metric = |name: &str, whole, float| Metric { name: name.to_owned(), whole, float };
        let values = match name.as_str() {
            "nothing" => vec![],
            "other" => vec![metric("length", 3, 0.0)],
            "others" => vec![metric("length", 3, 0.0), metric("age", 4, 0.0)],
            "negative" => vec![metric(&name, 0, -2.5)],
            "whole" => vec![metric(&name, -3, 0.0)],
            "not-a-number" => vec![metric(&name, 0, f64::NAN)],
            "infinite" => vec![metric(&name, 0, f64::INFINITY)],
            "overloaded" => return Err(Status::resource_exhausted("too many questions")),
            "unimplemented" => return Err(Status::new(Code::Unimplemented, "no metrics here")),
            other => panic!("nobody asks for {other}"),
        };
        Ok(tonic::Response::new(Metrics { values }))
    };
    let codec: ProstCodec<Metrics, MetricsRequest> = ProstCodec::default();
    Grpc::new(codec).unary(tower::service_fn(answer), request).await.map(Body::new)
}

const IS_ACTIVE: &str = "/externalscaler.ExternalScaler/IsActive";
const GET_METRICS: &str = "/externalscaler.ExternalScaler/GetMetrics";

#[tokio::test]
async fn a_scaler_that_answers_wrongly_is_an_error_and_never_a_size() {
    let app = Router::new().route(IS_ACTIVE, post(is_active)).route(GET_METRICS, post(metrics));
    let server = Server::plain(app).await;
    let address = server.url.trim_start_matches("http://");
    let (_engine, context) = engine().await;
    let source = open(&context, json!({"externalScaler": {"address": address}}));
    assert_eq!(ask(&*source, "nothing").await, Ok(Answer::NoData));
    for (query, wanted) in [("negative", -2.5), ("whole", -3.0)] {
        assert_eq!(value(&ask(&*source, query).await), wanted, "{query}");
    }
    for (query, wanted) in [
        ("other", "answered with the metric `length`; expected `other`"),
        ("others", "answered with the metrics `length`, `age`; expected `others`"),
        ("not-a-number", "answered with NaN for `not-a-number`; expected a number"),
        ("infinite", "answered with inf for `infinite`; expected a number"),
        ("overloaded", "refused the query: ResourceExhausted: too many questions"),
        ("unimplemented", "is not an external scaler: no metrics here"),
    ] {
        let found = ask(&*source, query).await.unwrap_err();
        assert_eq!(found, format!("{address} {wanted}"));
    }
}

#[tokio::test]
async fn a_server_that_is_no_scaler_is_an_error() {
    let (_engine, context) = engine().await;
    let of = |address: &str| open(&context, json!({"externalScaler": {"address": address}}));
    let garbage = |content_type: &'static str, body: &'static [u8]| {
        let answer = move || async move { ([(CONTENT_TYPE, content_type)], body).into_response() };
        Router::new().route(IS_ACTIVE, post(is_active)).route(GET_METRICS, post(answer))
    };
    let five_bytes = b"\0\0\0\0\x05\xff\xff\xff\xff\xff";
    for (app, wanted) in [
        (garbage("application/grpc", b"garbage"), "refused the query: Internal: protocol error: "),
        (garbage("application/grpc", five_bytes), "Internal: failed to decode Protobuf message: "),
        (garbage("text/html", b"<html>welcome</html>"), "Internal: protocol error: "),
        (Router::new(), "is not an external scaler: "),
    ] {
        let server = Server::plain(app).await;
        let found =
            ask(&*of(server.url.trim_start_matches("http://")), "length").await.unwrap_err();
        assert!(found.contains(wanted), "{found}");
    }
    // Not even HTTP/2.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let task = tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            drop(socket.write_all(b"220 mail.example.com ESMTP\r\n").await);
        }
    });
    let found = ask(&*of(&address), "length").await.unwrap_err();
    task.abort();
    assert!(found.starts_with(&format!("could not reach {address}: ")), "{found}");
}
