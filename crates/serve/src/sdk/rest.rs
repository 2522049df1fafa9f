//! The SDK over REST, for clients without gRPC: one path for each call, with the same messages as JSON.

mod answer;
mod watch;

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, patch, post, put};
use futures::StreamExt as _;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use self::answer::{ErrorResponse, RestResult, empty, reply};
use super::calls::Mask;
use super::core::Core;
use super::error::CallError;
use crate::proto::json::read;
use crate::proto::{alpha, beta, sdk};

type Sdk = State<Arc<Core>>;

pub(super) fn router(core: Arc<Core>) -> Router {
    Router::new()
        .route("/ready", post(ready))
        .route("/allocate", post(allocate))
        .route("/shutdown", post(shutdown))
        .route("/health", post(health))
        .route("/reserve", post(reserve))
        .route("/gameserver", get(game_server))
        .route("/watch/gameserver", get(watch::game_server))
        .route("/metadata/label", put(set_label))
        .route("/metadata/annotation", put(set_annotation))
        .route("/v1beta1/counters/{name}", get(counter).merge(patch(update_counter)))
        .route("/v1beta1/lists/{name}", get(list).merge(patch(update_list)).merge(post(list_value)))
        .route("/alpha/player/connect", post(player_connect))
        .route("/alpha/player/disconnect", post(player_disconnect))
        .route("/alpha/player/capacity", get(player_capacity).merge(put(set_player_capacity)))
        .route("/alpha/player/count", get(player_count))
        .route("/alpha/player/connected", get(connected_players))
        .route("/alpha/player/connected/{id}", get(is_player_connected))
        .fallback(async || ErrorResponse::NOT_FOUND.into_response())
        .method_not_allowed_fallback(async || ErrorResponse::METHOD_NOT_ALLOWED.into_response())
        .with_state(core)
}

async fn ready(State(core): Sdk, body: Bytes) -> RestResult {
    read::<sdk::Empty>(&body)?;
    empty(core.set_ready().await)
}

async fn allocate(State(core): Sdk, body: Bytes) -> RestResult {
    read::<sdk::Empty>(&body)?;
    empty(core.allocate().await)
}

async fn shutdown(State(core): Sdk, body: Bytes) -> RestResult {
    read::<sdk::Empty>(&body)?;
    empty(core.shutdown().await)
}

async fn reserve(State(core): Sdk, body: Bytes) -> RestResult {
    let message: sdk::Duration = read(&body)?;
    empty(core.reserve(message.seconds).await)
}

/// Records health pings as they arrive: each JSON object is one, and the request may stay open.
async fn health(State(core): Sdk, body: Body) -> Result<Response, ErrorResponse> {
    let mut chunks = body.into_data_stream();
    let (mut rest, mut pings) = (Vec::new(), 0_u64);
    while let Some(chunk) = chunks.next().await {
        // Pings that arrived before a client disconnected have been recorded.
        let Ok(chunk) = chunk else { break };
        rest.extend_from_slice(&chunk);
        let mut objects = serde_json::Deserializer::from_slice(&rest).into_iter::<Value>();
        let mut end = 0;
        while let Some(object) = objects.next() {
            match object {
                Ok(_) => {
                    core.ping();
                    (pings, end) = (pings + 1, objects.byte_offset());
                }
                Err(err) if err.is_eof() && rest.len() < MAX_PING_BYTES => break,
                Err(err) => return Err(err.into()),
            }
        }
        rest.drain(..end);
    }
    if pings == 0 {
        return Ok(StatusCode::BAD_REQUEST.into_response());
    }
    empty(Ok(()))
}

/// The maximum size of an unfinished health ping.
const MAX_PING_BYTES: usize = 4096;

async fn game_server(State(core): Sdk) -> RestResult {
    reply(core.game_server().await)
}

async fn set_label(State(core): Sdk, body: Bytes) -> RestResult {
    let message: sdk::KeyValue = read(&body)?;
    empty(core.set_label(&message.key, &message.value).await)
}

