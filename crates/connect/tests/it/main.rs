//! Webhooks and modules as an autoscaler meets them: over real sockets, on loopback.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing, also in its helpers")]

mod server;
mod wasm;
mod webhook;

use api::agones::FleetStatus;
use api::autoscaling::{FleetAutoscaleRequest, Policy};
use decide::fleet::Reply;
use plimsoll_connect::Ask;
use serde_json::{Value, json};

fn request() -> FleetAutoscaleRequest {
    FleetAutoscaleRequest {
        uid: "u1".to_owned(),
        name: "simple".to_owned(),
        namespace: "games".to_owned(),
        status: FleetStatus { replicas: 10, allocated_replicas: 4, ..Default::default() },
        ..Default::default()
    }
}

fn policy(value: Value) -> Policy {
    serde_json::from_value(value).unwrap()
}

fn webhook(url: &str) -> Policy {
    policy(json!({"type": "Webhook", "webhook": {"url": url}}))
}

async fn asked(ask: &Ask, policy: &Policy) -> Reply {
    ask.about("fas", policy, request()).await
}

/// Gives what is said about a failure.
async fn failure(ask: &Ask, policy: &Policy) -> String {
    match asked(ask, policy).await {
        Reply::Failed(why) => why.to_string(),
        other @ (Reply::None | Reply::Keep | Reply::Scale(_)) => {
            panic!("expected a failure, found {other:?}")
        }
    }
}
