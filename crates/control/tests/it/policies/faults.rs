//! Policies and failures: restarts, crashes between two requests, two replicas, conflicts, and sources that flap.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use api::plimsoll::scaling_policy::ActionOutcome;
use api::plimsoll::{AutoScalePolicy, MetricSource, ScalingPolicy};
use futures::StreamExt as _;
use http::{Method, Request};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::api::Api;
use kube::client::Body;
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::services::policy;
use super::{World, create_source, deploy, pass, pass_through, replicas, set_replicas};
use crate::client;
use crate::cluster::{Cluster, until};

/// A policy that adds two whenever the load is high, and then rests for an hour.
pub(super) fn stepwise() -> Value {
    let mut spec = pass_through();
    spec["cooldown"] = json!("1h");
    let step = json!({"lowerBound": 75, "delta": 2, "withinBoundsTrigger": 1});
    spec["checks"][0]["strategy"] = json!({"threshold": step});
    spec
}

/// Every size that the Deployment has had, without repetitions.
pub(super) struct Sizes {
    observed: Arc<Mutex<Vec<(Instant, i32)>>>,
    task: JoinHandle<()>,
}

impl Sizes {
    pub(super) fn follow(cluster: &Cluster) -> Self {
        let observed = Arc::new(Mutex::new(Vec::new()));
        let (shared, api): (_, Api<Deployment>) = (Arc::clone(&observed), cluster.api());
        let task = tokio::spawn(async move {
            let mut events = watcher(api, watcher::Config::default()).applied_objects().boxed();
            while let Some(event) = events.next().await {
                let size = event.ok().and_then(|deployment| deployment.spec?.replicas);
                let mut observed: MutexGuard<'_, Vec<(Instant, i32)>> = shared.lock().unwrap();
                if size.is_some() && observed.last().map(|(_, size)| *size) != size {
                    observed.extend(size.map(|size| (Instant::now(), size)));
                }
            }
        });
        Self { observed, task }
    }

    pub(super) fn all(&self) -> Vec<i32> {
        self.with_times().into_iter().map(|(_, size)| size).collect()
    }

    /// Returns the sizes, each with the time since when it was there.
    pub(super) fn with_times(&self) -> Vec<(Instant, i32)> {
        self.observed.lock().unwrap().clone()
    }
}

impl Drop for Sizes {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts controllers that end when the returned guard is dropped.
pub(super) fn controllers(cluster: &Cluster, client: Client) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(cluster.controllers(client, cluster.settings(), std::future::pending()));
    tasks
}

#[tokio::test(start_paused = true)]
async fn cooldown_is_honoured_across_restarts() {
    let world = World::on(Cluster::embedded().await, 2).await;
    let sizes = Sizes::follow(&world.cluster);
    world.load.returns(90.0);
    world.policy("p", stepwise()).await;
    for _ in 0..6 {
        let running = controllers(&world.cluster, world.cluster.client.clone());
        world.wants(4).await;
        pass(9 * 60).await;
        drop(running);
    }
    assert_eq!(sizes.all(), [2, 4], "one action in 54 minutes");
    let _running = controllers(&world.cluster, world.cluster.client.clone());
    pass(6 * 60).await;
    world.wants(6).await;
}

