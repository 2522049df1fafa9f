//! Queries to real servers.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use decide::checks::Window;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Api, PostParams};
use plimsoll_connect::Context;
use plimsoll_connect::sources::{self, Answer, MetricSource, Query};
use plimsoll_connect::targets::TargetRef;
use process::{Clock, Random, Supervisor};
use serde_json::{Value, json};
use tokio::time::Instant;

pub(crate) use crate::program::{Program, free_port, variable};
use crate::server::Server;

/// Serves a stand-in for the API server, and returns the context of its clients.
pub(crate) async fn stand_in(app: Router) -> (Server, Context) {
    let server = Server::plain(app).await;
    let context = context_at(&server.url);
    (server, context)
}

/// Returns the context of clients of the API server at an address.
pub(crate) fn context_at(url: &str) -> Context {
    let mut config = kube::Config::new(url.parse().unwrap());
    // A refusal is returned, not retried until the deadline.
    config.default_retry = false;
    let client = kube::Client::try_from(config).unwrap();
    let (clock, random, supervisor) = (Clock::system(), Random::seeded(1), Supervisor::new());
    Context::new(client, clock, random, supervisor)
}

/// Writes a credential to the namespace that sources read it from.
pub(crate) async fn secret(context: &Context, name: &str, key: &str, value: &str) {
    let namespaces: Api<Namespace> = Api::all(context.client.clone());
    let namespace = json!({"metadata": {"name": "plimsoll-system"}});
    let namespace = serde_json::from_value(namespace).unwrap();
    let _ = namespaces.create(&PostParams::default(), &namespace).await;
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), "plimsoll-system");
    let data = [(key.to_owned(), ByteString(value.as_bytes().to_vec()))].into();
    let mut secret = Secret { data: Some(data), ..Default::default() };
    secret.metadata.name = Some(name.to_owned());
    secrets.create(&PostParams::default(), &secret).await.unwrap();
}

pub(crate) fn open(context: &Context, spec: Value) -> Arc<dyn MetricSource> {
    sources::open(context, spec.as_object().unwrap()).map_err(|err| err.to_string()).unwrap()
}

pub(crate) fn target(spec: Value) -> TargetRef {
    TargetRef { namespace: "default".to_owned(), spec: serde_json::from_value(spec).unwrap() }
}

/// Queries the current value.
pub(crate) async fn ask(source: &dyn MetricSource, text: &str) -> Result<Answer, String> {
    ask_about(source, text, None).await
}

pub(crate) async fn ask_about(
    source: &dyn MetricSource,
    text: &str,
    target: Option<TargetRef>,
) -> Result<Answer, String> {
    let query = Query {
        text: text.to_owned(),
        target,
        window: Window { length: None, offset: SignedDuration::ZERO },
        now: Timestamp::now(),
        deadline: Instant::now() + Duration::from_secs(30),
    };
    source.query(&query).await.map_err(|err| err.to_string())
}

/// Returns the newest value of an answer.
pub(crate) fn value(answer: &Result<Answer, String>) -> f64 {
    let Ok(Answer::Points(series)) = answer else { panic!("expected points, found {answer:?}") };
    *series.between(Timestamp::MIN, Timestamp::MAX).last().unwrap()
}
