//! The SDK over REST, for clients without gRPC: one path for each call, and the same answers as JSON.

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
use serde_json::Value;

use self::answer::{Answer, Failure, empty, reply};
use super::calls::Mask;
use super::core::Core;
use super::refusal::Refusal;
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
        .fallback(async || Failure::NOT_FOUND.into_response())
        .method_not_allowed_fallback(async || Failure::WRONG_VERB.into_response())
        .with_state(core)
}

async fn ready(State(core): Sdk, body: Bytes) -> Answer {
    read::<sdk::Empty>(&body)?;
    empty(core.set_ready().await)
}

async fn allocate(State(core): Sdk, body: Bytes) -> Answer {
    read::<sdk::Empty>(&body)?;
    empty(core.allocate().await)
}

async fn shutdown(State(core): Sdk, body: Bytes) -> Answer {
    read::<sdk::Empty>(&body)?;
    empty(core.shutdown().await)
}

async fn reserve(State(core): Sdk, body: Bytes) -> Answer {
    let asked: sdk::Duration = read(&body)?;
    empty(core.reserve(asked.seconds).await)
}

/// Takes signs of life as they come in: each JSON object is one, and the request may stay open for long.
async fn health(State(core): Sdk, body: Body) -> Result<Response, Failure> {
    let mut chunks = body.into_data_stream();
    let (mut rest, mut beats) = (Vec::new(), 0_u64);
    while let Some(chunk) = chunks.next().await {
        // A client that went away in the middle has said what it wanted.
        let Ok(chunk) = chunk else { break };
        rest.extend_from_slice(&chunk);
        let mut objects = serde_json::Deserializer::from_slice(&rest).into_iter::<Value>();
        let mut end = 0;
        while let Some(object) = objects.next() {
            match object {
                Ok(_) => {
                    core.ping();
                    (beats, end) = (beats + 1, objects.byte_offset());
                }
                Err(err) if err.is_eof() && rest.len() < MOST_WAITING => break,
                Err(err) => return Err(err.into()),
            }
        }
        rest.drain(..end);
    }
    if beats == 0 {
        return Ok(StatusCode::BAD_REQUEST.into_response());
    }
    empty(Ok(()))
}

/// The longest sign of life.
const MOST_WAITING: usize = 4096;

async fn game_server(State(core): Sdk) -> Answer {
    reply(core.game_server().await)
}

async fn set_label(State(core): Sdk, body: Bytes) -> Answer {
    let asked: sdk::KeyValue = read(&body)?;
    empty(core.set_label(&asked.key, &asked.value).await)
}

async fn set_annotation(State(core): Sdk, body: Bytes) -> Answer {
    let asked: sdk::KeyValue = read(&body)?;
    empty(core.set_annotation(&asked.key, &asked.value).await)
}

async fn counter(State(core): Sdk, Path(name): Path<String>) -> Answer {
    reply(core.counter(&name).await)
}

async fn update_counter(State(core): Sdk, Path(name): Path<String>, body: Bytes) -> Answer {
    let asked = beta::CounterUpdateRequest { name, ..read(&body)? };
    reply(core.update_counter(asked).await)
}

async fn list(State(core): Sdk, Path(name): Path<String>) -> Answer {
    reply(core.list(&name).await)
}

async fn update_list(
    State(core): Sdk,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> Answer {
    let asked = beta::List { name, ..read(&body)? };
    let mask = match mask_of(query.as_deref().unwrap_or_default()) {
        Some(paths) => Mask::read(paths.split("%2C").flat_map(|p| p.split(',')), &asked)?,
        None => mask_of_body(&body, &asked)?,
    };
    reply(core.update_list(asked, mask).await)
}

/// Finds the mask in a query.
fn mask_of(query: &str) -> Option<&str> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut masks = pairs.filter(|(key, _)| matches!(*key, "update_mask" | "updateMask"));
    masks.next().map(|(_, paths)| paths).filter(|paths| !paths.is_empty())
}

/// Without a mask, the fields that are there are meant.
fn mask_of_body(body: &[u8], asked: &beta::List) -> Result<Mask, Failure> {
    let fields: serde_json::Map<String, Value> = read(body)?;
    if fields.is_empty() {
        return Err(Refusal::argument("list: expected capacity, values or both").into());
    }
    Ok(Mask::read(fields.keys().map(String::as_str), asked)?)
}

/// Adds or removes a value: `lists/NAME:addValue`, `lists/NAME:removeValue`.
async fn list_value(State(core): Sdk, Path(path): Path<String>, body: Bytes) -> Answer {
    let value = read::<beta::AddListValueRequest>(&body).map(|asked| asked.value);
    match path.rsplit_once(':') {
        Some((name, "addValue")) => reply(core.add_value(name.to_owned(), &value?).await),
        Some((name, "removeValue")) => reply(core.remove_value(name.to_owned(), &value?).await),
        _ => Err(Failure::WRONG_VERB),
    }
}

async fn player_connect(State(core): Sdk, body: Bytes) -> Answer {
    let asked: alpha::PlayerId = read(&body)?;
    let bool = core.player_connect(&asked.player_id).await;
    reply(bool.map(|bool| alpha::Bool { bool }))
}

async fn player_disconnect(State(core): Sdk, body: Bytes) -> Answer {
    let asked: alpha::PlayerId = read(&body)?;
    let bool = core.player_disconnect(&asked.player_id).await;
    reply(bool.map(|bool| alpha::Bool { bool }))
}

async fn player_capacity(State(core): Sdk) -> Answer {
    reply(core.player_capacity().await.map(|count| alpha::Count { count }))
}

async fn set_player_capacity(State(core): Sdk, body: Bytes) -> Answer {
    let asked: alpha::Count = read(&body)?;
    empty(core.set_player_capacity(asked.count).await)
}

async fn player_count(State(core): Sdk) -> Answer {
    reply(core.player_count().await.map(|count| alpha::Count { count }))
}

async fn connected_players(State(core): Sdk) -> Answer {
    reply(core.connected_players().await.map(|list| alpha::PlayerIdList { list }))
}

async fn is_player_connected(State(core): Sdk, Path(id): Path<String>) -> Answer {
    reply(core.is_player_connected(&id).await.map(|bool| alpha::Bool { bool }))
}
