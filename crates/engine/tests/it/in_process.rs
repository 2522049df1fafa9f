//! kube's client and runtime on the engine's service, without a socket.

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use serde_json::json;

use crate::ephemeral;

fn config_map(name: &str, value: &str) -> ConfigMap {
    let mut map = ConfigMap {
        data: Some(BTreeMap::from([("k".into(), value.into())])),
        ..Default::default()
    };
    map.metadata.name = Some(name.to_owned());
    map.metadata.labels = Some(BTreeMap::from([("of".into(), "test".into())]));
    map
}

#[tokio::test]
async fn objects_are_made_read_changed_listed_and_deleted() {
    let engine = ephemeral().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(engine.client());
    let made = maps.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    assert!(made.metadata.uid.is_some() && made.metadata.creation_timestamp.is_some());
    let patch = Patch::Merge(json!({"data": {"k": "2"}}));
    let patched = maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(patched.data.unwrap()["k"], "2");
    let stale = maps.replace("a", &PostParams::default(), &made).await.unwrap_err();
    assert!(matches!(stale, kube::Error::Api(status) if status.code == 409));
    maps.create(&PostParams::default(), &config_map("b", "1")).await.unwrap();
    let page = maps.list(&ListParams::default().labels("of=test").limit(1)).await.unwrap();
    assert_eq!(page.items.len(), 1);
    // The rest of the list is as it was, though it has changed since.
    maps.delete("b", &DeleteParams::default()).await.unwrap();
    let token = page.metadata.continue_.unwrap();
    let rest = maps
        .list(&ListParams::default().labels("of=test").limit(1).continue_token(&token))
        .await
        .unwrap();
    assert_eq!(rest.items[0].metadata.name.as_deref(), Some("b"));
    assert_eq!(maps.list(&ListParams::default().labels("of=test")).await.unwrap().items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_sees_everything_in_order_under_paused_time() {
    let engine = ephemeral().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(engine.client());
    maps.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    let events = watcher(maps.clone(), watcher::Config::default().labels("of=test"));
    let mut names = Box::pin(events.try_filter_map(|event| async {
        Ok(match event {
            watcher::Event::Apply(map) | watcher::Event::InitApply(map) => map.metadata.name,
            watcher::Event::Delete(map) => map.metadata.name.map(|n| format!("-{n}")),
            watcher::Event::Init | watcher::Event::InitDone => None,
        })
    }));
    assert_eq!(names.next().await.unwrap().unwrap(), "a");
    maps.create(&PostParams::default(), &config_map("b", "1")).await.unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(names.next().await.unwrap().unwrap(), "b");
    assert_eq!(names.next().await.unwrap().unwrap(), "-a");
}
