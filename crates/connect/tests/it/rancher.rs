//! The source `rancher` on a stand-in for Rancher 1: its API, and the websocket with the stats of containers.

use std::time::Duration;

use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, Query};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use plimsoll_connect::sources::Answer;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::engine;
use crate::real::{ask_about, open, secret, target, value};
use crate::server::Server;

/// The keys `access` and `s3cret`.
const KEYS: &str = "Basic YWNjZXNzOnMzY3JldA==";

#[derive(Deserialize)]
struct Token {
    token: String,
}

fn is_authorized(headers: &HeaderMap) -> bool {
    headers.get("authorization").is_some_and(|given| given == KEYS)
}

/// A service; its containers are named by its id.
async fn service(Path(id): Path<String>, headers: HeaderMap) -> Response {
    if !is_authorized(&headers) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let host = headers["host"].to_str().unwrap();
    let links = match id.as_str() {
        "missing" => return StatusCode::NOT_FOUND.into_response(),
        "elsewhere" => json!({"containerStats": "http://192.0.2.1/v2-beta/stats"}),
        _ => {
            json!({"containerStats": format!("http://{host}/v2-beta/projects/1a5/services/{id}/containerstats")})
        }
    };
    let instances =
        if id == "third" { json!(["1i7", "1i8", "1i9"]) } else { json!(["1i7", "1i8"]) };
    let service =
        json!({"id": id, "type": "service", "scale": 2, "links": links, "instanceIds": instances});
    Json(service).into_response()
}

async fn access(Path(id): Path<String>, headers: HeaderMap) -> Response {
    if !is_authorized(&headers) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let host = headers["host"].to_str().unwrap();
    let url = (id != "stopped").then(|| format!("ws://{host}/v1/containerstats/service/"));
    Json(json!({"type": "statsAccess", "url": url, "token": id})).into_response()
}

async fn instance(Path(id): Path<String>) -> Json<Value> {
    let memory = if id == "1i7" { 1000 } else { 2000 };
    Json(json!({"id": id, "memory": memory, "memoryReservation": 500, "milliCpuReservation": 500}))
}

async fn stats(Query(Token { token }): Query<Token>, upgrade: WebSocketUpgrade) -> Response {
    if token == "refused" {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    upgrade.on_upgrade(move |socket| send(socket, token)).into_response()
}

/// Sends what each container has counted, a second of stats every few milliseconds.
async fn send(mut socket: WebSocket, token: String) {
    let containers: &[(&str, u64)] = match token.as_str() {
        "silent" => &[],
        "ended" => return,
        "third" => &[("1i7", 250_000_000)],
        _ => &[("1i7", 250_000_000), ("1i8", 750_000_000)],
    };
    for second in 0..50_u64 {
        for (id, per_second) in containers {
            let element = json!({"id": id, "resourceType": "container", "memLimit": 64_000_000_000_u64,
                "timestamp": format!("2026-01-01T00:00:{second:02}.5Z"),
                "cpu": {"usage": {"total": second * per_second}}, "memory": {"usage": 500}});
            let zeros = json!({"id": "1i9", "timestamp": "0001-01-01T00:00:00Z"});
            for message in [json!([element]), json!([zeros])] {
                if socket.send(Message::text(format!("{message}\n"))).await.is_err() {
                    return;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_secs(600)).await;
}

#[tokio::test]
async fn the_stats_of_a_service_are_those_of_its_containers() {
    let app = Router::new()
        .route("/v2-beta/projects/1a5/services/{id}", get(service))
        .route("/v2-beta/projects/1a5/services/{id}/containerstats", get(access))
        .route("/v2-beta/projects/1a5/instances/{id}", get(instance))
        .route("/v1/containerstats/service/", get(stats));
    let server = Server::plain(app).await;
    let (_engine, context) = engine().await;
    secret(&context, "rancher", "access", "access").await;
    secret(&context, "rancher-secret", "secret", "s3cret").await;
    let block = |url: &str| {
        json!({"rancher": {"url": url, "project": "1a5",
            "accessKeyFrom": {"name": "rancher", "key": "access"},
            "secretKeyFrom": {"name": "rancher-secret", "key": "secret"}}})
    };
    let source = open(&context, block(&format!("{}/v2-beta", server.url)));
    let of = |service: &str| Some(target(json!({"rancher": {"service": service}})));

    let cpu = ask_about(&*source, "cpu", of("1s5")).await;
    assert!((value(&cpu) - 50.0).abs() < 1e-6, "the mean of 25 and 75: {cpu:?}");
    let memory = ask_about(&*source, "memory", of("1s5")).await;
    assert!((value(&memory) - 37.5).abs() < 1e-6, "the mean of 50 and 25: {memory:?}");
    for (query, wanted) in [
        ("cpu/limit", 50.0),
        ("cpu/request", 100.0),
        ("memory/limit", 37.5),
        ("memory/request", 100.0),
    ] {
        let found = value(&ask_about(&*source, query, of("1s5")).await);
        assert!((found - wanted).abs() < 1e-6, "{query}: {found}");
    }
    assert_eq!(ask_about(&*source, "cpu", of("stopped")).await, Ok(Answer::NoData));
    for (service, query, problem) in [
        ("third", "cpu", "stats of 1 of 3 containers"),
        ("silent", "cpu", "stats of 0 of 2 containers"),
        ("ended", "memory", "stats of 0 of 2 containers"),
        ("refused", "cpu", "refused the credentials"),
        ("elsewhere", "cpu", "which is on another server"),
        ("missing", "cpu", "404"),
        ("1s5", "network", "`network` is not a query of the source rancher"),
    ] {
        let found = ask_about(&*source, query, of(service)).await.unwrap_err();
        assert!(found.contains(problem), "{service}: {found}");
    }
    let other =
        ask_about(&*source, "cpu", Some(target(json!({"docker": {"service": "web"}})))).await;
    assert!(other.unwrap_err().contains("a target of the type rancher"));
    let down = open(&context, block("http://127.0.0.1:1/v2-beta"));
    assert!(ask_about(&*down, "cpu", of("1s5")).await.unwrap_err().contains("could not reach"));
}
