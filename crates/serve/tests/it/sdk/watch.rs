//! The changes that `WatchGameServer` delivers to a process.

use serde_json::json;

use super::{NEVER, World};

#[tokio::test]
async fn a_watch_starts_with_the_current_state_and_delivers_every_change() {
    let mut world = World::new(json!({})).await;
    let mut sdk = world.client().await;
    let mut watch = sdk.watch_gameserver().await.unwrap();
    let mut next = async || tokio::time::timeout(NEVER, watch.message()).await.unwrap().unwrap();
    assert_eq!(next().await.unwrap().status.unwrap().state, "Scheduled");
    for number in 2..=5 {
        world.patch(json!({"status": {"counters": {"rooms": {"count": number}}}})).await;
        let status = next().await.unwrap().status.unwrap();
        assert_eq!(status.counters["rooms"].count, number);
    }
    world.patch(json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(next().await.unwrap().object_meta.unwrap().labels["a"], "b");
    sdk.allocate().await.unwrap();
    assert_eq!(next().await.unwrap().status.unwrap().state, "Allocated", "its own changes too");
    world.stop().await;
    assert!(next().await.is_none(), "the end is an end, not an error");
}

#[tokio::test]
async fn a_slow_reader_does_not_delay_other_readers() {
    let world =
        World::new(json!({"status": {"counters": {"rooms": {"count": 0, "capacity": 1000}}}}))
            .await;
    let mut sdk = world.client().await;
    let _never_read = sdk.watch_gameserver().await.unwrap();
    let mut watch = sdk.clone().watch_gameserver().await.unwrap();
    for number in 1..=300 {
        world.patch(json!({"status": {"counters": {"rooms": {"count": number}}}, "metadata": {"annotations": {"big": "x".repeat(10_000)}}})).await;
    }
    let last = async {
        loop {
            let update = watch.message().await.unwrap().unwrap();
            if update.status.unwrap().counters["rooms"].count == 300 {
                break;
            }
        }
    };
    tokio::time::timeout(NEVER, last).await.unwrap();
}

#[tokio::test]
async fn a_game_server_that_is_gone_is_not_found() {
    let world = World::new(json!({})).await;
    let mut sdk = world.client().await;
    world.patch(json!({"metadata": {"finalizers": null}})).await;
    world.servers.delete("gs", &kube::api::DeleteParams::default()).await.unwrap();
    let gone = async {
        while sdk.get_gameserver().await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(NEVER, gone).await.unwrap();
}
