//! The thread that commits to disk has panicked: the supervisor of the engine reports it, and everything can still be stopped.

use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, PostParams};
use kubelet::{Settings as RuntimeSettings, Simulated};
use plimsoll_engine::Engine;
use serde_json::json;

/// Panics when it is woken by the store's thread, and else wakes as usual.
struct PanicOnStoreThread(Waker);

impl Wake for PanicOnStoreThread {
    fn wake(self: Arc<Self>) {
        let thread = std::thread::current();
        assert_ne!(thread.name(), Some("plimsoll-store"), "on purpose");
        self.0.wake_by_ref();
    }
}

/// Waits for a write in a way that the thread which commits it does not survive.
async fn break_store(write: impl Future + Send) {
    let mut write = std::pin::pin!(write);
    let broken = std::future::poll_fn(|context| {
        let waker = Waker::from(Arc::new(PanicOnStoreThread(context.waker().clone())));
        write.as_mut().poll_unpin(&mut Context::from_waker(&waker)).map(drop)
    });
    // The panic may come before the thread has returned the result of the write.
    let _: Result<(), _> = tokio::time::timeout(Duration::from_secs(1), broken).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_of_the_store_ends_the_process_and_nothing_waits_for_the_store_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let settings = plimsoll_engine::Settings::in_directory(dir.path());
    let supervisor = settings.supervisor.clone();
    let engine = Engine::open(settings).await.unwrap();
    let simulated = Simulated { count: 1, ..Simulated::default() };
    let runtime = RuntimeSettings { local: None, simulated: Some(simulated) };
    let runtime = engine.run(runtime).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(engine.client());
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();

    let maps: Api<ConfigMap> = Api::default_namespaced(engine.client());
    let mut map = ConfigMap::default();
    map.metadata.name = Some("last".to_owned());
    break_store(maps.create(&PostParams::default(), &map)).await;

    let ended = tokio::time::timeout(Duration::from_secs(60), supervisor.ended()).await;
    let ended = ended.expect("the supervisor knows").to_string();
    assert!(ended.starts_with("plimsoll-store ended unexpectedly: it panicked"), "{ended}");
    let ready = http::Request::get("/readyz").body(Vec::new()).unwrap();
    let refused = engine.client().request_text(ready).await.unwrap_err().to_string();
    assert!(refused.contains("plimsoll-store ended unexpectedly"), "{refused}");
    map.metadata.name = Some("later".to_owned());
    let late = maps.create(&PostParams::default(), &map).await;
    assert!(matches!(late, Err(kube::Error::Api(status)) if status.code == 503));
    // As `plimsoll up` does when a task ends that it needs.
    engine.stop();
    let stopped = tokio::time::timeout(Duration::from_secs(60), runtime.stop(Duration::ZERO)).await;
    stopped.expect("the pods are let go");
}
