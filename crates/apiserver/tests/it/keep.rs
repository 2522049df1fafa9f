//! The controllers of the API server: garbage, namespaces, budgets, events.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Pod, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{
    Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy,
};
use kube::{Client, Resource};
use plimsoll_apiserver::ApiServer;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::ephemeral;

async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Resource + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

/// Waits until something holds; time is paused, so that waiting takes none.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    for _ in 0..200 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} did not come true");
}

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::default_namespaced(client.clone())
}

/// Creates an owner and a dependent that blocks its deletion.
async fn family(engine: &ApiServer) -> (Api<ConfigMap>, ConfigMap) {
    let maps = maps(&engine.client());
    let owner = create(&maps, json!({"metadata": {"name": "owner"}})).await;
    let reference = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid,
        "blockOwnerDeletion": true,
    });
    create(&maps, json!({"metadata": {"name": "child", "ownerReferences": [reference]}})).await;
    (maps, owner)
}

#[tokio::test(start_paused = true)]
async fn dependents_are_deleted_with_their_last_owner() {
    let engine = ephemeral().await;
    for policy in [PropagationPolicy::Background, PropagationPolicy::Foreground] {
        let (maps, _) = family(&engine).await;
        let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
        maps.delete("owner", &params).await.unwrap();
        until("child and owner are gone", || async {
            let child = maps.get_opt("child").await.unwrap();
            child.is_none() && maps.get_opt("owner").await.unwrap().is_none()
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_is_deleted_in_the_foreground_waits_for_dependents_that_block_it() {
    let engine = ephemeral().await;
    let (maps, _) = family(&engine).await;
    let hold = Patch::Merge(json!({"metadata": {"finalizers": ["test/hold"]}}));
    maps.patch("child", &PatchParams::default(), &hold).await.unwrap();
    maps.delete("owner", &DeleteParams::foreground()).await.unwrap();
    until("the child is going", || async {
        maps.get("child").await.unwrap().metadata.deletion_timestamp.is_some()
    })
    .await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(maps.get_opt("owner").await.unwrap().is_some(), "it waits");
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("child", &PatchParams::default(), &release).await.unwrap();
    until("the owner is gone", || async { maps.get_opt("owner").await.unwrap().is_none() }).await;
}

#[tokio::test(start_paused = true)]
async fn owners_that_wait_for_each_other_in_a_circle_are_deleted() {
    let engine = ephemeral().await;
    let maps = maps(&engine.client());
    let mut uids = Vec::new();
    for name in ["a", "b", "c"] {
        uids.push(create(&maps, json!({"metadata": {"name": name}})).await.metadata.uid);
    }
    for (dependent, owner, uid) in
        [("a", "c", &uids[2]), ("b", "a", &uids[0]), ("c", "b", &uids[1])]
    {
        let reference = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid,
            "blockOwnerDeletion": true,
        });
        let change = Patch::Merge(json!({"metadata": {"ownerReferences": [reference]}}));
        maps.patch(dependent, &PatchParams::default(), &change).await.unwrap();
    }
    maps.delete("a", &DeleteParams::foreground()).await.unwrap();
    until("all are gone", || async {
        let left = maps.list(&ListParams::default()).await.unwrap().items;
        left.iter().all(|map| map.metadata.name.as_deref() == Some("kube-root-ca.crt"))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn orphans_stay_and_lose_their_owner_reference() {
    let engine = ephemeral().await;
    let (maps, _) = family(&engine).await;
    maps.delete(
        "owner",
        &DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..Default::default() },
    )
    .await
    .unwrap();
    until("the owner is gone", || async { maps.get_opt("owner").await.unwrap().is_none() }).await;
    let child = maps.get("child").await.unwrap();
    assert!(child.metadata.owner_references.unwrap_or_default().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_gets_its_standard_objects_and_is_deleted_with_all_objects_in_it() {
    let engine = ephemeral().await;
    let client = engine.client();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    create(&namespaces, json!({"metadata": {"name": "n"}})).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "n");
    until("it has its account", || async { accounts.get_opt("default").await.unwrap().is_some() })
        .await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "n");
    until("it has its certificate", || async {
        maps.get_opt("kube-root-ca.crt").await.unwrap().is_some()
    })
    .await;
    create(&maps, json!({"metadata": {"name": "held", "finalizers": ["test/hold"]}})).await;
    namespaces.delete("n", &DeleteParams::default()).await.unwrap();
    until("its status names what remains", || async {
        let status = namespaces.get("n").await.unwrap().status.unwrap();
        let remaining = status.conditions.unwrap_or_default().into_iter();
        remaining
            .into_iter()
            .any(|c| c.type_ == "NamespaceFinalizersRemaining" && c.status == "True")
    })
    .await;
    let late: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "x"}})).unwrap();
    let refused = maps.create(&PostParams::default(), &late).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403));
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("held", &PatchParams::default(), &release).await.unwrap();
    until("it is gone", || async { namespaces.get_opt("n").await.unwrap().is_none() }).await;
}

#[tokio::test(start_paused = true)]
async fn an_eviction_spends_the_budget_and_the_next_is_refused() {
    let engine = ephemeral().await;
    let client = engine.client();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    for name in ["a", "b"] {
        let containers = json!([{"name": "c", "image": "i"}]);
        create(&pods, json!({"metadata": {"name": name, "labels": {"app": "x"}}, "spec": {"containers": containers}})).await;
        let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
    }
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(client);
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}});
    create(&budgets, json!({"metadata": {"name": "p"}, "spec": spec})).await;
    until("one disruption is allowed", || async {
        budgets.get("p").await.unwrap().status.is_some_and(|s| s.disruptions_allowed == Some(1))
    })
    .await;
    pods.evict("a", &EvictParams::default()).await.unwrap();
    let refused = pods.evict("b", &EvictParams::default()).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 429));
    assert!(
        pods.get_opt("a").await.unwrap().is_none() && pods.get_opt("b").await.unwrap().is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn events_are_deleted_after_an_hour() {
    let engine = ephemeral().await;
    let events: Api<Event> = Api::default_namespaced(engine.client());
    let about = json!({"kind": "Pod", "name": "a", "namespace": "default"});
    create(&events, json!({"metadata": {"name": "e"}, "involvedObject": about, "reason": "r"}))
        .await;
    tokio::time::sleep(Duration::from_secs(50 * 60)).await;
    assert!(events.get_opt("e").await.unwrap().is_some());
    tokio::time::sleep(Duration::from_secs(20 * 60)).await;
    assert!(events.get_opt("e").await.unwrap().is_none());
}
