//! Targets that more than one autoscaler wants to size.

use api::agones::Fleet;
use api::autoscaling::FleetAutoscaler;
use api::plimsoll::{AutoScalePolicy, Decision, ScalingPolicy};
use cluster::ScaledObject;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, PostParams};
use serde_json::json;

use super::services::{policy, service_condition};
use super::{World, pass, pass_through, set_replicas};
use crate::cluster::{Cluster, fleet, until};

#[tokio::test(start_paused = true)]
async fn a_policy_leaves_its_target_to_a_horizontal_pod_autoscaler_until_that_is_disabled() {
    let world = World::start(3).await;
    let hpa = json!({
        "metadata": {"name": "web"},
        "spec": {"maxReplicas": 9, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    });
    world.cluster.create::<HorizontalPodAutoscaler>(hpa).await;
    world.load.returns(6.0);
    world.policy("p", pass_through()).await;
    let message = world.condition("p", ("TargetShared", "True", "TargetShared")).await;
    assert_eq!(message, "HorizontalPodAutoscaler default/web sizes the same target");
    world.until_event("p", "TargetShared", "HorizontalPodAutoscaler default/web").await;
    pass(60).await;
    assert_eq!(world.replicas().await, 3);
    let disabled = json!({"selectPolicy": "Disabled"});
    let change = json!({"spec": {"behavior": {"scaleUp": disabled, "scaleDown": disabled}}});
    world.cluster.patch::<HorizontalPodAutoscaler>("web", change).await;
    world.wants(6).await;
    world.condition("p", ("TargetShared", "False", "NotShared")).await;
}

#[tokio::test(start_paused = true)]
async fn the_oldest_enabled_policy_that_is_no_dry_run_acts() {
    let world = World::start(3).await;
    let fixed = |value: i64| {
        let mut spec = pass_through();
        spec["checks"][0]["strategy"] = json!({"fixedValue": {"value": value}});
        spec
    };
    let mut dry = fixed(9);
    dry["dryRun"] = json!(true);
    world.policy("a-dry", dry).await;
    pass(2).await;
    world.policy("z-first", fixed(5)).await;
    pass(2).await;
    world.policy("b-second", fixed(7)).await;
    world.wants(5).await;
    let message = world.condition("b-second", ("TargetShared", "True", "TargetShared")).await;
    assert_eq!(message, "ScalingPolicy default/z-first sizes the same target");
    pass(60).await;
    assert_eq!(world.replicas().await, 5);
    let off = json!({"spec": {"enabled": false}});
    world.cluster.patch::<ScalingPolicy>("z-first", off).await;
    world.wants(7).await;
    world.cluster.delete::<ScalingPolicy>("b-second").await;
    let on = json!({"spec": {"enabled": true}});
    world.cluster.patch::<ScalingPolicy>("z-first", on).await;
    world.wants(5).await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_leaves_a_fleet_to_its_fleet_autoscaler() {
    let world = World::start(3).await;
    world.cluster.create::<Fleet>(fleet("arena", 2)).await;
    let buffer = json!({"bufferSize": 3, "minReplicas": 0, "maxReplicas": 9});
    let autoscaler = json!({
        "metadata": {"name": "arena"},
        "spec": {"fleetName": "arena", "policy": {"type": "Buffer", "buffer": buffer}},
    });
    world.cluster.create::<FleetAutoscaler>(autoscaler).await;
    world.load.returns(6.0);
    let mut spec = pass_through();
    spec["target"] = json!({"apiVersion": "agones.dev/v1", "kind": "Fleet", "name": "arena"});
    world.policy("p", spec).await;
    let message = world.condition("p", ("TargetShared", "True", "TargetShared")).await;
    assert_eq!(message, "FleetAutoscaler default/arena sizes the same target");
    world.condition("p", ("ScalingActive", "False", "TargetShared")).await;
    let size = async || world.cluster.fleet("arena").await.spec.replicas;
    until("the fleet has its buffer", async || size().await == 3).await;
    pass(60).await;
    assert_eq!(size().await, 3);
    world.cluster.delete::<FleetAutoscaler>("arena").await;
    until("the policy sizes the fleet", async || size().await == 6).await;
    world.condition("p", ("TargetShared", "False", "NotShared")).await;
}

#[tokio::test(start_paused = true)]
async fn the_policies_of_a_service_leave_its_target_to_a_scaling_policy_and_the_journal_records_it()
{
    let world = World::start(3).await;
    world.load.returns(90.0);
    let mut fixed = pass_through();
    fixed["checks"][0]["strategy"] = json!({"fixedValue": {"value": 3}});
    world.policy("p", fixed).await;
    world.condition("p", ("ScalingActive", "True", "ValidMetricFound")).await;
    world.cluster.create::<AutoScalePolicy>(policy("up", "up", 80, 2)).await;
    let wanted = ("ScalingActive", "False", "TargetShared");
    let message = service_condition(&world, "up", wanted).await;
    assert_eq!(message, "ScalingPolicy default/p sizes the same target");
    pass(180).await;
    assert_eq!(world.replicas().await, 3);
    until("the journal names the other autoscaler", async || {
        let decisions: Vec<Decision> = world.cluster.list().await;
        decisions.iter().any(|decision| {
            let spec = &decision.spec;
            spec.subject.kind == "AutoScalePolicy"
                && spec.decision["sharedWith"] == "ScalingPolicy default/p"
                && spec.decision["reasons"][0]["code"] == "TargetShared"
        })
    })
    .await;
    world.cluster.delete::<ScalingPolicy>("p").await;
    world.wants(5).await;
}

/// Defines the kind ScaledObject, as KEDA does.
async fn define_scaled_objects(cluster: &Cluster) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({
        "name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "scaledobjects.keda.sh"},
        "spec": {
            "group": "keda.sh", "scope": "Namespaced", "versions": [version],
            "names": {
                "kind": "ScaledObject", "plural": "scaledobjects", "singular": "scaledobject",
                "listKind": "ScaledObjectList",
            },
        },
    });
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let definition = serde_json::from_value(definition).unwrap();
    api.create(&PostParams::default(), &definition).await.unwrap();
    let scaled_objects: Api<ScaledObject> = cluster.api();
    until("the kind is there", async || scaled_objects.list(&ListParams::default()).await.is_ok())
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_leaves_its_target_to_keda_until_that_is_paused() {
    let mut world = World::on(Cluster::embedded().await, 3).await;
    define_scaled_objects(&world.cluster).await;
    world.cluster.control();
    let keda = json!({
        "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": {"name": "web"}},
    });
    // The cached type has only the fields that are read.
    let resource = ApiResource::erase::<ScaledObject>(&());
    let (client, namespace) = (world.cluster.client.clone(), &world.cluster.namespace);
    let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, &resource);
    let keda = serde_json::from_value(keda).unwrap();
    api.create(&PostParams::default(), &keda).await.unwrap();
    world.load.returns(6.0);
    world.policy("p", pass_through()).await;
    let message = world.condition("p", ("TargetShared", "True", "TargetShared")).await;
    assert_eq!(message, "ScaledObject default/web sizes the same target");
    let size = world.replicas().await;
    pass(60).await;
    assert_eq!(world.replicas().await, size);
    let paused = json!({"metadata": {"annotations": {"autoscaling.keda.sh/paused": "true"}}});
    set_replicas(&world.cluster, "web", 3).await;
    world.cluster.patch::<ScaledObject>("web", paused).await;
    world.wants(6).await;
    world.condition("p", ("TargetShared", "False", "NotShared")).await;
}
