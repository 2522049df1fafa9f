//! Metric sources: the values that they return, and their errors for bad answers.

use std::time::Duration;

use axum::extract::RawQuery;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Redirect;
use axum::routing::get;
use axum::{Json, Router};
use decide::checks::{Series, Window};
use jiff::{SignedDuration, Timestamp};
use plimsoll_connect::sources::{self, Answer, Query};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::engine;
use crate::server::Server;

fn query(text: &str, length: Option<i64>) -> Query {
    let length = length.map(SignedDuration::from_secs);
    Query {
        text: text.to_owned(),
        target: None,
        window: Window { length, offset: SignedDuration::ZERO },
        now: Timestamp::from_second(1_700_000_000).unwrap(),
        deadline: Instant::now() + Duration::from_secs(60),
    }
}

async fn answer(spec: Value, query: &Query) -> Result<Answer, String> {
    let (_engine, context) = engine().await;
    let source = sources::open(&context, spec.as_object().unwrap());
    source.map_err(|err| err.to_string())?.query(query).await.map_err(|err| err.to_string())
}

fn points(points: &[(i64, f64)]) -> Series {
    let point = |(at, value): &(i64, f64)| (Timestamp::from_second(*at).unwrap(), *value);
    Series::new(points.iter().map(point).collect(), None)
}

#[tokio::test]
async fn a_source_is_opened_by_the_name_of_its_block() {
    let http = json!({"url": "http://127.0.0.1:1/", "value": "/n"});
    for (spec, problem) in [
        (
            json!({}),
            "expected exactly one metric source, found none; known are docker, externalScaler, haproxy, http, kubernetes, nats, nomad, prometheus, rabbitmq, rancher, redis, sqs",
        ),
        (
            json!({"htttp": http}),
            "there is no metric source `htttp`; known are docker, externalScaler, haproxy, http, kubernetes, nats, nomad, prometheus, rabbitmq, rancher, redis, sqs",
        ),
        (
            json!({"http": http, "prometheus": {}}),
            "expected exactly one metric source, found http, prometheus; known are docker, externalScaler, haproxy, http, kubernetes, nats, nomad, prometheus, rabbitmq, rancher, redis, sqs",
        ),
        (
            json!({"http": {"uri": "x"}}),
            "metric source `http`: unknown field `uri`, expected `url` or `value`",
        ),
        (
            json!({"http": {"url": "ftp://x/"}}),
            "metric source `http`: url: `ftp://x/` cannot be called: expected http:// or https:// and a host",
        ),
        (
            json!({"http": {"url": "http://x/", "value": "n"}}),
            "metric source `http`: value: `n` is not a JSON pointer; write it like `/queue/length`",
        ),
        (json!({"timeout": "0s", "http": http}), "metric source `http`: timeout: must be positive"),
        (json!({"prometheus": {}}), "metric source `prometheus`: missing field `url`"),
    ] {
        assert_eq!(answer(spec, &query("", None)).await, Err(problem.to_owned()));
    }
}

