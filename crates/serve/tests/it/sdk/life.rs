//! The states that a process requests for its game server.

use std::time::Duration;

use decide::gameserver::State;
use plimsoll_serve::sdk::Settings;
use serde_json::json;

use super::{NEVER, World, curl, settings};

#[tokio::test]
async fn a_process_goes_from_ready_to_allocated_to_shutdown() {
    let world = World::new(json!({})).await;
    let mut sdk = world.client().await;
    sdk.ready().await.unwrap();
    world.until_state("Ready").await;
    sdk.allocate().await.unwrap();
    let allocated = world.until_state("Allocated").await;
    let at = &allocated["metadata"]["annotations"]["agones.dev/last-allocated"];
    at.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    sdk.shutdown().await.unwrap();
    world.until_state("Shutdown").await;
    sdk.ready().await.unwrap();
    sdk.set_label("after", "the-end").await.unwrap();
    let last =
        world.until("label", |s| s["metadata"]["labels"]["agones.dev/sdk-after"] == "the-end");
    assert_eq!(last.await["status"]["state"], "Shutdown", "no state comes after the last");
}

#[tokio::test]
async fn a_reservation_ends_by_itself() {
    let world = World::new(json!({})).await;
    let mut sdk = world.client().await;
    sdk.reserve(Duration::from_secs(1)).await.unwrap();
    let reserved = world.until_state("Reserved").await;
    assert!(reserved["status"]["reservedUntil"].is_string());
    let ready = world.until_state("Ready").await;
    assert!(ready["status"]["reservedUntil"].is_null(), "{ready:#}");
}

#[tokio::test]
async fn an_sdk_server_that_starts_anew_still_ends_a_reservation() {
    let mut world = World::new(json!({})).await;
    world.client().await.reserve(Duration::from_secs(2)).await.unwrap();
    world.until_state("Reserved").await;
    world.stop().await;
    world.start(settings()).await;
    world.until_state("Ready").await;
}

#[tokio::test]
async fn a_reservation_without_end_stays_and_allocating_ends_one() {
    let world = World::new(json!({})).await;
    let mut sdk = world.client().await;
    assert_eq!(curl(&["-X", "POST", &world.url("/reserve")]).await, "{}");
    let reserved = world.until_state("Reserved").await;
    assert!(reserved["status"]["reservedUntil"].is_null());
    sdk.reserve(Duration::from_secs(3600)).await.unwrap();
    world.until("an end", |s| s["status"]["reservedUntil"].is_string()).await;
    sdk.allocate().await.unwrap();
    let allocated = world.until_state("Allocated").await;
    assert!(allocated["status"]["reservedUntil"].is_null());
}

#[tokio::test]
async fn a_silent_process_is_unhealthy_and_stays_so() {
    let health = json!({"disabled": false, "periodSeconds": 1, "failureThreshold": 2, "initialDelaySeconds": 1});
    let world = World::new(json!({"spec": {"health": health}})).await;
    let mut sdk = world.client().await;
    let pings = sdk.health_check();
    let healthz = format!("http://127.0.0.1:{}/gshealthz", world.sdk.as_ref().unwrap().health);
    let probe = async || curl(&["-o", "/dev/null", "-w", "%{http_code}", &healthz]).await;
    assert_eq!(probe().await, "200");
    pings.send(()).await.unwrap();
    world.until_state("Unhealthy").await;
    assert_eq!(probe().await, "500");
    sdk.shutdown().await.unwrap();
    sdk.set_label("after", "all").await.unwrap();
    let last =
        world.until("label", |s| s["metadata"]["labels"]["agones.dev/sdk-after"] == "all").await;
    assert_eq!(last["status"]["state"], State::Unhealthy.as_str());
}

#[tokio::test]
async fn the_health_timeout_starts_with_the_sdk_server() {
    let health = json!({"disabled": false, "periodSeconds": 1, "failureThreshold": 1, "initialDelaySeconds": 1});
    let mut world = World::without_sdk(json!({"spec": {"health": health}})).await;
    world.start(Settings { health_from_start: true, ..settings() }).await;
    world.until_state("Unhealthy").await;
}

#[tokio::test]
async fn pending_changes_are_written_before_shutdown() {
    let mut world = World::without_sdk(json!({})).await;
    let slow = Settings { rate_limit: Duration::from_secs(3600), ..settings() };
    world.start(slow).await;
    let mut sdk = world.client().await;
    sdk.set_label("first", "at-once").await.unwrap();
    world.until("label", |s| s["metadata"]["labels"]["agones.dev/sdk-first"] == "at-once").await;
    sdk.shutdown().await.unwrap();
    assert_eq!(
        world.stored().await["status"]["state"],
        "Scheduled",
        "the next write is an hour away"
    );
    world.stop().await;
    assert_eq!(world.stored().await["status"]["state"], "Shutdown");
}

#[tokio::test]
async fn a_graceful_end_waits_for_the_process_to_shut_down() {
    let mut world = World::without_sdk(json!({})).await;
    world.start(Settings { graceful_termination: true, ..settings() }).await;
    let mut sdk = world.client().await;
    sdk.ready().await.unwrap();
    world.until_state("Ready").await;
    let running = world.sdk.take().unwrap();
    running.stop.send(()).unwrap();
    assert!(!running.task.is_finished());
    sdk.shutdown().await.unwrap();
    tokio::time::timeout(NEVER, running.task).await.unwrap().unwrap().unwrap();
    world.until_state("Shutdown").await;
}
