//! A cluster in which nothing changes costs next to nothing.

use plimsoll_control::nodes::{NodeMetrics, NodeSettings};

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evaluations_are_skipped_while_nothing_changes() {
    let mut world = World::idle(json!({"scaleDown": {"enabled": false}})).await;
    let metrics = NodeMetrics::default();
    let nodes =
        NodeSettings { longest_pause: Duration::from_millis(50), ..NodeSettings::default() };
    let settings = Settings { node_metrics: metrics.clone(), nodes, ..world.cluster.settings() };
    world.tasks.spawn(control(world.client(), settings));
    world.group("g", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    world.pod("p", "3", json!({})).await;
    until("the pod has a node", async || world.bound().await == 1).await;
    let count = |name: &str| -> u64 {
        let counters = metrics.numbers().counters;
        counters.get(name).map_or(0, |series| series.values().sum())
    };
    let (evaluations, skipped) =
        ("plimsoll_nodes_evaluations", "plimsoll_nodes_evaluations_skipped");
    until("twenty in a row are skipped", async || {
        let before = (count(evaluations), count(skipped));
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut now = before;
        while now.0 == before.0 && now.1 < before.1 + 20 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            now = (count(evaluations), count(skipped));
        }
        now.0 == before.0
    })
    .await;
    let before = count(evaluations);
    world.pod("q", "3", json!({})).await;
    until("a change is evaluated", async || world.bound().await == 2).await;
    assert!(count(evaluations) > before);
    world.end().await;
}
