//! A panic while reconciling a definition is reported and retried.

use std::sync::atomic::{AtomicBool, Ordering};

use process::{Clock, Random, Supervisor};

use super::*;
use crate::History;
use crate::access::Access;
use crate::store::Store;

const NAME: &str = "widgets.example.com";

fn core(clock: Clock) -> Arc<Core> {
    let store = Store::in_memory(Clock::system(), History::default());
    let access = Access::generate().unwrap();
    Core::new(store, clock, Random::system(), Supervisor::new(), &access, "test".to_owned())
}

fn definition() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME, "uid": "u", "generation": 1},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
        "status": {},
    })
}

/// Writes to the store without validation.
async fn write(core: &Core, collection: &str, key: &str, object: Option<&Value>) {
    let expected = core.store.get(collection, key).map(|object| object.version());
    let (collection, key) = (Arc::from(collection), Arc::from(key));
    let write = Write { collection, key, expected, body: object.map(Body::new) };
    core.store.write(write).await.unwrap();
}

/// Writes the definition and updates the registry, as a request does.
async fn write_definition(core: &Arc<Core>, definition: &Value) {
    write(core, COLLECTION, NAME, Some(definition)).await;
    let served = core.registry.served();
    let definitions = served.find("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    on_write(core, definitions.unwrap());
}

async fn until(is_so: impl Fn() -> bool) {
    let so = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), so).await.expect("condition not met within 60 s");
}

fn has_problem(core: &Core, task: &str) -> bool {
    core.supervisor.problems().iter().any(|problem| problem.contains(task))
}

#[tokio::test]
async fn a_panic_while_updating_a_definition_status_is_reported_and_retried() {
    let core = core(Clock::system());
    start(&core);
    let mut broken = definition();
    broken["status"] = "not an object".into();
    write_definition(&core, &broken).await;
    until(|| has_problem(&core, "status of CustomResourceDefinitions ended unexpectedly")).await;
    write(&core, COLLECTION, NAME, Some(&definition())).await;
    until(|| {
        let stored = core.store.get(COLLECTION, NAME).and_then(|object| read(NAME, &object));
        stored.is_some_and(|crd| is_established(&crd))
    })
    .await;
    core.stop();
}

#[tokio::test]
async fn a_panic_while_finalizing_a_definition_is_reported_and_retried() {
    let is_broken = Arc::new(AtomicBool::new(true));
    let clock_broken = Arc::clone(&is_broken);
    let core = core(Clock::from_fn(move || {
        assert!(!clock_broken.load(Ordering::Relaxed), "on purpose");
        jiff::Timestamp::UNIX_EPOCH
    }));
    start(&core);
    write(&core, NAME, "default/w", Some(&json!({"metadata": {"name": "w"}}))).await;
    let mut deleted = definition();
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    deleted["metadata"]["finalizers"] = json!([FINALIZER]);
    write_definition(&core, &deleted).await;
    until(|| has_problem(&core, &format!("deletion of CustomResourceDefinition {NAME}"))).await;
    is_broken.store(false, Ordering::Relaxed);
    until(|| core.store.get(COLLECTION, NAME).is_none()).await;
    assert!(core.store.get(NAME, "default/w").is_none());
    until(|| core.terminating().is_empty()).await;
    core.stop();
}
