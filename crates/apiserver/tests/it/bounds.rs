//! Limits of single requests, and of the objects that they leave.

mod addresses;
mod definitions;
mod depth;
mod lists;
mod sizes;
mod waits;

use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, header};
use http_body_util::{BodyExt as _, Full};
use plimsoll_apiserver::ApiServer;
use serde_json::{Value, json};
use tower::Service as _;

/// How long a test may take that is over in seconds; with requests whose time grows with the square of their size it would
/// take far longer.
const SOON: Duration = Duration::from_secs(180);

pub(crate) const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// An answer: its code, its headers and its body, if that is JSON.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

/// Sends a request to an engine, without a client that would read or check anything.
pub(crate) async fn send(
    engine: &ApiServer,
    method: &str,
    path: &str,
    content_type: &str,
    body: impl Into<Bytes>,
) -> Answer {
    let request = Request::builder().method(method).uri(path);
    let request = request.header(header::CONTENT_TYPE, content_type);
    let request = request.body(Full::new(body.into())).unwrap();
    let reply = engine.service().call(request).await.unwrap();
    let (parts, body) = reply.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Answer { code: parts.status.as_u16(), headers: parts.headers, body }
}

pub(crate) async fn get(engine: &ApiServer, path: &str) -> Answer {
    send(engine, "GET", path, JSON, "").await
}

/// Runs a test on a thread with as much stack as a thread of the server has, and fails if it takes too long.
fn on_a_server_thread<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(move || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(test());
        let _ = done.send(());
    });
    match is_done.recv_timeout(SOON) {
        Ok(()) => {}
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it takes longer than {SOON:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            let failed = thread.unwrap().join().unwrap_err();
            std::panic::resume_unwind(failed);
        }
    }
}

/// Defines a kind `Thing` in `example.dev/v1` with a schema for its `spec`, and waits until it is served.
pub(crate) async fn define(engine: &ApiServer, spec: Value) {
    let names =
        json!({"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.dev"},
        "spec": {"group": "example.dev", "scope": "Namespaced", "names": names, "versions": [version]},
    });
    let made = send(engine, "POST", DEFINITIONS, JSON, definition.to_string()).await;
    assert_eq!(made.code, 201, "{}", made.body);
}

pub(crate) const THINGS: &str = "/apis/example.dev/v1/namespaces/default/things";

/// Builds a `Thing`.
pub(crate) fn thing(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.dev/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}
