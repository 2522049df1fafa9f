//! Writes that the API rejects, and writes whose response is lost.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tower::{BoxError, ServiceExt as _, service_fn};

use super::{World, settings};

type Answer = Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError>;

/// A write on its way to the engine.
struct Sent {
    /// How many came before it.
    number: usize,
    body: Value,
    request: Request<Bytes>,
    engine: engine::Service,
}

impl Sent {
    async fn pass(self) -> Answer {
        pass(self.engine, self.request).await
    }
}

async fn pass(engine: engine::Service, request: Request<Bytes>) -> Answer {
    let answer = engine.oneshot(request.map(Full::new)).await?;
    Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
}

/// What becomes of a write.
type Hook = Arc<dyn Fn(Sent) -> BoxFuture<'static, Answer> + Send + Sync>;

/// Returns a client whose writes to game servers pass a hook.
fn client(world: &World, hook: Hook) -> kube::Client {
    let engine = world.engine.service();
    let writes = Arc::new(AtomicUsize::new(0));
    let service = service_fn(move |request: Request<kube::client::Body>| {
        let (engine, hook, writes) = (engine.clone(), Arc::clone(&hook), Arc::clone(&writes));
        async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect().await?.to_bytes();
            let is_write = parts.method == "PATCH" && parts.uri.path().contains("/gameservers/");
            let body = serde_json::from_slice(&bytes).unwrap_or_default();
            let request = Request::from_parts(parts, bytes);
            if !is_write {
                return pass(engine, request).await;
            }
            let number = writes.fetch_add(1, Ordering::SeqCst);
            hook(Sent { number, body, request, engine }).await
        }
    });
    kube::Client::new(service, "default")
}

/// Answers a write as an API server refuses it.
fn refuse(code: u16, message: &str) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": "Invalid", "message": message,
    });
    let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {});
    Ok(Response::builder().status(code).body(body.boxed_unsync())?)
}

