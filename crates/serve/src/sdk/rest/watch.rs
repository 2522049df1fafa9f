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

use super::answer::ErrorResponse;
use crate::proto::sdk;
use crate::sdk::core::Core;

#[derive(Serialize)]
struct Line<'a> {
    result: &'a sdk::GameServer,
}

pub(super) async fn game_server(
    State(core): State<Arc<Core>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ErrorResponse> {
    let lines = core.watch_game_server().await?.filter_map(|update| {
        let line = serde_json::to_string(&Line { result: &update });
        std::future::ready(line.ok())
    });
    if let Ok(upgrade) = upgrade {
        return Ok(upgrade.on_upgrade(|socket| send_frames(socket, lines)));
    }
    let lines = lines.map(|line| Ok::<_, Infallible>(line + "\n"));
    let json = [(header::CONTENT_TYPE, "application/json")];
    Ok((json, Body::from_stream(lines)).into_response())
}

/// Sends each line as a frame until the stream ends or the client disconnects.
async fn send_frames(mut socket: WebSocket, lines: impl Stream<Item = String>) {
    let mut lines = std::pin::pin!(lines);
    loop {
        tokio::select! {
            line = lines.next() => {
                let Some(line) = line else { break };
                if socket.send(Message::Text(line.into())).await.is_err() {
                    return;
                }
            }
            received = socket.recv() => match received {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            },
        }
    }
    // If this fails, the client sees the connection close.
    let _ = socket.send(Message::Close(None)).await;
}
