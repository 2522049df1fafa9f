//! Fleets and their sets.

use api::agones::{Fleet, GameServer};
use serde_json::json;

use crate::cluster::{Cluster, fleet, until};

#[tokio::test]
async fn a_fleet_is_filled_grows_and_shrinks() {
    let cluster = Cluster::start(3).await;
    cluster.create::<Fleet>(fleet("f", 5)).await;
    cluster.ready("f", 5).await;
    cluster.patch::<Fleet>("f", json!({"spec": {"replicas": 12}})).await;
    cluster.ready("f", 12).await;
    cluster.patch::<Fleet>("f", json!({"spec": {"replicas": 2}})).await;
    cluster.ready("f", 2).await;
    until("the others are gone", async || cluster.servers().await.len() == 2).await;
    assert_eq!(cluster.pods().await.len(), 2);
    assert_eq!(cluster.sets().await.len(), 1);
}

#[tokio::test]
async fn a_rolling_update_replaces_servers_and_keeps_those_in_use() {
    let cluster = Cluster::start(3).await;
    cluster.create::<Fleet>(fleet("f", 8)).await;
    cluster.ready("f", 8).await;
    let used = cluster.in_state("Ready").await.remove(0).metadata.name.unwrap();
    cluster.patch::<GameServer>(&used, json!({"status": {"state": "Allocated"}})).await;
    let old = cluster.sets().await.remove(0).metadata.name.unwrap();
    let template = json!({"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}});
    cluster.patch::<Fleet>("f", template).await;
    until("all but the one in use are new", async || {
        let ready = cluster.in_state("Ready").await;
        let is_new = |s: &GameServer| s.metadata.labels.as_ref().unwrap().contains_key("version");
        ready.len() == 7 && ready.iter().all(is_new)
    })
    .await;
    let kept = cluster.in_state("Allocated").await;
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].metadata.name.as_deref(), Some(used.as_str()));
    cluster.delete::<GameServer>(&used).await;
    until("the old set is gone", async || {
        cluster.sets().await.iter().all(|set| set.metadata.name.as_deref() != Some(old.as_str()))
    })
    .await;
    cluster.ready("f", 8).await;
}

#[tokio::test]
async fn a_deleted_fleet_leaves_nothing() {
    let cluster = Cluster::start(3).await;
    cluster.create::<Fleet>(fleet("f", 5)).await;
    cluster.ready("f", 5).await;
    cluster.delete::<Fleet>("f").await;
    until("all is gone", async || {
        cluster.sets().await.is_empty()
            && cluster.servers().await.is_empty()
            && cluster.pods().await.is_empty()
    })
    .await;
}
