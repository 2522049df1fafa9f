//! Outside systems as autoscalers meet them: over real sockets on loopback, and on an embedded engine.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing, also in its helpers")]

mod aws;
mod aws_groups;
mod cluster_api;
mod docker;
mod expander;
mod external_grpc;
mod failures;
mod haproxy;
mod metrics_api;
mod metrics_server;
mod moto;
mod nats;
mod program;
mod prometheus;
mod providers;
mod rabbitmq;
mod rancher;
mod real;
mod redis;
mod scaler;
mod server;
mod services;
mod sources;
mod stand_ins;
mod target_failures;
mod targets;
mod wasm;
mod webhook;

use api::agones::FleetStatus;
use api::autoscaling::{FleetAutoscaleRequest, Policy};
use decide::fleet::Reply;
use engine::Engine;
use plimsoll_connect::{Ask, Context};
use process::{Clock, Random, Supervisor};
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

/// Returns the message of a failure.
async fn failure(ask: &Ask, policy: &Policy) -> String {
    match asked(ask, policy).await {
        Reply::Failed(why) => why.to_string(),
        other @ (Reply::None | Reply::Keep | Reply::Scale(_)) => {
            panic!("expected a failure, found {other:?}")
        }
    }
}

/// Opens an engine that uses tokio's time, and returns it with the context of its clients.
async fn engine() -> (Engine, Context) {
    let clock = Clock::virtual_at(jiff::Timestamp::now());
    let settings = engine::Settings { clock: clock.clone(), ..engine::Settings::ephemeral() };
    let engine = Engine::open(settings).await.unwrap();
    let (random, supervisor) = (Random::seeded(1), Supervisor::new());
    let client = engine.client();
    let context = Context::new(client, clock, random, supervisor);
    (engine, context)
}
