//! Tests of a full disk, and of the recovery from it.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use process::Clock;
use serde_json::json;
use tower::ServiceExt as _;

use super::super::{Body, Store, Write, WriteError};
use super::simulated::Simulated;
use super::*;
use crate::access::Access;
use crate::core::Core;
use crate::identity;
use crate::rest::internal;
use crate::service::Service;

fn open(medium: &Simulated) -> Store {
    let history = History::default();
    let opened = open_on(Arc::new(medium.clone()), "simulated", history).unwrap();
    Store::running(opened, Clock::system(), history, &process::Supervisor::new()).unwrap()
}

async fn create(store: &Store, name: &str) -> Result<Object, WriteError> {
    let body = Some(Body::new(&json!({"metadata": {"name": name}})));
    let (collection, key) = ("things".into(), format!("n/{name}").into());
    store.write(Write { collection, key, expected: None, body }).await
}

/// Waits until a condition holds, for as long as a slow machine may need.
async fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it never was so");
}

#[tokio::test]
async fn a_full_disk_refuses_writes_until_there_is_room_and_nothing_is_lost() {
    let medium = Simulated::new(19);
    let store = open(&medium);
    create(&store, "before").await.unwrap();
    for round in 0..3 {
        medium.set_full(true);
        let version = store.version();
        let refused = create(&store, "refused").await;
        assert!(
            matches!(&refused, Err(WriteError::Failed(why)) if why.contains("No space left on device")),
            "{refused:?}"
        );
        assert!(store.trouble().is_some_and(|why| why.contains("No space left on device")));
        assert!(create(&store, "refused").await.is_err());
        assert_eq!(store.version(), version);
        assert!(store.get("things", "n/before").is_some(), "reads still work");
        medium.set_full(false);
        until(|| store.trouble().is_none()).await;
        let next = create(&store, &format!("after-{round}")).await.unwrap();
        assert_eq!(next.version(), version + 1, "what was refused never happened");
    }
    let version = store.version();
    medium.cut_after(1);
    drop(store);
    medium.crash();
    let store = open(&medium);
    assert_eq!(store.version(), version);
    assert!(store.get("things", "n/refused").is_none());
    for name in ["before", "after-0", "after-1", "after-2"] {
        assert!(store.get("things", &format!("n/{name}")).is_some(), "{name}");
    }
}

#[tokio::test]
async fn a_full_disk_fails_readiness_and_writers_get_retry_after() {
    let medium = Simulated::new(20);
    let core = core(&medium);
    let service = Service::new(Arc::clone(&core));
    let send = async |method: &str, path: &str, body: &str| {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/json");
        let request = request.body(Full::new(bytes::Bytes::from(body.to_owned()))).unwrap();
        let answer = service.clone().oneshot(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        (parts, String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap())
    };
    assert_eq!(send("GET", "/readyz", "").await.0.status, StatusCode::OK);
    medium.set_full(true);
    let namespace = r#"{"metadata":{"name":"late"}}"#;
    let (refused, why) = send("POST", "/api/v1/namespaces", namespace).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE, "{why}");
    assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    assert!(why.contains("No space left on device") && why.contains("ServiceUnavailable"), "{why}");
    for path in ["/readyz", "/readyz?verbose", "/healthz"] {
        let (answer, text) = send("GET", path, "").await;
        assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "{path}");
        assert!(text.contains("[-]store failed") && text.contains("No space left"), "{text}");
    }
    assert_eq!(
        send("GET", "/livez", "").await.0.status,
        StatusCode::OK,
        "a restart would not help"
    );
    medium.set_full(false);
    until(|| core.store.trouble().is_none()).await;
    assert_eq!(send("GET", "/readyz", "").await.1, "ok");
    let (created, why) = send("POST", "/api/v1/namespaces", namespace).await;
    assert_eq!(created.status, StatusCode::CREATED, "{why}");
}

#[tokio::test]
async fn writes_of_the_engine_wait_until_the_disk_has_space() {
    let medium = Simulated::new(21);
    let core = core(&medium);
    crate::bootstrap::run(&core).await.unwrap();
    medium.set_full(true);
    assert!(create(&core.store, "refused").await.is_err());
    let namespaces = core.registry.served().find("", "v1", "namespaces").cloned().unwrap();
    let own = tokio::spawn({
        let core = Arc::clone(&core);
        async move {
            let name = json!({"metadata": {"name": "own"}});
            internal::create(&core, &namespaces, None, "test", name).await;
        }
    });
    assert!(core.store.get("namespaces", "own").is_none());
    medium.set_full(false);
    own.await.unwrap();
    assert!(core.store.get("namespaces", "own").is_some());
}

fn core(medium: &Simulated) -> Arc<Core> {
    Core::new(
        open(medium),
        Clock::system(),
        process::Random::system(),
        process::Supervisor::new(),
        &Access::generate().unwrap(),
        identity::random(),
    )
}

#[tokio::test]
async fn writes_of_the_engine_are_abandoned_when_the_store_is_closed() {
    let medium = Simulated::new(22);
    let core = core(&medium);
    crate::bootstrap::run(&core).await.unwrap();
    let namespaces = core.registry.served().find("", "v1", "namespaces").cloned().unwrap();
    core.store.close();
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    let name = json!({"metadata": {"name": "own"}});
    internal::create(&core, &namespaces, None, "test", name).await;
    assert!(!start.elapsed().is_zero(), "retries have a delay");
    assert!(core.store.get("namespaces", "own").is_none());
}
