//! kube-runtime's parts run unchanged on the engine, under paused time.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::runtime::controller::Action;
use kube::runtime::events::{EventType, Recorder, Reporter};
use kube::runtime::finalizer::{Event as Finalizer, finalizer};
use kube::runtime::{Controller, WatchStreamExt as _, reflector, watcher};
use kube::{Client, Resource as _, ResourceExt as _};
use plimsoll_engine::{Engine, History, Settings};
use serde_json::json;

use crate::ephemeral;

fn named(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.metadata.labels = Some([("of".to_owned(), "test".to_owned())].into());
    map
}

#[derive(Debug, thiserror::Error)]
#[error("it went wrong")]
struct Failed;

/// Marks each object, records an event, and cleans up when the object is deleted.
async fn reconcile(map: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, Failed> {
    let maps: Api<ConfigMap> = Api::default_namespaced(Client::clone(&client));
    finalizer(&maps, "test.plimsoll.dev/clean", map, |event| async {
        if let Finalizer::Apply(map) = event {
            let mark = Patch::Merge(json!({"data": {"marked": "yes"}}));
            maps.patch(&map.name_any(), &PatchParams::default(), &mark)
                .await
                .map_err(|_| Failed)?;
            let recorder = Recorder::new(Client::clone(&client), Reporter::from("test"));
            let event = kube::runtime::events::Event {
                type_: EventType::Normal,
                reason: "Marked".into(),
                note: None,
                action: "Mark".into(),
                secondary: None,
            };
            recorder.publish(&event, &map.object_ref(&())).await.map_err(|_| Failed)?;
        }
        Ok::<_, Failed>(Action::await_change())
    })
    .await
    .map_err(|_| Failed)
}

#[tokio::test(start_paused = true)]
async fn a_controller_with_finalizer_and_events_runs() {
    let engine = ephemeral().await;
    let client = engine.client();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let config = watcher::Config::default().labels("of=test");
    let controller = Controller::new(maps.clone(), config).run(
        reconcile,
        |_, _, _| Action::requeue(Duration::from_secs(1)),
        Arc::new(client.clone()),
    );
    let running = tokio::spawn(controller.for_each(|_| async {}));
    maps.create(&PostParams::default(), &named("a")).await.unwrap();
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if maps.get("a").await.unwrap().data.is_some() {
            break;
        }
    }
    let map = maps.get("a").await.unwrap();
    assert_eq!(map.data.unwrap()["marked"], "yes");
    assert_eq!(map.metadata.finalizers.unwrap(), ["test.plimsoll.dev/clean"]);
    let events: Api<Event> = Api::default_namespaced(client);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!events.list(&ListParams::default()).await.unwrap().items.is_empty());
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(maps.get_opt("a").await.unwrap().is_none(), "the finalizer let it go");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_reflector_holds_what_is_there() {
    let engine = ephemeral().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(engine.client());
    let (reader, writer) = reflector::store();
    let config = watcher::Config::default().labels("of=test").streaming_lists();
    let stream = watcher(maps.clone(), config).reflect(writer).applied_objects();
    let running = tokio::spawn(stream.for_each(|_| async {}));
    maps.create(&PostParams::default(), &named("a")).await.unwrap();
    reader.wait_until_ready().await.unwrap();
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        if reader.len() == 1 {
            break;
        }
    }
    assert_eq!(reader.state()[0].name_any(), "a");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_lease_changes_hands_once() {
    let engine = ephemeral().await;
    let leases: Api<Lease> = Api::default_namespaced(engine.client());
    let lease: Lease = serde_json::from_value(json!({
        "metadata": {"name": "leader"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15},
    }))
    .unwrap();
    let held = leases.create(&PostParams::default(), &lease).await.unwrap();
    let take = |who: &str| {
        let mut lease = held.clone();
        lease.spec.as_mut().unwrap().holder_identity = Some(who.to_owned());
        lease
    };
    leases.replace("leader", &PostParams::default(), &take("b")).await.unwrap();
    let late = leases.replace("leader", &PostParams::default(), &take("c")).await;
    assert!(matches!(late, Err(kube::Error::Api(status)) if status.code == 409));
    assert_eq!(
        leases.get("leader").await.unwrap().spec.unwrap().holder_identity.as_deref(),
        Some("b")
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_an_expired_version_gets_an_error_and_ends() {
    let history = History { at_most: 10, ..History::default() };
    let engine = Engine::open(Settings { history, ..crate::settings() }).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(engine.client());
    for index in 0..20 {
        maps.create(&PostParams::default(), &named(&format!("m{index}"))).await.unwrap();
    }
    let events: Vec<_> = maps.watch(&WatchParams::default(), "2").await.unwrap().collect().await;
    assert!(
        matches!(&events[..], [Ok(WatchEvent::Error(status))] if status.code == 410),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_keeps_up_is_never_too_old_however_little_is_kept() {
    let history = History { at_most: 10, bytes: 1, ..History::default() };
    let engine = Engine::open(Settings { history, ..Settings::ephemeral() }).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(engine.client());
    let first = maps.create(&PostParams::default(), &named("first")).await.unwrap();
    let version = first.resource_version().unwrap();
    let events = maps.watch(&WatchParams::default(), &version).await.unwrap();
    // All of them come before the watch can read a single one.
    for index in 0..500 {
        maps.create(&PostParams::default(), &named(&format!("m{index}"))).await.unwrap();
    }
    let events: Vec<_> = events.take(500).collect().await;
    for (index, event) in events.iter().enumerate() {
        let name = format!("m{index}");
        assert!(
            matches!(event, Ok(WatchEvent::Added(map)) if map.name_any() == name),
            "{index}: {event:?}"
        );
    }
    assert_eq!(events.len(), 500);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_does_not_read_gets_an_error_and_keeps_nothing() {
    let history = History { bytes: 1 << 20, ..History::default() };
    let engine = Engine::open(Settings { history, ..Settings::ephemeral() }).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(engine.client());
    let first = maps.create(&PostParams::default(), &named("first")).await.unwrap();
    let version = first.resource_version().unwrap();
    let events = maps.watch(&WatchParams::default(), &version).await.unwrap();
    let mut large = named("large");
    for index in 0..30 {
        let text = format!("{index}").repeat(400_000);
        large.data = Some([("text".to_owned(), text)].into());
        match index {
            0 => maps.create(&PostParams::default(), &large).await.unwrap(),
            _ => maps.replace("large", &PostParams::default(), &large).await.unwrap(),
        };
    }
    let events: Vec<_> = events.collect().await;
    assert!(
        matches!(&events[..], [Ok(WatchEvent::Error(status))] if status.code == 410),
        "{} events",
        events.len()
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_a_quiet_kind_outlasts_a_storm_of_another() {
    let history = History { at_most: 10, ..History::default() };
    let engine = Engine::open(Settings { history, ..crate::settings() }).await.unwrap();
    let leases: Api<Lease> = Api::default_namespaced(engine.client());
    let lease = |name: &str| Lease { metadata: named(name).metadata, spec: None };
    let first = leases.create(&PostParams::default(), &lease("first")).await.unwrap();
    let version = first.resource_version().unwrap();
    let events = leases.watch(&WatchParams::default(), &version).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(engine.client());
    for index in 0..20 {
        maps.create(&PostParams::default(), &named(&format!("m{index}"))).await.unwrap();
    }
    leases.create(&PostParams::default(), &lease("second")).await.unwrap();
    let event = std::pin::pin!(events).next().await;
    assert!(
        matches!(&event, Some(Ok(WatchEvent::Added(lease))) if lease.name_any() == "second"),
        "{event:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_its_time_is_up_and_marks_where_it_is() {
    let engine = ephemeral().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(engine.client());
    let made = maps.create(&PostParams::default(), &named("a")).await.unwrap();
    let params = WatchParams::default().timeout(150);
    let version = made.resource_version().unwrap();
    let events: Vec<_> = maps.watch(&params, &version).await.unwrap().collect().await;
    let bookmarks = events.iter().filter(|e| matches!(e, Ok(WatchEvent::Bookmark(_)))).count();
    assert_eq!(bookmarks, 2, "one a minute: {events:?}");
}
