//! Scaling policies at work: on a Deployment of an embedded engine, with a metric source on loopback, in virtual time.

mod containers;
mod engine;
mod faults;
mod node_groups;
mod outages;
mod prometheus;
mod services;
mod sharing;
mod silence;
mod source;
mod tables;

use std::time::Duration;

use api::plimsoll::scaling_policy::{ActionOutcome, ScalingPolicyStatus};
use api::plimsoll::{MetricSource, ScalingPolicy};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::{Cluster, until};
use source::Source;

/// A cluster with a Deployment `web` and a metric source `load`, whose value tests set.
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) load: Source,
}

impl World {
    /// Starts everything, with controllers.
    pub(crate) async fn start(replicas: i32) -> Self {
        Self::on(Cluster::start().await, replicas).await
    }

    /// Makes the Deployment and the source on a cluster.
    pub(crate) async fn on(cluster: Cluster, replicas: i32) -> Self {
        let load = Source::start().await;
        create_source(&cluster, "load", &load.url).await;
        deploy(&cluster, "web", replicas).await;
        Self { cluster, load }
    }

    pub(crate) async fn policy(&self, name: &str, spec: Value) {
        let policy = json!({"metadata": {"name": name}, "spec": spec});
        let mut policy = policy;
        policy["apiVersion"] = json!("plimsoll.dev/v1alpha1");
        policy["kind"] = json!("ScalingPolicy");
        self.cluster.create::<ScalingPolicy>(policy).await;
    }

    pub(crate) async fn replicas(&self) -> i32 {
        replicas(&self.cluster, "web").await
    }

    /// Waits until the Deployment has a size.
    pub(crate) async fn wants(&self, wanted: i32) {
        until(&format!("web should have {wanted}"), async || self.replicas().await == wanted).await;
    }

    pub(crate) async fn status(&self, name: &str) -> ScalingPolicyStatus {
        let policy = self.cluster.api::<ScalingPolicy>().get(name).await.unwrap();
        policy.status.unwrap_or_default()
    }

    /// Waits until a condition of a policy has a status and a reason, and returns its message.
    pub(crate) async fn condition(&self, name: &str, wanted: (&str, &str, &str)) -> String {
        let mut message = String::new();
        until(&format!("{name}: {wanted:?}"), async || {
            let status = self.status(name).await;
            let found = status.conditions.iter().find(|condition| {
                (&*condition.type_, &*condition.status, &*condition.reason) == wanted
            });
            message = found.map(|condition| condition.message.clone()).unwrap_or_default();
            found.is_some()
        })
        .await;
        message
    }

    /// Waits until an event of a policy contains a text.
    pub(crate) async fn until_event(&self, name: &str, reason: &str, text: &str) {
        until(&format!("{name}: {reason}: {text}"), async || {
            let events: Vec<Event> = self.cluster.list().await;
            events.iter().any(|event| {
                event.involved_object.name.as_deref() == Some(name)
                    && event.reason.as_deref() == Some(reason)
                    && event.message.as_deref().is_some_and(|message| message.contains(text))
            })
        })
        .await;
    }
}

pub(crate) async fn create_source(cluster: &Cluster, name: &str, url: &str) {
    let api: Api<MetricSource> = Api::all(cluster.client.clone());
    let source = json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "MetricSource", "metadata": {"name": name},
        "spec": {"http": {"url": url, "value": "/value"}},
    });
    api.create(&PostParams::default(), &serde_json::from_value(source).unwrap()).await.unwrap();
}

pub(crate) async fn deploy(cluster: &Cluster, name: &str, replicas: i32) {
    let labels = json!({"app": name});
    let object = json!({
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web"}]},
        }},
    });
    cluster.create::<Deployment>(object).await;
}

pub(crate) async fn replicas(cluster: &Cluster, name: &str) -> i32 {
    let api: Api<Deployment> = cluster.api();
    api.get(name).await.unwrap().spec.unwrap().replicas.unwrap()
}

pub(crate) async fn set_replicas(cluster: &Cluster, name: &str, replicas: i32) {
    let api: Api<Deployment> = cluster.api();
    let change = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    api.patch(name, &PatchParams::default(), &change).await.unwrap();
}

/// A policy on the Deployment with one check: as many units as the value of the source.
pub(crate) fn pass_through() -> Value {
    json!({
        "target": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "min": 1, "max": 10, "cooldown": "0s",
        "checks": [{"name": "load", "source": "load", "query": "load", "window": "instant",
                    "strategy": {"passThrough": {}}}],
    })
}

/// The three rules of Rancher's design.
pub(crate) fn rules_of_the_seed() -> [Value; 3] {
    [
        cpu_rule(">=", 60, "10m", "ScaleOut", 1),
        cpu_rule(">=", 85, "5m", "ScaleOut", 3),
        cpu_rule("<=", 40, "25m", "ScaleIn", 2),
    ]
}

