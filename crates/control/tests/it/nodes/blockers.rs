//! Pods that keep their node, each for a reason of its own.

use api::agones::{GameServer, GameServerSet};
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

/// Returns an owner reference to a ReplicaSet that is gone. Its version is no longer served, so that its pods are not garbage.
fn owner_that_is_gone() -> Value {
    json!([{
        "apiVersion": "extensions/v1beta1", "kind": "ReplicaSet", "name": "gone",
        "uid": "00000000-0000-0000-0000-000000000001", "controller": true,
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
        ("orphan", "ControllerNotFound", json!({"ownerReferences": owner_that_is_gone()})),
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
        world.until_kept(&node, reason).await;
    }
    let change = json!({"spec": {"replicas": 1}});
    world.cluster.patch::<ReplicaSet>("set", change).await;
    let node = world.node_of("guarded").await;
    world.until_kept(&node, "MinReplicasReached").await;
    assert_eq!(world.bound().await, blockers.len(), "nothing was evicted");
    world.end().await;
}

pub(super) async fn a_new_system_pod_keeps_its_node_for_a_while(stage: Stage) {
    let spec = json!({"scaleDown": {"skipCustomControllerPods": false}});
    let Some(world) = World::run_on(stage, spec).await else { return };
    world.group("g", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    let pods: Api<Pod> = Api::namespaced(world.client(), "kube-system");
    let name = format!("system-{}", world.name);
    let more = json!({"ownerReferences": owner_that_is_gone(), "labels": {STORY_LABEL: "true"}});
    let pod = world.pod_object(&name, "1", more);
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let node = async || pods.get(&name).await.unwrap().spec.unwrap().node_name;
    until("it has a node", async || node().await.is_some()).await;
    let node = node().await.unwrap();
    world.until_kept(&node, "UnmovableKubeSystemPod").await;
    let change = Patch::Merge(json!({"spec": {"scaleDown": {"systemPodGrace": "0s"}}}));
    let autoscalers: Api<NodeAutoscaler> = Api::all(world.client());
    autoscalers.patch("default", &PatchParams::default(), &change).await.unwrap();
    // It may move now; but there is no other node.
    world.until_kept(&node, "NoPlaceToMovePods").await;
    let now = DeleteParams::default().grace_period(0);
    pods.delete(&name, &now).await.unwrap();
    until("the node is gone", async || world.nodes("g").await.is_empty()).await;
    world.end().await;
}

/// Creates a game server that is in a state already, and returns the owner reference of its pod.
async fn game_server(world: &World, name: &str, state: &str) -> Value {
    let server = json!({
        "apiVersion": "agones.dev/v1", "kind": "GameServer",
        "metadata": {"name": name},
        "spec": {
            "ports": [{"name": "game", "containerPort": 7654}],
            "template": {"spec": {"containers": [{"name": "game", "image": "game:1"}]}},
        },
    });
    let server: GameServer = world.cluster.create(server).await;
    // Nothing would remove its finalizer.
    let state = json!({"metadata": {"finalizers": null}, "status": {"state": state}});
    world.cluster.patch::<GameServer>(name, state).await;
    json!([{
        "apiVersion": "agones.dev/v1", "kind": "GameServer", "name": server.name_any(),
        "uid": server.uid(), "controller": true,
    }])
}

pub(super) async fn game_servers_in_use_keep_their_nodes(stage: Stage) {
    let spec = json!({"scaleDown": {"utilizationThreshold": 0.9}});
    let Some(mut world) = World::on(stage, spec).await else { return };
    // Fleets are scaled in this process too, so that the states of game servers matter.
    world.start_parts(&[Part::GameServerSet, Part::Nodes]);
    world.group("g", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    let used = [("busy", "Allocated"), ("held", "Reserved")];
    for (name, state) in used {
        let owner = game_server(&world, name, state).await;
        let labels = json!({"test": "never-lost"});
        world.pod(name, "2500m", json!({"ownerReferences": owner, "labels": labels})).await;
    }
    until("both have a node", async || world.bound().await == 2).await;
    for (name, state) in used {
        let node = world.node_of(name).await;
        world.until_kept(&node, &format!("GameServer{state}")).await;
    }
    assert_eq!((world.bound().await, world.nodes("g").await.len()), (2, 2));
    world.end().await;
}

pub(super) async fn a_game_server_that_arrives_ends_a_removal(stage: Stage) {
    let spec = json!({"scaleDown": {"delayAfterTaint": "15s", "delayAfterFailure": "1h"}});
    let Some(mut world) = World::on(stage, spec).await else { return };
    world.start_parts(&[Part::GameServerSet, Part::Nodes]);
    world.group("g", json!({"max": 2}), json!({"startAfter": "0s"})).await;
    for name in ["p", "stays"] {
        world.pod(name, "3", json!({"labels": {"app": "free"}})).await;
    }
    until("the pods have nodes", async || world.bound().await == 2).await;
    let node = world.node_of("p").await;
    world.delete_pod("p").await;
    until("the removal has begun", async || world.is_tainted(&node).await).await;
    let server = json!({
        "ports": [{"name": "game", "containerPort": 7654}],
        "template": {"spec": {"containers": [{"name": "game", "image": "game:1"}]}},
    });
    let set = json!({
        "apiVersion": "agones.dev/v1", "kind": "GameServerSet", "metadata": {"name": "set"},
        "spec": {"replicas": 1, "template": {"spec": server}},
    });
    world.cluster.create::<GameServerSet>(set).await;
    until("there is a server", async || world.cluster.servers().await.len() == 1).await;
    let server = world.cluster.servers().await.remove(0);
    // Nothing would remove its finalizer, and no controller gives it a pod.
    let released = json!({"metadata": {"finalizers": null}});
    world.cluster.patch::<GameServer>(&server.name_any(), released).await;
    let owner = json!([{
        "apiVersion": "agones.dev/v1", "kind": "GameServer", "name": server.name_any(),
        "uid": server.uid(), "controller": true,
    }]);
    let labels = json!({"agones.dev/role": "gameserver"});
    let mut pod = world.pod_object(
        &server.name_any(),
        "1",
        json!({"ownerReferences": owner, "labels": labels}),
    );
    pod.spec.as_mut().unwrap().node_name = Some(node.clone());
    world.cluster.api::<Pod>().create(&PostParams::default(), &pod).await.unwrap();
    until("the taint is gone", async || !world.is_tainted(&node).await).await;
    let said = "the node is no longer unneeded: ";
    until("the reason is reported", async || world.messages(&node).await.contains(said)).await;
    assert!(world.messages(&node).await.contains("has not been replaced yet"));
    assert!(!world.has_event(&node, "ScaleDownFailed").await);
    // It would be moved now; but it is allocated first.
    let allocated = json!({"status": {"state": "Allocated"}});
    world.cluster.patch::<GameServer>(&server.name_any(), allocated).await;
    world.until_kept(&node, "GameServerAllocated").await;
    world.cluster.delete::<GameServerSet>("set").await;
    remove_servers(&world).await;
    world.end().await;
}

/// Removes all game servers, in place of their controller.
async fn remove_servers(world: &World) {
    let api = world.cluster.api::<GameServer>();
    let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    until("no game server is left", async || {
        let servers = world.cluster.servers().await;
        for server in &servers {
            let name = server.name_any();
            drop(api.patch(&name, &PatchParams::default(), &released).await);
            drop(api.delete(&name, &DeleteParams::default()).await);
        }
        servers.is_empty()
    })
    .await;
}

pub(super) async fn an_allocated_game_server_keeps_its_node(stage: Stage) {
    let spec = json!({"scaleDown": {"skipCustomControllerPods": false}});
    let Some(world) = World::run_on(stage, spec).await else { return };
    world.group("g", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    let owner = game_server(&world, "busy", "Allocated").await;
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
