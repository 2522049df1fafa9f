//! Counters, lists, players, labels: batched, merged with the writes of other clients, and rejected when invalid.

use std::time::Duration;

use plimsoll_serve::sdk::Settings;
use serde_json::{Value, json};

use super::{World, settings};

/// Returns the gRPC code and message of a refusal.
fn refusal<T>(result: Result<T, agones::errors::Error>) -> (i32, String) {
    match result {
        Err(agones::errors::Error::Rpc(status)) => {
            (status.code() as i32, status.message().to_owned())
        }
        Err(other) => panic!("not a refusal: {other}"),
        Ok(_) => panic!("not refused"),
    }
}

#[tokio::test]
async fn the_first_change_is_written_at_once_and_the_rest_in_one() {
    let mut world = World::without_sdk(json!({})).await;
    world.start(Settings { rate_limit: Duration::from_secs(3600), ..settings() }).await;
    let mut beta = world.client().await.beta().clone();
    beta.increment_counter("rooms", 1).await.unwrap();
    world.until("2", |s| s["status"]["counters"]["rooms"]["count"] == 2).await;
    for _ in 0..5 {
        beta.increment_counter("rooms", 1).await.unwrap();
    }
    beta.append_list_value("players", "test3").await.unwrap();
    beta.delete_list_value("players", "test0").await.unwrap();
    assert_eq!(beta.get_counter_count("rooms").await.unwrap(), 7, "a process reads what it wrote");
    assert_eq!(beta.get_list_values("players").await.unwrap(), ["test1", "test2", "test3"]);
    assert_eq!(world.writes(), 1, "the window is not over");
    world.stop().await;
    assert_eq!(world.writes(), 2);
    let status = &world.stored().await["status"];
    assert_eq!(status["counters"]["rooms"], json!({"count": 7, "capacity": 10}));
    assert_eq!(status["lists"]["players"]["values"], json!(["test1", "test2", "test3"]));
}

#[tokio::test]
async fn a_change_that_changes_nothing_is_not_written() {
    let mut world = World::new(json!({"metadata": {"labels": {"agones.dev/sdk-a": "b"}}})).await;
    let mut sdk = world.client().await;
    sdk.set_label("a", "b").await.unwrap();
    world.stop().await;
    assert_eq!(world.writes(), 0);
}

#[tokio::test]
async fn changes_are_merged_with_what_others_write_meanwhile() {
    let mut world = World::without_sdk(json!({})).await;
    world.start(Settings { rate_limit: Duration::from_secs(3600), ..settings() }).await;
    let mut sdk = world.client().await;
    sdk.set_label("first", "write").await.unwrap();
    world.until("label", |s| s["metadata"]["labels"]["agones.dev/sdk-first"] == "write").await;
    let mut beta = sdk.beta().clone();
    beta.increment_counter("rooms", 3).await.unwrap();
    beta.append_list_value("players", "mine").await.unwrap();
    // An allocation adds its own.
    let list = ["test0", "test1", "test2", "theirs"];
    world
        .patch(json!({"status": {
            "state": "Allocated",
            "counters": {"rooms": {"count": 5}},
            "lists": {"players": {"values": list}},
        }}))
        .await;
    world.stop().await;
    let status = &world.stored().await["status"];
    assert_eq!(status["state"], "Allocated");
    assert_eq!(status["counters"]["rooms"]["count"], 8, "5 of theirs and 3 of ours");
    let values = json!(["test0", "test1", "test2", "theirs", "mine"]);
    assert_eq!(status["lists"]["players"]["values"], values);
}

#[tokio::test]
async fn many_writers_lose_no_count() {
    let world =
        World::new(json!({"status": {"counters": {"rooms": {"count": 0, "capacity": 1000}}}}))
            .await;
    let mut beta = world.client().await.beta().clone();
    for round in 0..30 {
        beta.increment_counter("rooms", 1).await.unwrap();
        world.patch(json!({"metadata": {"annotations": {"round": round.to_string()}}})).await;
    }
    world.until("30", |s| s["status"]["counters"]["rooms"]["count"] == 30).await;
    assert_eq!(beta.get_counter_count("rooms").await.unwrap(), 30);
}

