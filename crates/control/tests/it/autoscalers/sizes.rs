//! Policies at work: the fleet follows what its game servers do.

use api::agones::{Fleet, GameServer};
use api::autoscaling::FleetAutoscaler;
use serde_json::{Value, json};

use super::{allocate, autoscaler, buffer, cluster_with, event, make, status, wanted};
use crate::cluster::{fleet, until};

/// A fleet whose servers have ten rooms each.
fn lobby(replicas: i32) -> Value {
    let mut fleet = fleet("f", replicas);
    fleet["spec"]["template"]["spec"]["counters"] = json!({"rooms": {"count": 0, "capacity": 10}});
    fleet
}

#[tokio::test]
async fn a_fleet_grows_when_servers_are_allocated_and_shrinks_when_they_end() {
    let cluster = cluster_with(fleet("f", 1)).await;
    make(&cluster, autoscaler("a", "f", buffer(3, 0, 8))).await;
    cluster.ready("f", 3).await;
    event(&cluster, "a", "AutoScalingFleet", "from 1 to 3: 1 of 3 wanted spare").await;
    allocate(&cluster, 2).await;
    wanted(&cluster, "f", 5).await;
    until("it is in the status", async || {
        let status = status(&cluster, "a").await;
        status.desired_replicas == 5 && status.able_to_scale && status.last_scale_time.is_some()
    })
    .await;
    for server in cluster.in_state("Allocated").await {
        let name = server.metadata.name.unwrap();
        cluster.patch::<GameServer>(&name, json!({"status": {"state": "Shutdown"}})).await;
    }
    wanted(&cluster, "f", 3).await;
    let status = status(&cluster, "a").await;
    assert_eq!(status.last_applied_policy, "Buffer");
}

#[tokio::test]
async fn a_maximum_holds_and_is_reported() {
    let cluster = cluster_with(fleet("f", 4)).await;
    cluster.ready("f", 4).await;
    allocate(&cluster, 3).await;
    make(&cluster, autoscaler("a", "f", buffer(3, 0, 5))).await;
    wanted(&cluster, "f", 5).await;
    let text = "Scaling fleet f was limited to maximum size of 5: wanted 6, the maximum is 5";
    event(&cluster, "a", "ScalingLimited", text).await;
    assert!(status(&cluster, "a").await.scaling_limited);
}

#[tokio::test]
async fn a_counter_that_fills_up_makes_the_fleet_grow_and_one_that_empties_makes_it_shrink() {
    let cluster = cluster_with(lobby(2)).await;
    cluster.ready("f", 2).await;
    let counter = json!({"key": "rooms", "bufferSize": 15, "maxCapacity": 100});
    make(&cluster, autoscaler("a", "f", json!({"type": "Counter", "counter": counter}))).await;
    let server = cluster.in_state("Ready").await.remove(0).metadata.name.unwrap();
    let rooms = |count: i64| json!({"status": {"counters": {"rooms": {"count": count}}}});
    cluster.patch::<GameServer>(&server, rooms(9)).await;
    wanted(&cluster, "f", 3).await;
    cluster.patch::<GameServer>(&server, rooms(0)).await;
    wanted(&cluster, "f", 2).await;
}

#[tokio::test]
async fn a_size_set_by_hand_is_corrected_at_once() {
    let cluster = cluster_with(fleet("f", 3)).await;
    make(&cluster, autoscaler("a", "f", buffer(3, 0, 8))).await;
    cluster.ready("f", 3).await;
    cluster.patch::<Fleet>("f", json!({"spec": {"replicas": 7}})).await;
    until("it was moved", async || {
        let fleet = cluster.fleet("f").await;
        fleet.spec.replicas == 3 && fleet.metadata.generation >= Some(3)
    })
    .await;
}

#[tokio::test]
async fn a_new_policy_holds_at_once() {
    let cluster = cluster_with(fleet("f", 3)).await;
    make(&cluster, autoscaler("a", "f", buffer(3, 0, 8))).await;
    cluster.ready("f", 3).await;
    let policy = json!({"spec": {"policy": buffer(6, 0, 8)}});
    cluster.patch::<FleetAutoscaler>("a", policy).await;
    wanted(&cluster, "f", 6).await;
}

#[tokio::test]
async fn a_chain_reports_which_entry_applies() {
    let cluster = cluster_with(fleet("f", 1)).await;
    let mut missing = json!({"type": "Counter", "id": "rooms"});
    missing["counter"] = json!({"key": "rooms", "bufferSize": 1, "maxCapacity": 10});
    let mut spare = buffer(2, 0, 5);
    spare["id"] = json!("spare");
    make(&cluster, autoscaler("a", "f", json!({"type": "Chain", "chain": [missing, spare]}))).await;
    wanted(&cluster, "f", 2).await;
    let text = "FleetAutoscaler 'a' successfully applied ChainPolicy | ID: spare | Type: Buffer";
    event(&cluster, "a", "ChainPolicy", text).await;
    until("it is in the status", async || {
        status(&cluster, "a").await.last_applied_policy == "Chain:spare:Buffer"
    })
    .await;
}

#[tokio::test]
async fn with_a_window_a_fleet_grows_at_once_and_does_not_shrink_yet() {
    let cluster = cluster_with(fleet("f", 5)).await;
    cluster.ready("f", 5).await;
    let mut patient = autoscaler("a", "f", buffer(2, 0, 10));
    patient["metadata"]["annotations"] = json!({"plimsoll.dev/scale-down-stabilization": "10m"});
    make(&cluster, patient).await;
    until("it is held", async || {
        let status = status(&cluster, "a").await;
        status.conditions.iter().any(|c| c.reason == "Settling") && status.desired_replicas == 5
    })
    .await;
    allocate(&cluster, 4).await;
    wanted(&cluster, "f", 6).await;
}