#[tokio::test(start_paused = true)]
async fn a_death_between_any_two_requests_neither_repeats_nor_loses_a_scaling() {
    let world = World::on(Cluster::embedded().await, 2).await;
    let sizes = Sizes::follow(&world.cluster);
    world.load.returns(90.0);
    world.policy("p", stepwise()).await;
    for life in 0..60 {
        for is_sent in [false, true] {
            let (client, death) = client::mortal(world.cluster.client.clone(), life, is_sent);
            let running = controllers(&world.cluster, client);
            drop(tokio::time::timeout(Duration::from_secs(20), death.notified()).await);
            drop(running);
            let observed = sizes.all();
            assert!(
                observed == [2] || observed == [2, 4],
                "life {life}, sent {is_sent}: {observed:?}"
            );
        }
    }
    assert_eq!(sizes.all(), [2, 4]);
    let _running = controllers(&world.cluster, world.cluster.client.clone());
    until("the action is resolved", async || {
        let status = world.status("p").await;
        let outcome = status.last_action.and_then(|action| action.outcome);
        outcome == Some(ActionOutcome::Applied) && status.previous_action.is_none()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_action_that_was_pending_at_a_crash_is_resolved_by_the_size_of_the_target() {
    for (count, wanted) in [(4, 4), (2, 4), (3, 3)] {
        let world = World::on(Cluster::embedded().await, count).await;
        world.load.returns(90.0);
        world.policy("p", stepwise()).await;
        let at = world.cluster.clock.now().to_string();
        let pending = json!({"at": at, "from": 2, "to": 4, "outcome": "Pending"});
        let change = json!({"status": {"lastAction": pending, "currentCount": 2}});
        let api: Api<ScalingPolicy> = world.cluster.api();
        let change = kube::api::Patch::Merge(change);
        api.patch_status("p", &kube::api::PatchParams::default(), &change).await.unwrap();
        let _running = controllers(&world.cluster, world.cluster.client.clone());
        // It was carried out, or not and is carried out now; a third size was set by another client, and cooldown holds.
        world.wants(wanted).await;
        pass(60).await;
        assert_eq!(world.replicas().await, wanted, "from {count}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_replicas_at_work_at_the_same_time_scale_once() {
    let world = World::on(Cluster::embedded().await, 2).await;
    let sizes = Sizes::follow(&world.cluster);
    let _first = controllers(&world.cluster, world.cluster.client.clone());
    let _second = controllers(&world.cluster, world.cluster.client.clone());
    world.load.returns(90.0);
    world.policy("p", stepwise()).await;
    world.wants(4).await;
    pass(50 * 60).await;
    assert_eq!(sizes.all(), [2, 4]);
}

#[tokio::test(start_paused = true)]
async fn two_replicas_at_work_at_the_same_time_scale_a_service_once() {
    let world = World::on(Cluster::embedded().await, 2).await;
    let sizes = Sizes::follow(&world.cluster);
    let _first = controllers(&world.cluster, world.cluster.client.clone());
    let _second = controllers(&world.cluster, world.cluster.client.clone());
    world.load.returns(90.0);
    let mut up = policy("up", "up", 80, 2);
    up["spec"]["quietPeriod"] = json!(3600);
    world.cluster.create::<AutoScalePolicy>(up).await;
    world.wants(4).await;
    pass(50 * 60).await;
    assert_eq!(sizes.all(), [2, 4]);
}

/// Returns a client before whose first write of a size another client sets one.
fn overtaken(client: Client, cluster: &Cluster, size: i32) -> Client {
    let (is_done, other) = (Arc::new(AtomicBool::new(false)), cluster.client.clone());
    let namespace = cluster.namespace.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, is_done) = (client.clone(), Arc::clone(&is_done));
        let (other, namespace) = (other.clone(), namespace.clone());
        async move {
            let is_scale = request.method() == Method::PATCH
                && request.uri().path().ends_with("/deployments/web/scale");
            if is_scale && !is_done.swap(true, Ordering::SeqCst) {
                let api: Api<Deployment> = Api::namespaced(other, &namespace);
                let change = kube::api::Patch::Merge(json!({"spec": {"replicas": size}}));
                api.patch("web", &kube::api::PatchParams::default(), &change).await.unwrap();
            }
            client.send(request).await
        }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn a_target_that_changes_during_an_evaluation_is_evaluated_again() {
    let world = World::on(Cluster::embedded().await, 2).await;
    let sizes = Sizes::follow(&world.cluster);
    let client = overtaken(world.cluster.client.clone(), &world.cluster, 5);
    let _running = controllers(&world.cluster, client);
    world.load.returns(90.0);
    world.policy("p", stepwise()).await;
    world.wants(7).await;
    assert_eq!(sizes.all(), [2, 5, 7], "the size of the other client is never overwritten");
    until("the action is that of the second evaluation", async || {
        let action = world.status("p").await.last_action;
        action.is_some_and(|action| (action.from, action.to) == (5, 7))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_source_that_flaps_holds_ignores_or_fails_as_the_policy_specifies() {
    for (on_error, other, wanted, row) in [
        ("Hold", 9, 9, "others may scale out"),
        ("Hold", 2, 4, "no other vote may scale in"),
        ("Ignore", 2, 2, "the others decide alone"),
        ("Fail", 9, 4, "the size is kept"),
    ] {
        let world = World::start(4).await;
        let mut spec = pass_through();
        spec["onCheckError"] = json!(on_error);
        let fixed = json!({"name": "fixed", "strategy": {"fixedValue": {"value": other}}});
        spec["checks"].as_array_mut().unwrap().push(fixed);
        for round in 0..3 {
            let reason = if round % 2 == 0 {
                world.load.fails();
                "FailedGetMetric"
            } else {
                world.load.has_no_data();
                "NoData"
            };
            if round == 0 {
                world.policy("p", spec.clone()).await;
            }
            world.condition("p", ("ScalingActive", "False", reason)).await;
            set_replicas(&world.cluster, "web", 4).await;
            pass(60).await;
            assert_eq!(world.replicas().await, wanted, "{on_error}: {row}");
            world.load.returns(4.0);
            world.condition("p", ("ScalingActive", "True", "ValidMetricFound")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_refuses_a_query_is_reachable_and_one_that_refuses_credentials_is_not() {
    let world = World::start(4).await;
    let reachable = async || {
        let api: Api<MetricSource> = Api::all(world.cluster.client.clone());
        let status = api.get("load").await.unwrap().status.unwrap_or_default();
        status.conditions.first().map(|condition| condition.status.clone())
    };
    world.load.returns(4.0);
    world.policy("p", pass_through()).await;
    until("it is reachable", async || reachable().await.as_deref() == Some("True")).await;
    world.load.fails();
    world.condition("p", ("ScalingActive", "False", "FailedGetMetric")).await;
    pass(120).await;
    assert_eq!(reachable().await.as_deref(), Some("True"));
    world.load.is_locked();
    until("it is not reachable", async || reachable().await.as_deref() == Some("False")).await;
    world.load.returns(4.0);
    until("it is reachable again", async || reachable().await.as_deref() == Some("True")).await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_source_delays_only_the_policies_that_use_it() {
    let world = World::start(2).await;
    let slow = super::Source::start().await;
    slow.is_slow();
    create_source(&world.cluster, "slow", &slow.url).await;
    for index in 0..100 {
        let name = format!("slow-{index}");
        deploy(&world.cluster, &name, 2).await;
        let mut spec = pass_through();
        spec["target"]["name"] = json!(name);
        spec["checks"][0]["source"] = json!("slow");
        spec["checks"][0]["query"] = json!(name);
        world.policy(&name, spec).await;
    }
    pass(30).await;
    world.load.returns(6.0);
    world.policy("p", pass_through()).await;
    world.wants(6).await;
    world.condition("slow-0", ("ScalingActive", "False", "FailedGetMetric")).await;
    assert_eq!(replicas(&world.cluster, "slow-0").await, 2);
    // A source that fails is not queried for a while.
    let before = slow.asked();
    pass(60).await;
    assert!(slow.asked() - before < 60, "{} queries in a minute", slow.asked() - before);
}
