//! Nodes of a cloud: they belong to the group whose provider lists them, and carry no label of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::cloud::{Cloud, NAME};
use super::replay::{replayed, without_messages};
use super::*;

/// Creates a NodeGroup for a group of the cloud, without a template.
async fn group(world: &World, name: &str, id: &str) {
    world
        .put::<NodeGroup>(json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "NodeGroup", "metadata": {"name": name},
            "spec": {"max": 5, "provider": {NAME: {"group": id}}},
        }))
        .await;
}

/// Starts a cluster with a controller and a cloud, whose group `pool/a` is the NodeGroup `a`.
async fn start(spec: Value) -> (World, Arc<Cloud>) {
    let mut world = World::idle(spec).await;
    let cloud = Cloud::start(&world, &["pool/a"]);
    group(&world, "a", "pool/a").await;
    let settings = cloud.settings(world.cluster.settings());
    world.tasks.spawn(control(world.client(), settings));
    (world, cloud)
}

/// All decisions that are recorded.
async fn decisions(world: &World) -> Vec<Decision> {
    let decisions: Api<Decision> = Api::all(world.client());
    decisions.list(&ListParams::default()).await.unwrap().items
}

/// Whether a decision keeps a node for a reason.
fn keeps(decision: &Decision, node: &str, reason: &str) -> bool {
    let kept = decision.spec.decision["unremovable"].as_array().unwrap();
    kept.iter().any(|kept| kept["node"] == node && kept["reason"] == reason)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_a_provider_lists_are_added_recorded_and_removed() {
    let (world, cloud) = start(json!({})).await;
    for n in 0..2 {
        world.pod(&format!("p{n}"), "3", json!({})).await;
    }
    until("the pods have nodes", async || world.bound().await == 2).await;
    assert_eq!(cloud.count("pool/a"), 2);
    let node = cloud.node("pool/a");
    let api: Api<Node> = Api::all(world.client());
    let labels = api.get(&node).await.unwrap().metadata.labels.unwrap();
    assert!(!labels.contains_key("plimsoll.dev/node-group"));
    world.delete_pod("p0").await;
    world.delete_pod("p1").await;
    until("the machines are gone", async || cloud.count("pool/a") == 0).await;
    let is_removal = |decision: &Decision| decision.spec.decision["delete"] != json!([]);
    until("the removal is recorded", async || decisions(&world).await.iter().any(is_removal)).await;
    for decision in decisions(&world).await {
        let recorded = without_messages(json!(decision.spec.decision));
        let again = without_messages(replayed(&decision));
        assert_eq!(again, recorded, "{:#}", json!(decision.spec));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_keep_their_group_while_its_provider_does_not_answer() {
    let (world, cloud) = start(json!({"scaleDown": {"unneededFor": "1h"}})).await;
    world.pod("p", "3", json!({})).await;
    until("the pod has a node", async || world.bound().await == 1).await;
    // Until then the provider has not reported the node.
    let is_complete = async || {
        let status = world.group_status("a").await;
        !status["provisionTime"].is_null() && status["scaleUp"].is_null()
    };
    until("the node counts as one of the group", is_complete).await;
    let node = cloud.node("pool/a");
    cloud.is_down.store(true, Ordering::SeqCst);
    world.pod("waits", "3", json!({})).await;
    let is_paused = async || world.has_condition("a", "ProviderAvailable", "False").await;
    until("the group is paused", is_paused).await;
    // Another decision is recorded: the one about the pod may be older than the pause.
    world.delete_pod("waits").await;
    let is_kept = |decision: &Decision| keeps(decision, &node, "NodeGroupMinSizeReached");
    until("the node is kept", async || decisions(&world).await.iter().any(is_kept)).await;
    let is_nobodys = |decision: &Decision| keeps(decision, &node, "NotAutoscaled");
    assert!(!decisions(&world).await.iter().any(is_nobodys));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_a_group_that_is_rolling_out_stay() {
    let (world, cloud) = start(json!({})).await;
    world.pod("p", "3", json!({})).await;
    until("the pod has a node", async || world.bound().await == 1).await;
    let node = cloud.node("pool/a");
    cloud.groups().get_mut("pool/a").unwrap().is_rolling_out = true;
    world.delete_pod("p").await;
    let is_kept = |decision: &Decision| keeps(decision, &node, "NodeGroupRollingOut");
    until("the node is kept", async || decisions(&world).await.iter().any(is_kept)).await;
    until("the status says so", async || world.group_status("a").await["rollingOut"] == true).await;
    cloud.groups().get_mut("pool/a").unwrap().is_rolling_out = false;
    until("the machine is gone", async || cloud.count("pool/a") == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discovered_groups_get_node_groups_that_follow_them() {
    let providers = json!({NAME: {"address": "127.0.0.1:1", "discover": true}});
    let mut world = World::idle(json!({"providers": providers})).await;
    let cloud = Cloud::start(&world, &["Pool_A"]);
    let settings = cloud.settings(world.cluster.settings());
    world.tasks.spawn(control(world.client(), settings));
    let api: Api<NodeGroup> = Api::all(world.client());
    let groups = async || api.list(&ListParams::default()).await.unwrap().items;
    until("the group has a NodeGroup", async || groups().await.len() == 1).await;
    let found = groups().await.remove(0);
    let name = found.name_any();
    assert!(name.starts_with("pool-a-"), "{name}");
    assert_eq!((found.spec.min, found.spec.max), (0, 5));
    assert_eq!(json!(found.spec.provider), json!({NAME: {"group": "Pool_A"}}));
    world.pod("p", "3", json!({})).await;
    until("the pod has a node", async || world.bound().await == 1).await;
    let edit = Patch::Merge(json!({"spec": {"max": 3}}));
    api.patch(&name, &PatchParams::default(), &edit).await.unwrap();
    {
        let mut groups = cloud.groups();
        let group = groups.get_mut("Pool_A").unwrap();
        (group.min, group.max) = (1, 9);
    }
    world.pod("q", "3", json!({})).await;
    let bounds = async || {
        let spec = api.get(&name).await.unwrap().spec;
        (spec.min, spec.max)
    };
    until("min follows and max stays", async || bounds().await == (1, 3)).await;
    cloud.groups().clear();
    world.pod("r", "3", json!({})).await;
    until("the NodeGroup goes with the group", async || groups().await.is_empty()).await;
}