pub(crate) fn cpu_rule(operation: &str, value: u32, span: &str, action: &str, count: u32) -> Value {
    json!({"metric": "cpu", "operation": operation, "value": value, "for": span, "action": action, "count": count})
}

/// Lets time pass.
pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_follows_its_source_within_the_limits_and_the_status_reports_it() {
    let world = World::start(2).await;
    world.load.returns(6.0);
    world.policy("p", pass_through()).await;
    world.wants(6).await;
    world.until_event("p", "SuccessfulRescale", "scaled from 2 to 6: load: votes up to 6").await;
    world.condition("p", ("AbleToScale", "True", "SucceededRescale")).await;
    world.load.returns(99.0);
    world.wants(10).await;
    let message = world.condition("p", ("ScalingLimited", "True", "Cut")).await;
    assert_eq!(message, "its change was limited");
    world.load.returns(0.0);
    world.wants(1).await;
    world.condition("p", ("ScalingActive", "True", "ValidMetricFound")).await;
    world.condition("p", ("TargetShared", "False", "NotShared")).await;
    pass(30).await;
    let status = world.status("p").await;
    let action = status.last_action.unwrap();
    assert_eq!((action.from, action.to), (10, 1));
    assert_eq!(action.outcome, Some(ActionOutcome::Applied));
    assert_eq!((status.original_count, status.current_count), (Some(2), Some(1)));
    let source: MetricSource = Api::all(world.cluster.client.clone()).get("load").await.unwrap();
    let status = source.status.unwrap();
    assert_eq!(
        (&*status.conditions[0].type_, &*status.conditions[0].status),
        ("Reachable", "True")
    );
    assert!(status.last_query_at.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_policy_or_its_target_is_evaluated_at_once() {
    let world = World::start(2).await;
    world.load.returns(4.0);
    let mut spec = pass_through();
    spec["evaluationInterval"] = json!("1h");
    world.policy("p", spec).await;
    world.wants(4).await;
    let began_at = tokio::time::Instant::now();
    let changed = json!({"spec": {"min": 5}});
    world.cluster.patch::<ScalingPolicy>("p", changed).await;
    world.wants(5).await;
    set_replicas(&world.cluster, "web", 7).await;
    // The answer of the source is still fresh, with the value 4.
    world.wants(5).await;
    world.until_event("p", "SizeChangedByOthers", "from 5 to 7").await;
    let foreign = world.status("p").await.last_change_by_others.unwrap();
    assert_eq!((foreign.from, foreign.to), (5, 7));
    assert!(began_at.elapsed() < Duration::from_secs(600), "{:?}", began_at.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_and_a_disabled_policy_scale_nothing_and_report_why() {
    let world = World::start(2).await;
    world.load.returns(6.0);
    let mut spec = pass_through();
    spec["dryRun"] = json!(true);
    world.policy("dry", spec.clone()).await;
    let message = world.condition("dry", ("AbleToScale", "True", "DryRun")).await;
    assert_eq!(message, "a dry run would scale to 6");
    spec["enabled"] = json!(false);
    world.policy("off", spec).await;
    world.condition("off", ("ScalingActive", "False", "ScalingDisabled")).await;
    pass(60).await;
    assert_eq!(world.replicas().await, 2);
    let status = world.status("dry").await;
    assert_eq!((status.last_action, status.desired_count), (None, Some(6)));
}

#[tokio::test(start_paused = true)]
async fn equal_queries_of_several_policies_are_sent_once_in_an_interval() {
    let world = World::start(2).await;
    world.load.returns(2.0);
    for index in 0..20 {
        deploy(&world.cluster, &format!("web-{index}"), 2).await;
        let mut spec = pass_through();
        spec["target"]["name"] = json!(format!("web-{index}"));
        world.policy(&format!("p-{index}"), spec).await;
    }
    pass(20).await;
    let before = world.load.asked();
    pass(100).await;
    let asked = world.load.asked() - before;
    assert!((8..=14).contains(&asked), "{asked} queries in ten intervals");
}

#[tokio::test(start_paused = true)]
async fn a_target_or_source_that_does_not_exist_is_named_in_the_status() {
    let world = World::start(2).await;
    let mut spec = pass_through();
    spec["target"]["name"] = json!("none");
    world.policy("no-target", spec).await;
    let message = world.condition("no-target", ("AbleToScale", "False", "FailedGetScale")).await;
    assert!(message.contains("none") && message.contains("not found"), "{message}");
    let mut spec = pass_through();
    spec["checks"][0]["source"] = json!("nothing");
    world.policy("no-source", spec).await;
    let message = world.condition("no-source", ("ScalingActive", "False", "FailedGetMetric")).await;
    assert_eq!(message, "load: the source failed: there is no MetricSource `nothing`");
    world.until_event("no-source", "FailedGetMetric", "no MetricSource").await;
    // The policy is evaluated as soon as the source is there.
    world.load.returns(5.0);
    create_source(&world.cluster, "nothing", &world.load.url).await;
    world.wants(5).await;
}
