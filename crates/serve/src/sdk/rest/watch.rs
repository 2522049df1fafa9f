//! The watch over HTTP: one JSON object per line, or per frame of a WebSocket.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use futures::{Stream, StreamExt as _};
use serde::Serialize;

use super::answer::Failure;
use crate::proto::sdk;
use crate::sdk::core::Core;

#[derive(Serialize)]
struct Line<'a> {
    result: &'a sdk::GameServer,
}

pub(super) async fn game_server(
    State(core): State<Arc<Core>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    let lines = core.watching().await?.filter_map(|view| {
        let line = serde_json::to_string(&Line { result: &view });
        std::future::ready(line.ok())
    });
    if let Ok(upgrade) = upgrade {
        return Ok(upgrade.on_upgrade(|socket| frames(socket, lines)));
    }
    let lines = lines.map(|line| Ok::<_, Infallible>(line + "\n"));
    let json = [(header::CONTENT_TYPE, "application/json")];
    Ok((json, Body::from_stream(lines)).into_response())
}

/// Sends lines until there are no more, or the client goes.
async fn frames(mut socket: WebSocket, lines: impl Stream<Item = String>) {
    let mut lines = std::pin::pin!(lines);
    loop {
        tokio::select! {
            line = lines.next() => {
                let Some(line) = line else { break };
                if socket.send(Message::Text(line.into())).await.is_err() {
                    return;
                }
            }
            said = socket.recv() => match said {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            },
        }
    }
    // A client that does not hear the end sees the connection close.
    let _ = socket.send(Message::Close(None)).await;
}
