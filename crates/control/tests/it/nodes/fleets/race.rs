//! Allocations race with the evacuation of nodes: whichever write comes first wins, and no Allocated game server is lost.

use super::*;

/// How many evacuations are raced with.
const ROUNDS: usize = 16;

/// Allocates the game server on a node as an allocator does: with the version that it read. Returns its name if that succeeded.
async fn allocate(world: &World, node: &str) -> Option<String> {
    let servers = world.servers_on(node).await;
    let server = servers.iter().find(|server| state_of(server) == "Ready")?;
    let version = server.metadata.resource_version.clone();
    let change =
        json!({"metadata": {"resourceVersion": version}, "status": {"state": "Allocated"}});
    let api = world.cluster.api::<GameServer>();
    let name = server.name_any();
    let allocated = api.patch(&name, &PatchParams::default(), &Patch::Merge(change)).await;
    allocated.is_ok().then_some(name)
}

#[tokio::test(start_paused = true)]
async fn an_allocation_in_between_wins() {
    let world = world(&BOTH, json!({})).await;
    world.fleet("f", 3, json!({})).await;
    let seed = fastrand::u64(..);
    eprintln!("delays by seed {seed}");
    let mut chance = fastrand::Rng::with_seed(seed);
    let (mut won, mut lost) = (0, 0);
    for round in 0..ROUNDS {
        world.ready(3).await;
        until("one node is left", async || world.nodes("g").await.len() == 1).await;
        let ballast = format!("ballast-{round}");
        world.pod(&ballast, "1", json!({"annotations": safe_to_evict()})).await;
        until("the pod has a node", async || {
            let pod = world.cluster.api::<Pod>().get(&ballast).await.unwrap();
            pod.spec.is_some_and(|spec| spec.node_name.is_some())
        })
        .await;
        world.scale("f", 4).await;
        world.ready(4).await;
        let node = world.least_busy().await;
        world.delete_pod(&ballast).await;
        tokio::time::sleep(Duration::from_millis(chance.u64(0..900))).await;
        match allocate(&world, &node).await {
            Some(name) => {
                won += 1;
                for _ in 0..20 {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    let server = world.cluster.api::<GameServer>().get(&name).await.unwrap();
                    assert_eq!(state_of(&server), "Allocated", "round {round}");
                    assert!(server.metadata.deletion_timestamp.is_none(), "round {round}");
                    assert!(world.cluster.api::<Pod>().get(&name).await.is_ok(), "round {round}");
                }
                until("everything is released", async || world.is_released().await).await;
                assert!(!world.has_event(&node, "ScaleDownFailed").await, "round {round}");
                assert!(world.nodes("g").await.iter().any(|found| found.name_any() == node));
                let end = json!({"status": {"state": "Shutdown"}});
                world.cluster.patch::<GameServer>(&name, end).await;
            }
            None => lost += 1,
        }
        world.scale("f", 3).await;
    }
    eprintln!("{won} allocations came first, {lost} came too late");
}

#[tokio::test(start_paused = true)]
async fn an_allocation_that_comes_first_is_no_failure() {
    let spec = json!({"scaleDown": {"enabled": false, "delayAfterFailure": "1h"}});
    let mut world = world(&BOTH, spec).await;
    let node = world.with_one_on_a_second_node(json!({})).await;
    world.group("other", json!({"max": 1}), json!({"startAfter": "1s"})).await;
    world.pod_of("other", "elsewhere").await;
    until("it has a node", async || world.nodes("other").await.len() == 1).await;
    until("it is bound", async || world.bound_to("elsewhere").await.is_some()).await;
    world.tasks.shutdown().await;
    // The replacement gets no pod, so that the move does not end.
    world.start_parts(&WITHOUT_PODS);
    world.delete_pod("ballast").await;
    let api: Api<NodeAutoscaler> = Api::all(world.client());
    let enabled = Patch::Merge(json!({"spec": {"scaleDown": {"enabled": true}}}));
    api.patch("default", &PatchParams::default(), &enabled).await.unwrap();
    until("the game server is marked", async || {
        let servers = world.servers_on(&node).await;
        servers.iter().any(|server| server.annotations().contains_key(EVACUATE))
    })
    .await;
    let name = allocate(&world, &node).await.unwrap();
    until("everything is released", async || world.is_released().await).await;
    world.until_kept(&node, "GameServerAllocated").await;
    let status = api.get("default").await.unwrap().status.unwrap();
    assert_eq!(status.last_delete_failure_at, None);
    assert!(!world.has_event(&node, "ScaleDownFailed").await);
    let server = world.cluster.api::<GameServer>().get(&name).await.unwrap();
    assert_eq!(state_of(&server), "Allocated");
    world.delete_pod("elsewhere").await;
    until("other removals go on", async || world.nodes("other").await.is_empty()).await;
}
