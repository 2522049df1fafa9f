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
