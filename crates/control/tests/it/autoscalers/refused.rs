//! Autoscalers that cannot scale: conflicts, missing fleets and failing webhooks, each with its event and condition.

use api::agones::Fleet;
use api::autoscaling::FleetAutoscaler;
use serde_json::json;

use super::web::Webhook;
use super::{autoscaler, buffer, cluster_with, event, make, status, unable, wanted, webhook};
use crate::cluster::{Cluster, fleet, until};

#[tokio::test]
async fn of_two_autoscalers_the_older_moves_the_fleet_and_the_other_is_refused_until_it_is_gone() {
    let cluster = cluster_with(fleet("f", 1)).await;
    make(&cluster, autoscaler("first", "f", buffer(2, 0, 9))).await;
    wanted(&cluster, "f", 2).await;
    // Times are whole seconds: of the same age, the first by name is the older.
    make(&cluster, autoscaler("second", "f", buffer(6, 0, 9))).await;
    let message = unable(&cluster, "second", "OwnedByAnother").await;
    assert_eq!(message, "the older autoscaler `first` scales this fleet");
    let text = "Error calculating desired fleet size on FleetAutoscaler second. Error: the older";
    event(&cluster, "second", "FleetAutoscaler", text).await;
    assert_eq!(cluster.fleet("f").await.spec.replicas, 2);
    cluster.delete::<FleetAutoscaler>("first").await;
    wanted(&cluster, "f", 6).await;
}

#[tokio::test]
async fn a_fleet_that_is_missing_and_one_that_is_deleted_are_reported() {
    let cluster = Cluster::start().await;
    make(&cluster, autoscaler("a", "f", buffer(2, 0, 9))).await;
    unable(&cluster, "a", "FleetNotFound").await;
    event(&cluster, "a", "FailedGetFleet", "could not fetch fleet: f").await;
    cluster.create::<Fleet>(fleet("f", 1)).await;
    wanted(&cluster, "f", 2).await;
    until("it is able again", async || status(&cluster, "a").await.able_to_scale).await;
    cluster.delete::<Fleet>("f").await;
    unable(&cluster, "a", "FleetNotFound").await;
    let status = status(&cluster, "a").await;
    assert_eq!((status.current_replicas, status.desired_replicas), (0, 0));
}

#[tokio::test]
async fn a_missing_key_is_reported_and_leaves_the_fleet_alone() {
    let cluster = cluster_with(fleet("f", 3)).await;
    let list = json!({"key": "players", "bufferSize": 5, "maxCapacity": 50});
    make(&cluster, autoscaler("a", "f", json!({"type": "List", "list": list}))).await;
    let message = unable(&cluster, "a", "KeyNotInTemplate").await;
    assert_eq!(message, "list `players` is not in the fleet's template");
    event(&cluster, "a", "FleetAutoscaler", "list `players`").await;
    assert_eq!(cluster.fleet("f").await.spec.replicas, 3);
}

#[tokio::test]
async fn an_autoscaler_that_cannot_be_read_reports_it_and_leaves_the_fleet_alone() {
    let cluster = cluster_with(fleet("f", 3)).await;
    let annotation = "plimsoll.dev/scale-down-stabilization";
    let mut unreadable = autoscaler("a", "f", buffer(1, 0, 9));
    unreadable["metadata"]["annotations"] = json!({annotation: "a while"});
    make(&cluster, unreadable).await;
    let message = unable(&cluster, "a", "Unreadable").await;
    assert!(message.contains(&format!("metadata.annotations[{annotation}]: ")), "{message}");
    event(&cluster, "a", "FleetAutoscaler", "the autoscaler is invalid").await;
    assert_eq!(cluster.fleet("f").await.spec.replicas, 3);
    let change = json!({"metadata": {"annotations": {annotation: null}}});
    cluster.patch::<FleetAutoscaler>("a", change).await;
    wanted(&cluster, "f", 1).await;
}

#[tokio::test]
async fn a_failed_webhook_is_reported_and_called_again() {
    let cluster = cluster_with(fleet("f", 3)).await;
    let sizer = Webhook::start().await;
    sizer.fails();
    make(&cluster, autoscaler("a", "f", webhook(&sizer.url))).await;
    let message = unable(&cluster, "a", "ReplyFailed").await;
    assert!(message.contains("answered 503 Service Unavailable; expected 200"), "{message}");
    event(&cluster, "a", "FleetAutoscaler", "503 Service Unavailable").await;
    assert_eq!(cluster.fleet("f").await.spec.replicas, 3);
    sizer.wants(5);
    wanted(&cluster, "f", 5).await;
    until("it is able again", async || status(&cluster, "a").await.able_to_scale).await;
    assert!(sizer.asked() >= 2);
}

#[tokio::test]
async fn a_webhook_that_wants_no_change_leaves_the_fleet_as_it_is() {
    let cluster = cluster_with(fleet("f", 4)).await;
    let sizer = Webhook::start().await;
    sizer.keeps();
    make(&cluster, autoscaler("a", "f", webhook(&sizer.url))).await;
    until("it was asked", async || status(&cluster, "a").await.able_to_scale).await;
    assert_eq!(cluster.fleet("f").await.spec.replicas, 4);
}

#[tokio::test]
async fn a_chain_passes_over_a_webhook_that_fails() {
    let cluster = cluster_with(fleet("f", 1)).await;
    let sizer = Webhook::start().await;
    sizer.fails();
    let mut first = webhook(&sizer.url);
    first["id"] = json!("oracle");
    let mut then = buffer(4, 0, 9);
    then["id"] = json!("spare");
    make(&cluster, autoscaler("a", "f", json!({"type": "Chain", "chain": [first, then]}))).await;
    wanted(&cluster, "f", 4).await;
    until("the reason is in the status", async || {
        let status = status(&cluster, "a").await;
        let words =
            status.conditions.iter().any(|c| c.message.contains("entry `oracle` returned no size"));
        words && status.last_applied_policy == "Chain:spare:Buffer"
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_webhook_times_out_and_delays_no_other_autoscaler() {
    let cluster = cluster_with(fleet("f", 3)).await;
    cluster.create::<Fleet>(fleet("g", 1)).await;
    let sizer = Webhook::start().await;
    sizer.sleeps();
    make(&cluster, autoscaler("a", "f", webhook(&sizer.url))).await;
    make(&cluster, autoscaler("b", "g", buffer(2, 0, 9))).await;
    wanted(&cluster, "g", 2).await;
    let message = unable(&cluster, "a", "ReplyFailed").await;
    assert!(message.ends_with("did not answer within 15 s"), "{message}");
    assert_eq!(cluster.fleet("f").await.spec.replicas, 3);
}
