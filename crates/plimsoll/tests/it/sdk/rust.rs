//! Every call of the published `agones` crate.

use std::time::Duration;

use agones::Sdk;

use super::sdk_servers::{self, NEVER, SdkServer};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rust_client_makes_every_call_in_process() {
    every_call(&sdk_servers::in_process().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rust_client_makes_every_call_to_the_sidecar() {
    every_call(&sdk_servers::sidecar().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rust_client_makes_every_call_to_the_local_stand_in() {
    every_call(&sdk_servers::local(&[])).await;
}

async fn every_call(server: &SdkServer) {
    let mut sdk = server.client().await;
    let pings = sdk.health_check();
    pings.send(()).await.unwrap();
    let mut watch = sdk.watch_gameserver().await.unwrap();
    let first = tokio::time::timeout(NEVER, watch.message()).await.unwrap().unwrap().unwrap();
    assert!(!first.object_meta.unwrap().uid.is_empty());
    sdk.ready().await.unwrap();
    until_state(&mut sdk, "Ready").await;
    sdk.allocate().await.unwrap();
    until_state(&mut sdk, "Allocated").await;
    sdk.reserve(Duration::from_secs(1)).await.unwrap();
    until_state(&mut sdk, "Reserved").await;
    until_state(&mut sdk, "Ready").await;
    sdk.set_label("map", "desert").await.unwrap();
    sdk.set_annotation("note", "any text, really").await.unwrap();
    let meta = sdk.get_gameserver().await.unwrap().object_meta.unwrap();
    assert_eq!(meta.labels["agones.dev/sdk-map"], "desert");
    assert_eq!(meta.annotations["agones.dev/sdk-note"], "any text, really");
    counters(&sdk).await;
    lists(&sdk).await;
    players(&sdk).await;
    sdk.shutdown().await.unwrap();
    until_state(&mut sdk, "Shutdown").await;
    let last = async {
        while watch.message().await.unwrap().unwrap().status.unwrap().state != "Shutdown" {}
    };
    tokio::time::timeout(NEVER, last).await.expect("the watch hears of the end");
    if server.stored().await.is_some() {
        stored(server).await;
    }
}

async fn until_state(sdk: &mut Sdk, state: &str) {
    let reached = async {
        while sdk.get_gameserver().await.unwrap().status.unwrap().state != state {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let reached = tokio::time::timeout(NEVER, reached).await;
    reached.unwrap_or_else(|_| panic!("never {state}"));
}

async fn counters(sdk: &Sdk) {
    let mut beta = sdk.beta().clone();
    assert_eq!(beta.get_counter_count("rooms").await.unwrap(), 1);
    beta.increment_counter("rooms", 9).await.unwrap();
    beta.decrement_counter("rooms", 10).await.unwrap();
    beta.set_counter_count("rooms", 10).await.unwrap();
    assert_eq!(beta.get_counter_count("rooms").await.unwrap(), 10);
    assert_eq!(beta.get_counter_capacity("rooms").await.unwrap(), 10);
    beta.set_counter_capacity("rooms", 1).await.unwrap();
    assert_eq!(beta.get_counter_count("rooms").await.unwrap(), 1, "cut down to the capacity");
    assert!(beta.increment_counter("rooms", 1).await.is_err());
}

async fn lists(sdk: &Sdk) {
    let mut beta = sdk.beta().clone();
    assert!(beta.list_contains("players", "test1").await.unwrap());
    assert_eq!(beta.get_list_length("players").await.unwrap(), 3);
    assert_eq!(beta.get_list_values("players").await.unwrap(), ["test0", "test1", "test2"]);
    beta.append_list_value("players", "test3").await.unwrap();
    beta.delete_list_value("players", "test2").await.unwrap();
    assert_eq!(beta.get_list_capacity("players").await.unwrap(), 100);
    beta.set_list_capacity("players", 2).await.unwrap();
    assert_eq!(beta.get_list_values("players").await.unwrap(), ["test0", "test1"]);
}

async fn players(sdk: &Sdk) {
    let mut alpha = sdk.alpha().clone();
    alpha.set_player_capacity(10).await.unwrap();
    assert_eq!(alpha.get_player_capacity().await.unwrap(), 10);
    assert!(alpha.player_connect("1234").await.unwrap());
    assert!(alpha.is_player_connected("1234").await.unwrap());
    assert_eq!(alpha.get_connected_players().await.unwrap(), ["1234"]);
    assert!(alpha.player_disconnect("1234").await.unwrap());
    assert_eq!(alpha.get_player_count().await.unwrap(), 0);
}

/// Waits until what the SDK calls set is stored.
async fn stored(server: &SdkServer) {
    let is_all = async {
        loop {
            let stored = server.stored().await.unwrap();
            let status = &stored["status"];
            if status["state"] == "Shutdown" {
                assert_eq!(status["counters"]["rooms"]["capacity"], 1);
                assert_eq!(status["lists"]["players"]["capacity"], 2);
                assert_eq!(status["players"]["capacity"], 10);
                assert_eq!(stored["metadata"]["labels"]["agones.dev/sdk-map"], "desert");
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(NEVER, is_all).await.unwrap();
}
