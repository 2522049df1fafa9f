//! kube's client and runtime on the engine's service, without a socket.

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch,
    PatchParams, PostParams, PropagationPolicy,
};
use kube::runtime::watcher;
use serde_json::json;

use crate::ephemeral;
use crate::keep::until;

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

/// A dry run reads all of an object, and a patch only what it changes: both must come to the same.
#[tokio::test]
async fn a_patch_has_the_same_result_as_its_dry_run() {
    let engine = ephemeral().await;
    let resource = ApiResource::erase::<api::agones::GameServer>(&());
    let servers: Api<DynamicObject> = Api::namespaced_with(engine.client(), "default", &resource);
    let server: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "agones.dev/v1", "kind": "GameServer",
        "metadata": {"name": "a", "labels": {"x": "1"}, "finalizers": ["example.dev/keep"]},
        "spec": {"template": {"spec": {"containers": [{"name": "g", "image": "i \"quoted\" \u{1f600}"}]}}},
    }))
    .unwrap();
    servers.create(&PostParams::default(), &server).await.unwrap();
    // An owner that exists: the garbage collector must not delete the object between a dry run and the patch.
    let maps: Api<ConfigMap> = Api::namespaced(engine.client(), "default");
    let owner = maps.create(&PostParams::default(), &config_map("owner", "1")).await.unwrap();
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid});
    let patches = [
        json!({"status": {"state": "Ready", "address": "10.0.0.1"}}),
        json!({"metadata": {"labels": {"x": null, "y": "2"}, "annotations": {"a/b": "c"}}}),
        json!({"metadata": {"annotations": null}, "status": {"state": "Allocated"}}),
        json!({"spec": {"scheduling": "Distributed"}}),
        json!({"status": {"unknown": 1, "counters": {"rooms": {"count": 1, "capacity": 2}}}}),
        json!({"status": {"counters": {"rooms": {"count": "many"}}}}),
        json!({"status": {"counters": {"rooms": {"count": 2}, "seats": {"capacity": 4}}}}),
        json!({"status": {"counters": {"rooms": null}, "ports": [{"name": "game", "port": 7000}]}}),
        json!({"status": {"state": {"is": "an object"}}}),
        json!({"status": {"address": null, "nodeName": "n", "players": {"count": 1}}}),
        json!({"metadata": {"labels": null, "finalizers": ["example.dev/keep", "example.dev/too"]}}),
        json!({"metadata": {"labels": {"bad label": "\"x\""}, "annotations": {"a/b": 1}}}),
        json!({"metadata": {"ownerReferences": [owner]}}),
        json!({"metadata": {"ownerReferences": [{"kind": "Pod"}], "unknown": 1}}),
        json!({"metadata": {"annotations": {"a/b": "\u{1f600}\"\\"}}, "spec": {"health": {"periodSeconds": 9}}}),
        json!({"spec": {"template": {"spec": {"containers": null}}}}),
        json!({"spec": {"health": {"periodSeconds": "soon"}, "ports": [{"containerPort": "x"}]}}),
        json!({"metadata": null}),
        json!({"status": null}),
        json!({"status": {"state": "Ready"}}),
        json!({"spec": null}),
        json!({"other": 1}),
        json!({"status": {"state": "Allocated"}}),
        json!({"metadata": {"resourceVersion": "1"}}),
        json!({"metadata": {"name": "b"}}),
        json!({"metadata": {"managedFields": [{}]}}),
        json!({"status": {"state": "Shutdown"}}),
        json!("no object"),
    ];
    let comparable = |answer: Result<DynamicObject, kube::Error>| match answer {
        Ok(mut object) => {
            object.metadata.resource_version = None;
            for owner in object.metadata.managed_fields.iter_mut().flatten() {
                owner.time = None;
            }
            serde_json::to_value(object).unwrap()
        }
        Err(err) => json!(err.to_string()),
    };
    for (index, patch) in patches.iter().enumerate() {
        let params =
            PatchParams { field_manager: Some(format!("m{}", index % 3)), ..Default::default() };
        let dry = PatchParams { dry_run: true, ..params.clone() };
        let dry = comparable(servers.patch("a", &dry, &Patch::Merge(patch)).await);
        let done = comparable(servers.patch("a", &params, &Patch::Merge(patch)).await);
        assert_eq!(done, dry, "{patch}");
        assert_eq!(comparable(servers.get("a").await)["metadata"]["name"], "a");
    }
    // The last finalizer goes, and the object with it, shown as it last was.
    servers.delete("a", &DeleteParams::default()).await.unwrap();
    let freed = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let last = servers.patch("a", &PatchParams::default(), &freed).await.unwrap();
    assert_eq!(last.data["spec"]["template"]["spec"]["containers"][0]["name"], "g");
    assert!(servers.get_opt("a").await.unwrap().is_none());
}

/// Where a schema constrains an object as a whole, patches and the writes of the engine itself still have the right outcome.
#[tokio::test(start_paused = true)]
async fn a_schema_of_schemas_sees_all_of_an_object() {
    let engine = ephemeral().await;
    let crds = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    ));
    let text = json!({"type": "string"});
    let schema = json!({
        "type": "object", "anyOf": [{"required": ["spec"]}],
        "properties": {"spec": {
            "type": "object", "properties": {"a": text, "b": text, "c": text},
            "not": {"properties": {"a": {"enum": ["forbidden"]}, "b": {"enum": ["pair"]}}},
        }},
    });
    let crd: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.dev"},
        "spec": {
            "group": "example.dev", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    }))
    .unwrap();
    let definitions: Api<DynamicObject> = Api::all_with(engine.client(), &crds);
    definitions.create(&PostParams::default(), &crd).await.unwrap();
    let widgets = ApiResource::from_gvk(&GroupVersionKind::gvk("example.dev", "v1", "Widget"));
    let widgets: Api<DynamicObject> = Api::namespaced_with(engine.client(), "default", &widgets);
    until("the kind is served", || async { widgets.list(&ListParams::default()).await.is_ok() })
        .await;
    let widget: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "w"},
        "spec": {"a": "forbidden", "b": "single", "c": "x"},
    }))
    .unwrap();
    widgets.create(&PostParams::default(), &widget).await.unwrap();
    let patched = |spec| {
        let patch = Patch::Merge(json!({"spec": spec}));
        let widgets = widgets.clone();
        async move { widgets.patch("w", &PatchParams::default(), &patch).await }
    };
    let refused = patched(json!({"b": "pair"})).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 422), "{refused}");
    let changed = patched(json!({"c": "y"})).await.unwrap();
    assert_eq!(changed.data["spec"], json!({"a": "forbidden", "b": "single", "c": "y"}));
    let maps: Api<ConfigMap> = Api::default_namespaced(engine.client());
    let owner = maps.create(&PostParams::default(), &config_map("owner", "1")).await.unwrap();
    let uid = owner.metadata.uid.unwrap();
    let owned = json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}]}});
    widgets.patch("w", &PatchParams::default(), &Patch::Merge(owned)).await.unwrap();
    let orphan = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Orphan),
        ..DeleteParams::default()
    };
    maps.delete("owner", &orphan).await.unwrap();
    until("it has no owner", || async {
        let owners = widgets.get("w").await.unwrap().metadata.owner_references;
        owners.unwrap_or_default().is_empty()
    })
    .await;
}
