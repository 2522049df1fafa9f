//! Pods that keep their node, each for a reason of its own.

use api::agones::GameServer;
use k8s_openapi::api::apps::v1::ReplicaSet;

use super::*;

const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";

/// Creates a ReplicaSet that nothing carries out, and returns the owner reference of its pods.
async fn replica_set(world: &World, replicas: i32) -> Value {
    let set: ReplicaSet = serde_json::from_value(json!({
        "metadata": {"name": "set"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "other"}},
            "template": {
                "metadata": {"labels": {"app": "other"}},
                "spec": {"containers": [{"name": "c", "image": "game:1"}]},
            },
        },
    }))
    .unwrap();
    let set = world.cluster.api::<ReplicaSet>().create(&PostParams::default(), &set).await;
    let set = set.unwrap();
    json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set.name_any(),
        "uid": set.uid(), "controller": true,
    }])
}

pub(super) async fn every_kind_of_pod_that_blocks_keeps_its_node(stage: Stage) {
    let spec = json!({"scaleDown": {"utilizationThreshold": 0.9, "minReplicaCount": 2}});
    let Some(world) = World::run_on(stage, spec).await else { return };
    world.group("g", json!({"max": 9}), json!({"startAfter": "0s"})).await;
    // Without the controller manager it has two replicas for the rules, and no pods of its own.
    let owner = replica_set(&world, 2).await;
    let annotated =
        |value: &str| json!({"ownerReferences": owner, "annotations": {SAFE_TO_EVICT: value}});
    let scratch = json!([{"name": "scratch", "emptyDir": {}}]);
    let blockers = [
        ("bare", "NotReplicated", json!({})),
        ("unsafe", "NotSafeToEvictAnnotation", annotated("false")),
        ("local", "LocalStorageRequested", json!({"ownerReferences": owner, "volumes": scratch})),
        ("guarded", "NotEnoughPdb", json!({"ownerReferences": owner})),
        ("ending", "BlockedByOnCompletionPod", annotated("on-completion")),
    ];
    world.budget(9).await;
    for (name, _, more) in &blockers {
        let mut more = more.clone();
        if *name == "guarded" {
            more["labels"] = json!({"app": "test"});
        } else {
            more["labels"] = json!({"app": "free"});
        }
        world.pod(name, "2500m", more).await;
    }
    until("each has a node", async || world.bound().await == blockers.len()).await;
    assert_eq!(world.nodes("g").await.len(), blockers.len(), "no two fit on one");
    for (name, reason, _) in &blockers {
        let node = world.node_of(name).await;
        let what = format!("{name} keeps its node for {reason}");
        until(&what, async || world.kept_for(&node).await.iter().any(|kept| kept == reason)).await;
    }
    let change = json!({"spec": {"replicas": 1}});
    world.cluster.patch::<ReplicaSet>("set", change).await;
    let node = world.node_of("guarded").await;
    until("a controller with too few replicas blocks", async || {
        world.kept_for(&node).await.iter().any(|kept| kept == "MinReplicasReached")
    })
    .await;
    assert_eq!(world.bound().await, blockers.len(), "nothing was evicted");
    world.end().await;
}

pub(super) async fn an_allocated_game_server_keeps_its_node(stage: Stage) {
    let spec = json!({"scaleDown": {"skipCustomControllerPods": false}});
    let Some(world) = World::run_on(stage, spec).await else { return };
    world.group("g", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    let server = json!({
        "apiVersion": "agones.dev/v1", "kind": "GameServer",
        "metadata": {"name": "busy"},
        "spec": {
            "ports": [{"name": "game", "containerPort": 7654}],
            "template": {"spec": {"containers": [{"name": "game", "image": "game:1"}]}},
        },
    });
    let server: GameServer = world.cluster.create(server).await;
    let owner = json!([{
        "apiVersion": "agones.dev/v1", "kind": "GameServer", "name": server.name_any(),
        "uid": server.uid(), "controller": true,
    }]);
    // Nothing would remove its finalizer.
    let state = json!({"metadata": {"finalizers": null}, "status": {"state": "Allocated"}});
    world.cluster.patch::<GameServer>("busy", state).await;
    world
        .pod(
            "busy",
            "100m",
            json!({
                "ownerReferences": owner, "annotations": {SAFE_TO_EVICT: "false"},
                "labels": {"test": "never-lost"},
            }),
        )
        .await;
    world.pod("full", "3800m", json!({"annotations": {SAFE_TO_EVICT: "true"}})).await;
    until("both have a node", async || world.bound().await == 2).await;
    world.pod("more", "3", json!({"annotations": {SAFE_TO_EVICT: "true"}})).await;
    until("all have a node", async || world.bound().await == 3).await;
    let node = world.node_of("busy").await;
    world.delete_pod("full").await;
    until("the game server blocks", async || {
        let kept = world.kept_for(&node).await;
        kept.iter().any(|kept| kept.contains("NotSafeToEvict") || kept.contains("NotReplicated"))
    })
    .await;
    world.delete_pod("more").await;
    until("other nodes go", async || world.nodes("g").await.len() == 1).await;
    assert_eq!(world.node_of("busy").await, node, "it stays where it was");
    world.end().await;
}