async fn set_annotation(State(core): Sdk, body: Bytes) -> RestResult {
    let message: sdk::KeyValue = read(&body)?;
    empty(core.set_annotation(&message.key, &message.value).await)
}

async fn counter(State(core): Sdk, Path(name): Path<String>) -> RestResult {
    reply(core.counter(&name).await)
}

async fn update_counter(State(core): Sdk, Path(name): Path<String>, body: Bytes) -> RestResult {
    let message = beta::CounterUpdateRequest { name, ..read(&body)? };
    reply(core.update_counter(message).await)
}

async fn list(State(core): Sdk, Path(name): Path<String>) -> RestResult {
    reply(core.list(&name).await)
}

async fn update_list(
    State(core): Sdk,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> RestResult {
    let message = beta::List { name, ..read(&body)? };
    let mask = match mask_from_query(query.as_deref().unwrap_or_default()) {
        Some(paths) => {
            let paths = percent_decode_str(paths).decode_utf8_lossy();
            Mask::read(paths.split(','), &message)?
        }
        None => mask_from_body(&body, &message)?,
    };
    reply(core.update_list(message, mask).await)
}

/// Returns the update mask of a query.
fn mask_from_query(query: &str) -> Option<&str> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut masks = pairs.filter(|(key, _)| matches!(*key, "update_mask" | "updateMask"));
    masks.next().map(|(_, paths)| paths).filter(|paths| !paths.is_empty())
}

/// Returns a mask of the fields in the body, for requests without one.
fn mask_from_body(body: &[u8], message: &beta::List) -> Result<Mask, ErrorResponse> {
    let fields: serde_json::Map<String, Value> = read(body)?;
    if fields.is_empty() {
        return Err(CallError::invalid_argument("list: expected capacity, values or both").into());
    }
    Ok(Mask::read(fields.keys().map(String::as_str), message)?)
}

/// Adds or removes a value: `lists/NAME:addValue`, `lists/NAME:removeValue`.
async fn list_value(State(core): Sdk, Path(path): Path<String>, body: Bytes) -> RestResult {
    let value = read::<beta::AddListValueRequest>(&body).map(|message| message.value);
    match path.rsplit_once(':') {
        Some((name, "addValue")) => reply(core.add_list_value(name.to_owned(), &value?).await),
        Some((name, "removeValue")) => {
            reply(core.remove_list_value(name.to_owned(), &value?).await)
        }
        _ => Err(ErrorResponse::METHOD_NOT_ALLOWED),
    }
}

async fn player_connect(State(core): Sdk, body: Bytes) -> RestResult {
    let message: alpha::PlayerId = read(&body)?;
    let bool = core.player_connect(&message.player_id).await;
    reply(bool.map(|bool| alpha::Bool { bool }))
}

async fn player_disconnect(State(core): Sdk, body: Bytes) -> RestResult {
    let message: alpha::PlayerId = read(&body)?;
    let bool = core.player_disconnect(&message.player_id).await;
    reply(bool.map(|bool| alpha::Bool { bool }))
}

async fn player_capacity(State(core): Sdk) -> RestResult {
    reply(core.player_capacity().await.map(|count| alpha::Count { count }))
}

async fn set_player_capacity(State(core): Sdk, body: Bytes) -> RestResult {
    let message: alpha::Count = read(&body)?;
    empty(core.set_player_capacity(message.count).await)
}

async fn player_count(State(core): Sdk) -> RestResult {
    reply(core.player_count().await.map(|count| alpha::Count { count }))
}

async fn connected_players(State(core): Sdk) -> RestResult {
    reply(core.connected_players().await.map(|list| alpha::PlayerIdList { list }))
}

async fn is_player_connected(State(core): Sdk, Path(id): Path<String>) -> RestResult {
    reply(core.is_player_connected(&id).await.map(|bool| alpha::Bool { bool }))
}
