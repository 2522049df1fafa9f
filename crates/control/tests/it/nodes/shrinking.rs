//! Stories of nodes that are not needed: which go, which stay, and what a crash leaves behind.

use super::*;

pub(super) async fn empty_nodes_are_removed_but_never_below_the_minimum(stage: Stage) {
    let Some(world) = World::run_on(stage, json!({})).await else { return };
    world.group("g", json!({"min": 1, "max": 5}), json!({"startAfter": "0s"})).await;
    for n in 0..3 {
        world.pod(&format!("p{n}"), "3", json!({})).await;
    }
    until("three pods have nodes", async || world.bound().await == 3).await;
    for n in 0..3 {
        world.delete_pod(&format!("p{n}")).await;
    }
    until("one node is left", async || world.nodes("g").await.len() == 1).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let left = world.nodes("g").await;
    assert_eq!(left.len(), 1, "the minimum stays");
    assert_eq!(world.group_status("g").await["target"], 1);
    assert!(!world.is_tainted(&left[0].name_any()).await);
    world.end().await;
}

pub(super) async fn a_node_is_drained_within_its_budgets(stage: Stage) {
    let Some(world) =
        World::run_on(stage, json!({"scaleDown": {"skipCustomControllerPods": false}})).await
    else {
        return;
    };
    world.group("g", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    world.budget(3).await;
    let budgets = world.cluster.api::<PodDisruptionBudget>();
    let owner = world.owner().await;
    world.pod("first", "1500m", json!({"ownerReferences": owner})).await;
    world.pod("second", "1500m", json!({"ownerReferences": owner})).await;
    until("two pods share a node", async || world.bound().await == 2).await;
    world.pod("third", "1200m", json!({"ownerReferences": owner})).await;
    until("the third has another", async || world.bound().await == 3).await;
    assert_eq!(world.nodes("g").await.len(), 2);
    world.delete_pod("second").await;
    until("it is gone", async || world.bound().await == 2).await;
    world.invariants.at_least(2);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!((world.bound().await, world.nodes("g").await.len()), (2, 2), "the budget holds");
    world.invariants.at_least(1);
    let change = Patch::Merge(json!({"spec": {"minAvailable": 1}}));
    budgets.patch("b", &PatchParams::default(), &change).await.unwrap();
    until("one node is drained and gone", async || world.nodes("g").await.len() == 1).await;
    assert_eq!(world.bound().await, 1, "its pod was evicted");
    world.end().await;
}

pub(super) async fn pods_that_nothing_would_replace_keep_their_node(stage: Stage) {
    let Some(world) = World::run_on(stage, json!({})).await else { return };
    world.group("g", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    world.pod("bare", "100m", json!({})).await;
    world.pod("full", "3950m", json!({})).await;
    until("both have nodes", async || world.bound().await == 2).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!((world.bound().await, world.nodes("g").await.len()), (2, 2));
    let changes =
        json!({"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}});
    world.delete_pod("full").await;
    until("the empty node is gone", async || world.nodes("g").await.len() == 1).await;
    let change = Patch::Merge(json!({"metadata": changes}));
    let pods = world.cluster.api::<Pod>();
    pods.patch("bare", &PatchParams::default(), &change).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.bound().await, 1, "there is no other node for it");
    world.end().await;
}

pub(super) async fn a_node_with_a_pod_that_cannot_be_decoded_stays(stage: Stage) {
    let Some(mut world) = World::on(stage, json!({})).await else { return };
    world.group("g", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    let odd = json!({"metadata": {"name": "odd", "namespace": world.name, "uid": "u"}, "spec": 7});
    let client = client::listing(world.client(), "pods", "spec.nodeName", odd);
    world.tasks.spawn(control(client, world.cluster.settings()));
    world.pod("p", "3", json!({})).await;
    until("the pod has a node", async || world.bound().await == 1).await;
    let node = world.nodes("g").await.remove(0).name_any();
    world.delete_pod("p").await;
    until("the removal fails", async || world.has_event(&node, "ScaleDownFailed").await).await;
    // The node rests now, so that no other removal begins.
    until("the taint is gone", async || !world.is_tainted(&node).await).await;
    assert_eq!(world.nodes("g").await.len(), 1);
    world.end().await;
}

pub(super) async fn a_restart_in_the_middle_of_a_removal_leaves_no_taint(stage: Stage) {
    let Some(world) =
        World::on(stage, json!({"scaleDown": {"maxParallel": 1, "delayAfterTaint": "1m"}})).await
    else {
        return;
    };
    world.group("g", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    let (client, settings) = (world.client(), world.cluster.settings());
    let first = tokio::spawn(control(client, settings));
    world.pod("p", "3", json!({})).await;
    until("the pod has a node", async || world.bound().await == 1).await;
    let node = world.nodes("g").await[0].name_any();
    world.delete_pod("p").await;
    until("the removal has begun", async || world.is_tainted(&node).await).await;
    first.abort();
    drop(first.await);
    assert!(world.is_tainted(&node).await, "the controller died in between");
    let keep = json!({"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"});
    let change = Patch::Merge(json!({"metadata": {"annotations": keep}}));
    let nodes: Api<Node> = Api::all(world.client());
    nodes.patch(&node, &PatchParams::default(), &change).await.unwrap();
    let (client, settings) = (world.client(), world.cluster.settings());
    let second = tokio::spawn(control(client, settings));
    until("the taint is gone", async || !world.is_tainted(&node).await).await;
    assert_eq!(world.nodes("g").await.len(), 1);
    second.abort();
    world.end().await;
}

pub(super) async fn controllers_that_die_at_any_request_leave_no_taint_and_keep_the_minimum(
    stage: Stage,
) {
    let Some(mut world) = World::on(stage, json!({})).await else { return };
    world.group("g", json!({"min": 1, "max": 5}), json!({"startAfter": "0s"})).await;
    let (client, settings, seed) = (world.client(), world.cluster.settings(), fastrand::u64(..));
    eprintln!("deaths by seed {seed}");
    world.tasks.spawn(async move {
        let mut chance = fastrand::Rng::with_seed(seed);
        for number in 0.. {
            // The watches alone take about thirty requests.
            let life = chance.u32(30..60 + 20 * number);
            let (client, death) = client::mortal(client.clone(), life, chance.bool());
            let mut tasks = JoinSet::new();
            tasks.spawn(control(client, settings.clone()));
            death.notified().await;
        }
    });
    for n in 0..3 {
        world.pod(&format!("p{n}"), "3", json!({})).await;
    }
    until("three pods have nodes", async || world.bound().await == 3).await;
    for n in 0..3 {
        world.delete_pod(&format!("p{n}")).await;
    }
    until("one node is left, without a taint", async || {
        let nodes = world.nodes("g").await;
        assert!(!nodes.is_empty(), "the minimum is kept");
        let is_target = world.group_status("g").await["target"] == 1;
        is_target && nodes.len() == 1 && !world.is_tainted(&nodes[0].name_any()).await
    })
    .await;
    world.end().await;
}
