//! Stories of nodes whose pods have several disruption budgets.

use super::*;

/// Fills a node with pods, each with its labels, and with one that leaves again; another node has a pod that stays. Returns the node of the
/// pods, which then fit on the other node.
async fn crowd(world: &World, pods: &[(&str, Value)]) -> String {
    let owner = world.owner().await;
    for (name, labels) in pods {
        let more = json!({"ownerReferences": owner, "labels": labels});
        world.pod(name, "500m", more).await;
    }
    let others = json!({"labels": {"app": "other"}});
    world.pod("temporary", "3", others.clone()).await;
    let count = pods.len() + 1;
    until("they share a node", async || world.bound().await == count).await;
    assert_eq!(world.nodes("g").await.len(), 1);
    world.pod("stays", "1", others).await;
    until("the last pod has another", async || world.bound().await == count + 1).await;
    let api = world.cluster.api::<Pod>();
    // Budgets do not protect pods that do not run yet.
    until("all run", async || {
        let pods = api.list(&ListParams::default()).await.unwrap().items;
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
        pods.iter().all(|pod| phase(pod).as_deref() == Some("Running"))
    })
    .await;
    world.delete_pod("temporary").await;
    world.node_of(pods[0].0).await
}

/// Waits until a budget is known to allow some disruptions.
async fn until_allowed(world: &World, budget: &str, disruptions: i32) {
    let budgets = world.cluster.api::<PodDisruptionBudget>();
    until(&format!("{budget} allows {disruptions}"), async || {
        let status = budgets.get(budget).await.unwrap().status.unwrap_or_default();
        status.disruptions_allowed == Some(disruptions)
    })
    .await;
}

async fn relax(world: &World, budget: &str) {
    let change = json!({"spec": {"minAvailable": 0}});
    world.cluster.patch::<PodDisruptionBudget>(budget, change).await;
}

pub(super) async fn the_budgets_of_all_pods_of_a_node_are_respected(stage: Stage) {
    let spec = json!({"scaleDown": {"skipCustomControllerPods": false}});
    let Some(world) = World::run_on(stage, spec).await else { return };
    world.group("g", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    world.budget_of("free", ("app", "free"), 0).await;
    world.budget_of("tight", ("app", "test"), 1).await;
    let pods = [("one", json!({"app": "free"})), ("other", json!({"app": "test"}))];
    world.invariants.at_least(1);
    let node = crowd(&world, &pods).await;
    until_allowed(&world, "free", 1).await;
    world.until_kept(&node, "NotEnoughPdb").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((world.bound().await, world.nodes("g").await.len()), (3, 2), "neither is evicted");
    world.invariants.at_least(0);
    relax(&world, "tight").await;
    until("the node is drained and gone", async || world.nodes("g").await.len() == 1).await;
    assert_eq!(world.bound().await, 1, "both were evicted");
    world.end().await;
}

pub(super) async fn a_pod_that_two_budgets_select_stays(stage: Stage) {
    let spec = json!({"scaleDown": {"skipCustomControllerPods": false, "maxEvictionTime": "2s"}});
    let Some(world) = World::run_on(stage, spec).await else { return };
    world.group("g", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    world.budget_of("by-app", ("app", "test"), 0).await;
    world.budget_of("by-tier", ("tier", "front"), 1).await;
    world.invariants.at_least(1);
    let node = crowd(&world, &[("both", json!({"app": "test", "tier": "front"}))]).await;
    until_allowed(&world, "by-app", 1).await;
    // One of them is enough to keep the node.
    world.until_kept(&node, "NotEnoughPdb").await;
    assert!(!world.has_event(&node, "ScaleDownFailed").await, "no removal was tried");
    relax(&world, "by-tier").await;
    // Both allow it now; but an API server evicts no pod that several budgets select.
    until("the removal fails", async || world.has_event(&node, "ScaleDownFailed").await).await;
    assert!(world.has_event("both", "ScaleDownFailed").await, "the eviction was refused");
    until("the taint is gone", async || !world.is_tainted(&node).await).await;
    assert_eq!((world.bound().await, world.nodes("g").await.len()), (2, 2), "the pod stays");
    world.end().await;
}