/// Waits until an event with the reason is there, and returns its message.
async fn event(world: &World, reason: &str) -> String {
    let events: Api<Event> = Api::default_namespaced(world.engine.client());
    let find = async {
        loop {
            let all = events.list(&ListParams::default()).await.unwrap();
            let found = all.items.into_iter().find(|e| e.reason.as_deref() == Some(reason));
            if let Some(found) = found {
                return found.message.unwrap_or_default();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(super::NEVER, find).await.expect("the event is recorded")
}

/// Waits until a change that is made now is stored, so that everything before it is.
async fn settle(world: &World, sdk: &mut agones::Sdk) -> Value {
    sdk.set_label("last", "one").await.unwrap();
    world.until("label", |s| s["metadata"]["labels"]["agones.dev/sdk-last"] == "one").await
}

#[tokio::test]
async fn a_state_is_written_though_the_label_beside_it_is_refused() {
    for (code, message) in [
        (422, "label: Invalid value"),
        (403, "admission webhook denied the request"),
        (500, "etcdserver: request is too large"),
    ] {
        let mut world = World::without_sdk(json!({})).await;
        // Holds the first write up until everything else is asked for, so that it is one write.
        let gate = Arc::new(Semaphore::new(0));
        let opened = Arc::clone(&gate);
        let hook: Hook = Arc::new(move |sent| {
            let gate = Arc::clone(&opened);
            Box::pin(async move {
                drop(gate.acquire().await?);
                if sent.body["metadata"]["labels"]["agones.dev/sdk-bad"].is_string() {
                    return refuse(code, message);
                }
                sent.pass().await
            })
        });
        world.start_with(settings(), client(&world, hook)).await;
        let mut sdk = world.client().await;
        sdk.set_label("first", "one").await.unwrap();
        sdk.set_label("bad", "one").await.unwrap();
        sdk.set_label("good", "one").await.unwrap();
        sdk.beta().clone().increment_counter("rooms", 4).await.unwrap();
        sdk.allocate().await.unwrap();
        gate.add_permits(1);
        world.until_state("Allocated").await;
        let stored = settle(&world, &mut sdk).await;
        let labels = &stored["metadata"]["labels"];
        assert_eq!(labels["agones.dev/sdk-good"], "one", "{code}");
        assert!(labels["agones.dev/sdk-bad"].is_null(), "{code}");
        assert_eq!(stored["status"]["counters"]["rooms"]["count"], 5, "{code}");
        let note = event(&world, "SDKChangeRefused").await;
        assert!(note.contains("label agones.dev/sdk-bad"), "{note}");
        assert!(note.contains(message), "{note}");
    }
}

#[tokio::test]
async fn a_forbidden_write_is_made_once_it_is_permitted() {
    let mut world = World::without_sdk(json!({})).await;
    let hook: Hook = Arc::new(|sent| {
        Box::pin(async move {
            match sent.number {
                0..3 => refuse(403, "User \"sdk\" cannot patch resource \"gameservers\""),
                _ => sent.pass().await,
            }
        })
    });
    world.start_with(settings(), client(&world, hook)).await;
    let mut sdk = world.client().await;
    sdk.set_label("good", "one").await.unwrap();
    sdk.allocate().await.unwrap();
    world.until_state("Allocated").await;
    world.until("label", |s| s["metadata"]["labels"]["agones.dev/sdk-good"] == "one").await;
}

#[tokio::test]
async fn a_write_that_was_made_without_an_answer_counts_once() {
    let mut world = World::without_sdk(json!({})).await;
    let servers = world.servers.clone();
    let hook: Hook = Arc::new(move |sent| {
        let servers = servers.clone();
        Box::pin(async move {
            if sent.number > 0 {
                return sent.pass().await;
            }
            sent.pass().await?;
            // Another client writes before the object is read again.
            let other = json!({"status": {"lists": {"players": {"values": ["theirs"]}}}});
            let other = kube::api::Patch::Merge(other);
            servers.patch("gs", &Default::default(), &other).await?;
            Err("the connection broke".into())
        })
    });
    world.start_with(settings(), client(&world, hook)).await;
    let mut sdk = world.client().await;
    let mut beta = sdk.beta().clone();
    beta.increment_counter("rooms", 3).await.unwrap();
    world.until("theirs", |s| s["status"]["lists"]["players"]["values"] == json!(["theirs"])).await;
    let stored = settle(&world, &mut sdk).await;
    assert_eq!(stored["status"]["counters"]["rooms"]["count"], 4, "1 and 3, once");
    assert_eq!(beta.get_counter_count("rooms").await.unwrap(), 4);
}

#[tokio::test]
async fn a_write_that_is_made_after_it_was_sent_again_counts_once() {
    let mut world = World::without_sdk(json!({})).await;
    let late: Arc<Mutex<Option<Request<Bytes>>>> = Arc::default();
    let hook: Hook = Arc::new(move |sent| {
        let late = Arc::clone(&late);
        Box::pin(async move {
            if sent.number == 0 {
                *late.lock().unwrap() = Some(sent.request);
                return Err("the connection broke".into());
            }
            let request = late.lock().unwrap().take();
            if let Some(request) = request {
                pass(sent.engine.clone(), request).await?;
            }
            sent.pass().await
        })
    });
    world.start_with(settings(), client(&world, hook)).await;
    let mut sdk = world.client().await;
    let mut beta = sdk.beta().clone();
    beta.increment_counter("rooms", 3).await.unwrap();
    world.until("counted", |s| s["status"]["counters"]["rooms"]["count"] != 1).await;
    let stored = settle(&world, &mut sdk).await;
    assert_eq!(stored["status"]["counters"]["rooms"]["count"], 4, "1 and 3, once");
}

#[tokio::test]
async fn a_state_that_others_have_moved_on_from_is_not_written_again() {
    let mut world = World::without_sdk(json!({})).await;
    let servers = world.servers.clone();
    let hook: Hook = Arc::new(move |sent| {
        let servers = servers.clone();
        Box::pin(async move {
            if sent.number > 0 {
                return sent.pass().await;
            }
            sent.pass().await?;
            let allocated = json!({"status": {"state": "Allocated"}});
            let allocated = kube::api::Patch::Merge(allocated);
            servers.patch("gs", &Default::default(), &allocated).await?;
            Err("the connection broke".into())
        })
    });
    world.start_with(settings(), client(&world, hook)).await;
    let mut sdk = world.client().await;
    sdk.ready().await.unwrap();
    world.until_state("Allocated").await;
    let stored = settle(&world, &mut sdk).await;
    assert_eq!(stored["status"]["state"], "Allocated", "players are on it");
}

#[tokio::test]
async fn events_are_sent_after_the_task_that_sends_them_panicked() {
    let mut world = World::without_sdk(json!({})).await;
    let (engine, has_panicked) = (world.engine.service(), AtomicBool::new(false));
    let service = service_fn(move |request: Request<kube::client::Body>| {
        let is_event = request.method() == "POST" && request.uri().path().ends_with("/events");
        let panics = is_event && !has_panicked.swap(true, Ordering::SeqCst);
        let engine = engine.clone();
        async move {
            assert!(!panics, "on purpose");
            let (parts, body) = request.into_parts();
            pass(engine, Request::from_parts(parts, body.collect().await?.to_bytes())).await
        }
    });
    let settings = settings();
    let supervisor = settings.supervisor.clone();
    world.start_with(settings, kube::Client::new(service, "default")).await;
    let mut sdk = world.client().await;
    sdk.ready().await.unwrap();
    world.until_state("Ready").await;
    sdk.allocate().await.unwrap();
    event(&world, "Allocated").await;
    assert_eq!(
        supervisor.problems(),
        ["events of game server default/gs was started again a moment ago"]
    );
}
