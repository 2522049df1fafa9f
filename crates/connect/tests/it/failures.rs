//! How every source that is reached over HTTP fails: down, slow, overloaded, with credentials that are refused, and with an answer that is
//! none of its own. What is special to one of them is tested in its own file.

use axum::Router;
use axum::http::StatusCode;
use axum::response::Html;
use axum::routing::any;
use plimsoll_connect::Context;
use plimsoll_connect::sources::QueryError;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use crate::engine;
use crate::real::{context_at, free_port, open, stand_in, target};
use crate::server::Server;

/// A source, and a query that it would answer.
struct Case {
    name: &'static str,
    spec: Value,
    query: String,
    target: Value,
}

/// Returns a query to each source at an address.
fn sources(url: &str) -> Vec<Case> {
    let docker = json!({"docker": {"service": "web"}});
    let nomad = json!({"nomad": {"job": "web", "group": "api"}});
    let rancher = json!({"rancher": {"service": "1s5"}});
    let address = url.trim_start_matches("http://");
    let mut all = vec![
        ("http", json!({"http": {"url": url}}), String::new(), json!({})),
        ("prometheus", json!({"prometheus": {"url": url}}), "up".to_owned(), json!({})),
        ("nats", json!({"nats": {"url": url}}), "STREAM/CONSUMER".to_owned(), json!({})),
        ("rabbitmq", json!({"rabbitmq": {"url": url}}), "jobs/messages".to_owned(), json!({})),
        ("nomad", json!({"nomad": {"address": url}}), "avg_cpu".to_owned(), nomad),
        ("rancher", json!({"rancher": {"url": url, "project": "1a5"}}), "cpu".to_owned(), rancher),
        ("docker", json!({"docker": {"host": url}}), "cpu".to_owned(), docker),
        (
            "haproxy, a page",
            json!({"haproxy": {"stats": [format!("{url}/haproxy_stats")]}}),
            "frontend/web/req_tot".to_owned(),
            json!({}),
        ),
        (
            "haproxy, its exporter",
            json!({"haproxy": {"stats": [format!("{url}/metrics")]}}),
            "frontend/web/req_tot".to_owned(),
            json!({}),
        ),
        (
            "externalScaler",
            json!({"externalScaler": {"address": address}}),
            "length".to_owned(),
            json!({}),
        ),
    ];
    if std::env::var_os("AWS_ACCESS_KEY_ID").is_some() {
        let sqs = json!({"sqs": {"region": "eu-west-1", "endpoint": url}});
        all.push(("sqs", sqs, format!("{url}/000/jobs"), json!({})));
    }
    all.into_iter().map(|(name, spec, query, target)| Case { name, spec, query, target }).collect()
}

/// Serves one answer at every path.
async fn answering(status: StatusCode, body: &'static str) -> Server {
    Server::plain(Router::new().fallback(any(move || async move { (status, Html(body)) }))).await
}

async fn failure(context: &Context, mut case: Case) -> QueryError {
    case.spec["timeout"] = json!("2s");
    let source = open(context, case.spec);
    let query = plimsoll_connect::sources::Query {
        text: case.query,
        target: (case.target != json!({})).then(|| target(case.target)),
        window: decide::checks::Window { length: None, offset: jiff::SignedDuration::ZERO },
        now: jiff::Timestamp::now(),
        deadline: Instant::now() + Duration::from_secs(30),
    };
    match source.query(&query).await {
        Err(error) => error,
        Ok(answer) => panic!("{}: {answer:?}", case.name),
    }
}

#[tokio::test]
async fn every_source_that_is_down_is_unreachable() {
    let (_engine, context) = engine().await;
    for case in sources(&format!("http://127.0.0.1:{}", free_port().await)) {
        let name = case.name;
        let error = failure(&context, case).await;
        assert!(error.is_unreachable() && !error.is_about_query(), "{name}: {error}");
        assert!(error.to_string().starts_with("could not reach "), "{name}: {error}");
    }
}

#[tokio::test]
async fn every_source_that_does_not_answer_is_too_slow() {
    let (_engine, context) = engine().await;
    let server = Server::plain(Router::new().fallback(any(std::future::pending::<()>))).await;
    for case in sources(&server.url) {
        let name = case.name;
        let error = failure(&context, case).await;
        assert!(error.is_unreachable(), "{name}: {error}");
        assert!(error.to_string().starts_with("no answer within "), "{name}: {error}");
    }
}

#[tokio::test]
async fn every_source_that_refuses_the_credentials_says_so() {
    let (_engine, context) = engine().await;
    for status in [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN] {
        let server = answering(status, "go away").await;
        // A scaler refuses with a code of gRPC, which is tested with a real one.
        for case in sources(&server.url).into_iter().filter(|case| case.name != "externalScaler") {
            let name = case.name;
            let error = failure(&context, case).await;
            assert!(!error.is_unreachable() && !error.is_about_query(), "{name}: {error:?}");
        }
    }
}

#[tokio::test]
async fn every_source_that_is_overloaded_or_answers_with_a_web_page_is_an_error_about_the_query() {
    let (_engine, context) = engine().await;
    for (status, body) in
        [(StatusCode::SERVICE_UNAVAILABLE, "busy"), (StatusCode::OK, "<html>welcome</html>")]
    {
        let server = answering(status, body).await;
        // A scaler that does not speak gRPC cannot be told from one that is down.
        for case in sources(&server.url).into_iter().filter(|case| case.name != "externalScaler") {
            let name = case.name;
            let error = failure(&context, case).await;
            assert!(!error.is_unreachable() && error.is_about_query(), "{name}: {error:?}");
        }
    }
}

#[tokio::test]
async fn an_api_server_that_is_slow_or_down_is_an_error_of_the_source_kubernetes() {
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let case = || Case {
        name: "kubernetes",
        spec: json!({"kubernetes": {}}),
        query: "cpu".to_owned(),
        target: web.clone(),
    };
    let (server, context) = stand_in(Router::new().fallback(any(std::future::pending::<()>))).await;
    let slow = failure(&context, case()).await.to_string();
    assert!(slow.starts_with("no answer within "), "{slow}");
    drop(server);
    failure(&context, case()).await;
    let context = context_at(&format!("http://127.0.0.1:{}", free_port().await));
    let down = failure(&context, Case { query: "external/jobs".to_owned(), ..case() }).await;
    assert!(down.is_unreachable(), "{down}");
    assert!(down.to_string().starts_with("could not reach the API server: "), "{down}");
}
