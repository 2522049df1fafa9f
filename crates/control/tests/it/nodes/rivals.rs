//! Nodes and groups of another autoscaler are left unchanged.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn taints_of_others_are_not_removed() {
    let world = World::idle(json!({"scaleDown": {"enabled": false}})).await;
    let unmanaged = world.cluster.nodes[0].clone();
    world.taint(&unmanaged).await;
    world.group("g", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    let (client, settings) = (world.client(), world.cluster.settings());
    let controller = tokio::spawn(control(client, settings));
    world.pod("first", "3", json!({})).await;
    until("the pod has a node", async || world.bound().await == 1).await;
    assert_eq!(world.taints(&unmanaged).await.len(), 2, "the node belongs to no group");
    let managed = world.nodes("g").await[0].name_any();
    world.taint(&managed).await;
    world.pod("second", "3", json!({})).await;
    until("the cluster was evaluated again", async || world.bound().await == 2).await;
    assert!(world.is_tainted(&managed).await, "no removal of this controller has tainted it");
    assert_eq!(world.taints(&unmanaged).await.len(), 2);
    controller.abort();
    drop(controller.await);
    let _second = AbortOnDrop(tokio::spawn(control(world.client(), world.cluster.settings())));
    until("a new controller has cleaned up", async || !world.is_tainted(&managed).await).await;
    assert_eq!(world.taints(&unmanaged).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_done_while_a_cluster_autoscaler_renews_its_lease() {
    let mut world = World::idle(json!({})).await;
    let namespace: Namespace =
        serde_json::from_value(json!({"metadata": {"name": "kube-system"}})).unwrap();
    let namespaces: Api<Namespace> = Api::all(world.client());
    drop(namespaces.create(&PostParams::default(), &namespace).await);
    let lease: Lease = serde_json::from_value(json!({
        "metadata": {"name": "cluster-autoscaler"},
        "spec": {"holderIdentity": "other", "leaseDurationSeconds": 4},
    }))
    .unwrap();
    let leases: Api<Lease> = Api::namespaced(world.client(), "kube-system");
    leases.create(&PostParams::default(), &lease).await.unwrap();
    world.group("g", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    world.pod("p", "3", json!({})).await;
    world.tasks.spawn(control(world.client(), world.cluster.settings()));
    let held = ("False".to_owned(), "ClusterAutoscalerActive".to_owned());
    for renewal in 0..3 {
        let spec = json!({"spec": {"acquireTime": format!("2026-01-01T00:00:0{renewal}.000000Z")}});
        leases
            .patch("cluster-autoscaler", &PatchParams::default(), &Patch::Merge(spec))
            .await
            .unwrap();
        until("it holds", async || world.active().await.as_ref() == Some(&held)).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(world.nodes("g").await.len(), 0, "the other autoscaler is active");
    }
    assert!(world.has_event("default", "ClusterAutoscalerActive").await);
    until("it acts once the lease has expired", async || world.bound().await == 1).await;
    let active = ("True".to_owned(), "Active".to_owned());
    until("the condition reports it", async || world.active().await.as_ref() == Some(&active))
        .await;
}

/// Ends a task when it is dropped.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