#[tokio::test]
async fn refusals_begin_with_the_words_of_agones() {
    let world = World::new(json!({"status": {"lists": {"players": {"capacity": 3}}}})).await;
    let mut sdk = world.client().await;
    let mut beta = sdk.beta().clone();
    let mut alpha = sdk.alpha().clone();
    let range = "out of range. Count must be within range [0,Capacity].";
    let refusals = [
        (5, "counter not found: none", refusal(beta.get_counter_count("none").await)),
        (5, "counter not found: none", refusal(beta.increment_counter("none", 1).await)),
        (11, range, refusal(beta.increment_counter("rooms", 10).await)),
        (
            11,
            "out of range. Count must be within range [0,Capacity]. Found Count: -1, Capacity: 10",
            refusal(beta.decrement_counter("rooms", 2).await),
        ),
        (11, range, refusal(beta.set_counter_count("rooms", 11).await)),
        (
            11,
            "out of range. Capacity must be greater than or equal to 0. Found Capacity: -1",
            refusal(beta.set_counter_capacity("rooms", -1).await),
        ),
        (
            3,
            "invalid argument. Malformed CounterUpdateRequest: ",
            refusal(beta.increment_counter("rooms", 0).await),
        ),
        (5, "list not found: none", refusal(beta.get_list_values("none").await)),
        (5, "list not found: none", refusal(beta.append_list_value("none", "a").await)),
        (5, "list not found: none", refusal(beta.delete_list_value("none", "a").await)),
        (5, "not found. none List not found", refusal(beta.set_list_capacity("none", 1).await)),
        (
            11,
            "out of range. No available capacity. Current Capacity: 3, List Size: 3",
            refusal(beta.append_list_value("players", "test9").await),
        ),
        (
            5,
            "not found: value test9 not in list players",
            refusal(beta.delete_list_value("players", "test9").await),
        ),
        (
            11,
            "out of range. Capacity must be within range [0,1000]. Found Capacity: 1001",
            refusal(beta.set_list_capacity("players", 1001).await),
        ),
        (3, r#"invalid label key "a b": "#, refusal(sdk.set_label("a b", "c").await)),
        (3, "invalid label key", refusal(sdk.set_label("example.com/a", "c").await)),
        (3, r#"invalid label value "b c" for key "a": "#, refusal(sdk.set_label("a", "b c").await)),
        (3, r#"invalid annotation key "a/b": "#, refusal(sdk.set_annotation("a/b", "c").await)),
        (
            11,
            "players are already at capacity",
            refusal(alpha.player_connect("one too many").await),
        ),
    ];
    for (number, (code, words, (actual, message))) in refusals.into_iter().enumerate() {
        assert_eq!(actual, code, "refusal {number}: {message}");
        assert!(message.starts_with(words), "refusal {number}: {message}");
    }
    beta.set_list_capacity("players", 4).await.unwrap();
    let there = refusal(beta.append_list_value("players", "test1").await);
    assert_eq!(there, (6, "already exists. Value: test1 already in List: players".to_owned()));
    assert_eq!(world.stored().await["status"]["counters"]["rooms"]["count"], 1);
}

#[tokio::test]
async fn text_that_no_api_would_store_is_refused_when_it_is_set() {
    let world = World::new(json!({})).await;
    let mut sdk = world.client().await;
    let mut beta = sdk.beta().clone();
    sdk.set_annotation("small", "x".repeat(200 << 10)).await.unwrap();
    let (code, message) = refusal(sdk.set_annotation("large", "x".repeat(100 << 10)).await);
    assert_eq!(code, 3);
    assert!(message.starts_with("invalid argument. annotations: "), "{message}");
    let (code, message) = refusal(beta.append_list_value("players", &"x".repeat(1 << 20)).await);
    assert_eq!(code, 3);
    assert!(message.starts_with("invalid argument. GameServer: "), "{message}");
    sdk.allocate().await.unwrap();
    let stored = world.until_state("Allocated").await;
    assert!(stored["metadata"]["annotations"]["agones.dev/sdk-large"].is_null());
    assert_eq!(stored["status"]["lists"]["players"]["values"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn players_come_and_go() {
    let world = World::new(json!({})).await;
    let mut alpha = world.client().await.alpha().clone();
    assert_eq!(alpha.get_player_capacity().await.unwrap(), 0);
    alpha.set_player_capacity(2).await.unwrap();
    assert!(alpha.player_connect("a").await.unwrap());
    assert!(!alpha.player_connect("a").await.unwrap(), "there already");
    assert!(alpha.player_connect("b").await.unwrap());
    assert!(alpha.player_disconnect("a").await.unwrap());
    assert!(!alpha.player_disconnect("a").await.unwrap(), "gone already");
    assert_eq!(alpha.get_connected_players().await.unwrap(), ["b"]);
    assert!(alpha.is_player_connected("b").await.unwrap());
    assert_eq!(alpha.get_player_count().await.unwrap(), 1);
    let wanted = json!({"count": 1, "capacity": 2, "ids": ["b"]});
    world.until("players", |s: &Value| s["status"]["players"] == wanted).await;
}
