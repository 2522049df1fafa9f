//! Policies of services at work: thresholds that have to be crossed for a minute, and quiet periods.

use api::plimsoll::AutoScalePolicy;
use api::plimsoll::auto_scale_policy::AutoScalePolicyStatus;
use kube::Client;
use plimsoll_control::Settings;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{World, create_source, pass, set_replicas};
use crate::client;
use crate::cluster::{Cluster, until};

/// A policy of the service `web`, which is the Deployment of that name.
pub(super) fn policy(name: &str, action: &str, threshold: i64, amount: i64) -> Value {
    json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "AutoScalePolicy",
        "metadata": {"name": name},
        "spec": {
            "serviceId": "web", "metric": "CPUUtilizationPercent", "threshold": threshold,
            "min": 1, "max": 8, "action": action, "amount": amount, "source": "load",
            "target": {"kind": "Deployment", "name": "web"},
        },
    })
}

async fn status(world: &World, name: &str) -> AutoScalePolicyStatus {
    let policy: AutoScalePolicy = world.cluster.api().get(name).await.unwrap();
    policy.status.unwrap_or_default()
}

/// Waits until a condition of a policy has a status and a reason, and returns its message.
pub(super) async fn service_condition(
    world: &World,
    name: &str,
    wanted: (&str, &str, &str),
) -> String {
    let mut message = String::new();
    until(&format!("{name}: {wanted:?}"), async || {
        let status = status(world, name).await;
        let found = status.conditions.into_iter().find(|condition| {
            (&*condition.type_, &*condition.status, &*condition.reason) == wanted
        });
        let is_there = found.is_some();
        message = found.map(|condition| condition.message).unwrap_or_default();
        is_there
    })
    .await;
    message
}

/// Starts controllers that end when the returned guard is dropped.
fn controllers(cluster: &Cluster, client: Client, settings: Settings) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(cluster.controllers(client, settings, std::future::pending()));
    tasks
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_cannot_be_read_reports_it_and_the_others_of_its_service_scale() {
    let world = World::on(Cluster::embedded().await, 2).await;
    world.load.returns(90.0);
    world.cluster.create::<AutoScalePolicy>(policy("bad", "up", 80, 7)).await;
    world.cluster.create::<AutoScalePolicy>(policy("good", "up", 80, 2)).await;
    // A cluster without our admission webhook stores what cannot be read; here the controllers read another amount.
    let client = world.cluster.client.clone();
    let client = client::misreading(client, "\"amount\":7", "\"amount\":0");
    let _running = controllers(&world.cluster, client, world.cluster.settings());
    let wanted = ("ScalingActive", "False", "InvalidPolicy");
    let message = service_condition(&world, "bad", wanted).await;
    assert_eq!(message, "spec.amount: must be at least 1");
    world.until_event("bad", "InvalidPolicy", "spec.amount").await;
    world.wants(4).await;
    assert!(status(&world, "bad").await.last_action.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_service_is_evaluated_as_soon_as_its_source_or_target_changes() {
    let world = World::on(Cluster::embedded().await, 2).await;
    let hour = std::time::Duration::from_secs(3600);
    let settings = Settings { service_interval: hour, ..world.cluster.settings() };
    let _running = controllers(&world.cluster, world.cluster.client.clone(), settings);
    let mut up = policy("up", "up", 80, 2);
    up["spec"]["source"] = json!("later");
    world.cluster.create::<AutoScalePolicy>(up).await;
    let wanted = ("ScalingActive", "False", "FailedGetMetric");
    let message = service_condition(&world, "up", wanted).await;
    assert!(message.contains("no MetricSource `later`"), "{message}");
    world.load.returns(50.0);
    create_source(&world.cluster, "later", &world.load.url).await;
    service_condition(&world, "up", ("ScalingActive", "False", "WindowNotFull")).await;
    set_replicas(&world.cluster, "web", 5).await;
    until("the new size is in the status", async || {
        status(&world, "up").await.current_count == Some(5)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_service_grows_after_a_busy_minute_and_shrinks_after_its_quiet_period() {
    let world = World::start(2).await;
    world.load.returns(90.0);
    world.cluster.create::<AutoScalePolicy>(policy("up", "up", 80, 3)).await;
    world.cluster.create::<AutoScalePolicy>(policy("down", "down", 20, 1)).await;
    pass(45).await;
    assert_eq!(world.replicas().await, 2, "the minute is not over");
    world.wants(5).await;
    world.until_event("up", "SuccessfulRescale", "scaled from 2 to 5").await;
    let executed = status(&world, "up").await.last_executed.unwrap();
    pass(60).await;
    assert_eq!(world.replicas().await, 5, "quiet for three minutes");
    world.wants(8).await;
    let again = status(&world, "up").await.last_executed.unwrap();
    // The status has whole seconds.
    assert!(again - executed >= 180, "{} s after the first", again - executed);
    world.load.returns(5.0);
    pass(240).await;
    assert_eq!(world.replicas().await, 8, "down is quiet for five minutes after up");
    world.wants(7).await;
    assert_eq!(status(&world, "down").await.current_count, Some(7));
}

#[tokio::test(start_paused = true)]
async fn policies_of_one_service_are_one_decision() {
    let world = World::start(3).await;
    let memory = super::Source::start().await;
    create_source(&world.cluster, "memory", &memory.url).await;
    let mut down = policy("down", "down", 20, 1);
    down["spec"]["metric"] = json!("MemoryUtilization");
    down["spec"]["source"] = json!("memory");
    world.load.returns(90.0);
    memory.returns(5.0);
    world.cluster.create::<AutoScalePolicy>(down).await;
    world.cluster.create::<AutoScalePolicy>(policy("by-one", "up", 80, 1)).await;
    world.cluster.create::<AutoScalePolicy>(policy("by-two", "up", 60, 2)).await;
    world.wants(5).await;
    assert!(status(&world, "by-one").await.last_action.is_none(), "the larger count wins");
    assert!(status(&world, "down").await.last_action.is_none(), "up beats down");
}

#[tokio::test(start_paused = true)]
async fn a_death_between_any_two_requests_fires_a_policy_once() {
    let world = World::on(Cluster::embedded().await, 2).await;
    world.load.returns(90.0);
    let mut up = policy("up", "up", 80, 2);
    up["spec"]["quietPeriod"] = json!(7 * 24 * 3600);
    world.cluster.create::<AutoScalePolicy>(up).await;
    for life in 10..60 {
        let (client, death) = client::mortal(world.cluster.client.clone(), life, life % 2 == 0);
        let mut running = JoinSet::new();
        let stop = std::future::pending();
        running.spawn(world.cluster.controllers(client, world.cluster.settings(), stop));
        drop(tokio::time::timeout(std::time::Duration::from_secs(150), death.notified()).await);
        drop(running);
        let size = world.replicas().await;
        assert!(size == 2 || size == 4, "life {life}: {size}");
    }
    let mut running = JoinSet::new();
    let (client, stop) = (world.cluster.client.clone(), std::future::pending());
    running.spawn(world.cluster.controllers(client, world.cluster.settings(), stop));
    until("the action is resolved", async || {
        let status = status(&world, "up").await;
        status.last_executed.is_some() && world.replicas().await == 4
    })
    .await;
    set_replicas(&world.cluster, "web", 3).await;
    pass(600).await;
    assert_eq!(world.replicas().await, 3, "the quiet period goes on");
    world.until_event("up", "SizeChangedByOthers", "from 4 to 3").await;
}