#[tokio::test]
async fn an_http_source_returns_the_number_at_its_pointer() {
    let app = Router::new()
        .route("/load", get(|| async { Json(json!({"queue": {"length": 12.5, "age": null}})) }))
        .route("/down", get(|| async { StatusCode::SERVICE_UNAVAILABLE }))
        .route("/moved", get(|| async { Redirect::temporary("/load") }))
        .route("/huge", get(|| async { "1".repeat(5 << 20) }))
        .route("/infinite", get(|| async { r#"{"n": 1e999}"# }));
    let server = Server::plain(app).await;
    let ask = async |path: &str, pointer: &str, length| {
        let spec = json!({"http": {"url": format!("{}{path}", server.url), "value": pointer}});
        let answer = answer(spec, &query("ignored", length)).await;
        answer.map_err(|problem| problem.replace(&server.url, ""))
    };
    let found = Ok(Answer::Points(points(&[(1_700_000_000, 12.5)])));
    assert_eq!(ask("/load", "/queue/length", None).await, found);
    assert_eq!(ask("/load", "/queue/length", Some(60)).await, found);
    assert_eq!(ask("/load", "/queue/age", None).await, Ok(Answer::NoData));
    for (path, pointer, problem) in [
        ("/load", "/queue/depth", "/load answered with nothing at `/queue/depth`"),
        ("/load", "/queue", "/load answered with an object at `/queue`; expected a number"),
        ("/down", "", "/down answered 503 Service Unavailable; expected 200"),
        ("/moved", "", "/moved answered 307 Temporary Redirect; expected 200"),
        ("/huge", "", "/huge answered more than 4194304 bytes"),
    ] {
        assert_eq!(ask(path, pointer, None).await, Err(problem.to_owned()));
    }
    let infinite = ask("/infinite", "/n", None).await.unwrap_err();
    assert!(infinite.contains("number out of range"), "{infinite}");
}

#[tokio::test]
async fn an_http_source_has_no_history() {
    let mut query = query("", Some(60));
    query.window.offset = SignedDuration::from_secs(1);
    let problem = answer(json!({"http": {"url": "http://127.0.0.1:1/"}}), &query).await;
    assert!(problem.unwrap_err().contains("windowOffset must be 0s"));
}

#[tokio::test]
async fn a_source_that_is_down_or_slow_is_an_error() {
    let app = Router::new().route("/", get(std::future::pending::<()>));
    let server = Server::plain(app).await;
    let url = server.url.replace("//", "//user:secret@");
    let slow = answer(json!({"timeout": "50ms", "http": {"url": url}}), &query("", None)).await;
    assert_eq!(slow, Err("no answer within 50 ms".to_owned()));
    drop(server);
    let down = answer(json!({"http": {"url": url}}), &query("", None)).await.unwrap_err();
    assert!(down.starts_with("could not reach http://127.0.0.1:"), "{down}");
    assert!(!down.contains("secret"), "{down}");
}

/// Answers as the API of Prometheus is documented to.
async fn prometheus(RawQuery(query): RawQuery, headers: HeaderMap) -> (StatusCode, Json<Value>) {
    let query = query.unwrap_or_default();
    if headers.get("x-scope-orgid").is_none_or(|id| id != "games") {
        let error = json!({"status": "error", "errorType": "bad_data", "error": "no org id"});
        return (StatusCode::UNAUTHORIZED, Json(error));
    }
    let is_range = query.contains("start=1699999940.000&end=1700000000.000&step=1");
    let data = if is_range {
        let values = json!([[1_699_999_990, "1"], [1_699_999_991, "NaN"], [1_700_000_000, "2"]]);
        json!({"resultType": "matrix", "result": [{"metric": {}, "values": values}]})
    } else {
        assert!(query.contains("time=1700000000.000"), "{query}");
        json!({"resultType": "vector", "result": [{"metric": {}, "value": [1_700_000_000, "3"]}]})
    };
    (StatusCode::OK, Json(json!({"status": "success", "data": data})))
}

#[tokio::test]
async fn prometheus_is_asked_for_the_window_or_for_the_newest_point() {
    let app = Router::new()
        .route("/prefix/api/v1/query_range", get(prometheus))
        .route("/prefix/api/v1/query", get(prometheus));
    let server = Server::plain(app).await;
    let url = format!("{}/prefix", server.url);
    let spec = json!({"prometheus": {"url": url, "headers": {"X-Scope-OrgID": "games"}}});
    let window = answer(spec.clone(), &query("sum(a)", Some(60))).await.unwrap();
    let wanted = [(1_699_999_990, 1.0), (1_700_000_000, 2.0)]
        .map(|(at, value)| (Timestamp::from_second(at).unwrap(), value));
    let step = Some(SignedDuration::from_secs(1));
    assert_eq!(window, Answer::Points(Series::new(wanted.to_vec(), step)));
    let instant = answer(spec, &query("sum(a)", None)).await;
    assert_eq!(instant, Ok(Answer::Points(points(&[(1_700_000_000, 3.0)]))));
    let refused = answer(json!({"prometheus": {"url": url}}), &query("sum(a)", None)).await;
    assert!(refused.unwrap_err().ends_with("refused the query: bad_data: no org id"));
}
