//! Policies of compose services, by the counters of their containers: on a stand-in for Docker Engine, in virtual time.

use api::plimsoll::{AutoScalePolicy, MetricSource};
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::engine::DockerStandIn;
use super::services::{policy, service_condition};
use super::{World, cpu_rule, pass, rules_of_the_seed};
use crate::cluster::until;

/// Starts a world whose Docker Engine has containers with these settings.
async fn world_with(count: u32, host_config: Value) -> (World, DockerStandIn) {
    let (world, docker) = (World::start(1).await, DockerStandIn::start(count, host_config).await);
    let source = json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "MetricSource", "metadata": {"name": "docker"},
        "spec": {"docker": {"host": docker.host}},
    });
    let api: Api<MetricSource> = Api::all(world.cluster.client.clone());
    api.create(&PostParams::default(), &serde_json::from_value(source).unwrap()).await.unwrap();
    (world, docker)
}

fn named(numbers: &[u32]) -> Vec<String> {
    numbers.iter().map(|number| format!("shop-web-{number}")).collect()
}

async fn has(docker: &DockerStandIn, numbers: &[u32]) {
    until(&format!("there should be {numbers:?}"), async || docker.names() == named(numbers)).await;
}

#[tokio::test(start_paused = true)]
async fn the_three_rules_of_the_seed_scale_a_compose_service_by_its_containers_counters() {
    let (world, docker) = world_with(4, json!({"NetworkMode": "none"})).await;
    let spec = json!({
        "target": {"docker": {"project": "shop", "service": "web"}},
        "min": 1, "max": 20, "cooldown": "10m",
        "rules": rules_of_the_seed(),
    });
    docker.uses_cores(0.7);
    world.policy("p", spec).await;
    pass(9 * 60).await;
    assert_eq!(docker.names(), named(&[1, 2, 3, 4]), "not yet ten minutes");
    pass(90).await;
    has(&docker, &[1, 2, 3, 4, 5]).await;
    docker.uses_cores(0.9);
    pass(4 * 60).await;
    assert_eq!(docker.names().len(), 5, "cooling down");
    pass(7 * 60).await;
    has(&docker, &[1, 2, 3, 4, 5, 6, 7, 8]).await;
    docker.uses_cores(0.2);
    pass(24 * 60).await;
    assert_eq!(docker.names().len(), 8, "not yet 25 minutes");
    pass(2 * 60).await;
    has(&docker, &[1, 2, 3, 4, 5, 6]).await;
    docker.uses_cores(0.5);
    pass(60 * 60).await;
    assert_eq!(docker.names().len(), 6, "between the thresholds nothing moves");
}

#[tokio::test(start_paused = true)]
async fn use_that_dips_for_a_moment_starts_the_span_of_a_rule_again() {
    let (world, docker) = world_with(2, json!({"NetworkMode": "none"})).await;
    let spec = json!({
        "target": {"docker": {"service": "web"}}, "min": 1, "max": 20,
        "rules": [cpu_rule(">=", 60, "10m", "ScaleOut", 1)],
    });
    docker.uses_cores(0.7);
    world.policy("p", spec).await;
    pass(9 * 60).await;
    docker.uses_cores(0.3);
    pass(20).await;
    docker.uses_cores(0.7);
    pass(9 * 60).await;
    assert_eq!(docker.names().len(), 2, "the rule has to hold for ten minutes on end");
    pass(2 * 60).await;
    has(&docker, &[1, 2, 3]).await;
}

/// A policy of the service, without a source or target of its own.
fn of_containers(metric: &str, relative_to: Option<&str>) -> Value {
    let mut policy = policy("up", "up", 80, 1);
    let spec = policy["spec"].as_object_mut().unwrap();
    ["source", "target"].iter().for_each(|field| drop(spec.remove(*field)));
    spec.insert("metric".to_owned(), json!(metric));
    if let Some(relative_to) = relative_to {
        spec.insert("relativeTo".to_owned(), json!(relative_to));
    }
    policy
}

#[tokio::test(start_paused = true)]
async fn a_service_is_measured_in_percent_of_what_its_containers_may_use_or_have_reserved() {
    const GIB: u64 = 1 << 30;
    let limits = json!({"NetworkMode": "none", "NanoCpus": 500_000_000, "Memory": GIB, "MemoryReservation": GIB / 4});
    for (metric, relative_to, fires, row) in [
        ("CPUUtilizationPercent", None, true, "0.45 of 0.5 cores"),
        ("CPUUtilizationPercent", Some("limit"), true, "0.45 of 0.5 cores"),
        ("MemoryUtilization", None, false, "a quarter of the limit"),
        ("MemoryUtilization", Some("request"), true, "all of the reservation"),
    ] {
        let (world, docker) = world_with(2, limits.clone()).await;
        docker.uses_cores(0.45);
        docker.uses_memory(GIB / 4);
        world.cluster.create::<AutoScalePolicy>(of_containers(metric, relative_to)).await;
        service_condition(&world, "up", ("ScalingActive", "True", "ValidMetricFound")).await;
        pass(60).await;
        let wanted: &[u32] = if fires { &[1, 2, 3] } else { &[1, 2] };
        assert_eq!(docker.names(), named(wanted), "{metric} {relative_to:?}: {row}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_without_what_its_use_is_compared_with_is_named_in_the_status() {
    for (metric, relative_to, missing) in [
        ("MemoryUtilization", None, "memory limit"),
        ("MemoryUtilization", Some("request"), "memory reservation"),
        ("CPUUtilizationPercent", Some("request"), "CPU request"),
    ] {
        let (world, docker) = world_with(1, json!({"NetworkMode": "none"})).await;
        docker.uses_cores(1.0);
        docker.uses_memory(60 << 30);
        world.cluster.create::<AutoScalePolicy>(of_containers(metric, relative_to)).await;
        let wanted = ("ScalingActive", "False", "FailedGetMetric");
        let message = service_condition(&world, "up", wanted).await;
        assert!(message.contains(&format!("container shop-web-1 has no {missing}")), "{message}");
        assert_eq!(docker.names(), named(&[1]));
    }
}
