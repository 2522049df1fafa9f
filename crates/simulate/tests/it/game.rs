//! Simulated game servers follow their scripts.

use std::time::Duration;

use api::agones::GameServer;
use engine::{Engine, Settings};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use plimsoll_simulate::game::Player;
use process::Clock;
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_script_moves_its_game_server() {
    let world = World::new().await;
    let pod = pod("ready=2s shutdown=1m");
    let player = Player::new(world.engine.client());
    let playing = tokio::spawn(async move { player.play(&pod).await });
    tokio::time::sleep(Duration::from_millis(1900)).await;
    assert_eq!(world.state().await, "Scheduled");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(world.state().await, "RequestReady");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.state().await, "Shutdown");
    playing.abort();
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_unhealthy_after_its_patience() {
    let world = World::new().await;
    let pod = pod("ready=0s silent=10s");
    let player = Player::new(world.engine.client());
    let playing = tokio::spawn(async move { player.play(&pod).await });
    tokio::time::sleep(Duration::from_secs(24)).await;
    assert_eq!(world.state().await, "RequestReady");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.state().await, "Unhealthy", "three missed periods of five seconds");
    playing.abort();
}

#[tokio::test(start_paused = true)]
async fn a_crash_gives_the_code_and_says_nothing() {
    let world = World::new().await;
    let player = Player::new(world.engine.client());
    assert_eq!(player.play(&pod("crash=5s:7")).await, 7);
    assert_eq!(world.state().await, "Scheduled");
}

/// An engine with one game server that has a node.
struct World {
    engine: Engine,
}

impl World {
    async fn new() -> Self {
        let clock = Clock::virtual_at(Timestamp::UNIX_EPOCH);
        let settings = Settings { clock, ..Settings::ephemeral() };
        let engine = Engine::open(settings).await.unwrap();
        let server = serde_json::from_value(json!({
            "apiVersion": "agones.dev/v1", "kind": "GameServer",
            "metadata": {"name": "a", "namespace": "default"},
            "spec": {"template": {"spec": {"containers": [{"name": "game", "image": "game"}]}}},
            "status": {"state": "Scheduled"},
        }));
        let servers: Api<GameServer> = Api::namespaced(engine.client(), "default");
        servers.create(&PostParams::default(), &server.unwrap()).await.unwrap();
        Self { engine }
    }

    async fn state(&self) -> String {
        let servers: Api<GameServer> = Api::namespaced(self.engine.client(), "default");
        servers.get("a").await.unwrap().status.unwrap().state
    }
}

fn pod(script: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "a", "namespace": "default", "annotations": {"plimsoll.dev/simulate": script}},
    }))
    .unwrap()
}
