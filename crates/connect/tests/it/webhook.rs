//! Webhooks: requests, trusted certificates, and errors for bad answers.

use std::time::Duration;

use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use decide::fleet::Reply;
use plimsoll_connect::Ask;
use serde_json::{Value, json};

use crate::server::Server;
use crate::{asked, failure, policy, webhook};

/// Wants as many as are allocated and three more, if it is asked as it should be.
async fn sizer(Json(review): Json<Value>) -> Json<Value> {
    assert_eq!(review["request"]["name"], "simple");
    assert_eq!(review["request"]["namespace"], "games");
    assert_eq!(review["response"], Value::Null);
    let replicas = review["request"]["status"]["allocatedReplicas"].as_i64().unwrap() + 3;
    let uid = &review["request"]["uid"];
    Json(json!({"response": {"uid": uid, "scale": true, "replicas": replicas}}))
}

fn sizing() -> Router {
    Router::new().route("/scale", post(sizer))
}

fn answering(status: StatusCode, body: &'static str) -> Router {
    Router::new().route("/scale", post(move || async move { (status, body) }))
}

#[tokio::test]
async fn a_webhook_returns_the_size_over_a_persistent_connection() {
    let server = Server::plain(sizing()).await;
    let ask = Ask::new();
    let webhook = webhook(&format!("{}/scale", server.url));
    for _ in 0..5 {
        assert_eq!(asked(&ask, &webhook).await, Reply::Scale(7));
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_webhook_must_have_a_certificate_of_the_bundle_and_no_other() {
    let (server, other) = (Server::secured(sizing()).await, Server::secured(sizing()).await);
    let ask = Ask::new();
    let trusting = |server: &Server, ca: &str| {
        let url = format!("{}/scale", server.url);
        policy(json!({"type": "Webhook", "webhook": {"url": url, "caBundle": ca}}))
    };
    let right = trusting(&server, &server.ca_bundle);
    assert_eq!(asked(&ask, &right).await, Reply::Scale(7));
    assert_eq!(asked(&ask, &right).await, Reply::Scale(7));
    assert_eq!(server.connections(), 1);
    let wrong = failure(&ask, &trusting(&server, &other.ca_bundle)).await;
    assert!(wrong.contains("could not reach https://") && wrong.contains("certificate"), "{wrong}");
}

#[tokio::test]
async fn a_schedule_calls_its_policys_webhook() {
    let server = Server::plain(sizing()).await;
    let url = format!("{}/scale", server.url);
    let schedule = policy(json!({"type": "Schedule", "schedule": {
        "policy": {"type": "Webhook", "webhook": {"url": url}}}}));
    assert_eq!(asked(&Ask::new(), &schedule).await, Reply::Scale(7));
}

#[tokio::test]
async fn a_bad_answer_is_reported() {
    let ask = Ask::new();
    let large: &'static str = Box::leak(" ".repeat(2 << 20).into_boxed_str());
    for (status, body, expected) in [
        (StatusCode::OK, r#"{"response": {"scale": false}}"#, None),
        (
            StatusCode::INTERNAL_SERVER_ERROR,
            "oh",
            Some("answered 500 Internal Server Error; expected 200"),
        ),
        (StatusCode::CREATED, r#"{"response": {}}"#, Some("answered 201 Created; expected 200")),
        (StatusCode::OK, "hello", Some("not JSON: expected value")),
        (StatusCode::OK, "{}", Some("it has no `response`")),
        (
            StatusCode::OK,
            r#"{"response": {"replicas": "7"}}"#,
            Some("response.replicas: invalid type"),
        ),
        (StatusCode::OK, large, Some("answered more than 1048576 bytes")),
    ] {
        let server = Server::plain(answering(status, body)).await;
        let webhook = webhook(&format!("{}/scale", server.url));
        match expected {
            None => assert_eq!(asked(&ask, &webhook).await, Reply::Keep),
            Some(expected) => {
                let found = failure(&ask, &webhook).await;
                assert!(found.contains(expected), "{found}");
            }
        }
    }
}

#[tokio::test]
async fn a_refused_connection_is_reported() {
    let ask = Ask::new();
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let found = failure(&ask, &webhook(&format!("http://{free}/"))).await;
    assert!(found.contains(&format!("could not reach http://{free}/")), "{found}");
    assert!(found.contains("refused"), "{found}");
}

#[tokio::test(start_paused = true)]
async fn a_webhook_has_fifteen_seconds() {
    let slow = Router::new().route(
        "/scale",
        post(|| async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            "{}"
        }),
    );
    let server = Server::plain(slow).await;
    let found = failure(&Ask::new(), &webhook(&format!("{}/scale", server.url))).await;
    assert!(found.ends_with("did not answer within 15 s"), "{found}");
}
