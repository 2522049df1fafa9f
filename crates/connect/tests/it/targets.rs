//! Objects with a scale subresource, on an embedded engine.

use api::agones::Fleet;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams, PostParams};
use plimsoll_connect::Context;
use plimsoll_connect::targets::{self, Target, TargetError, TargetRef, TargetSize, TargetStatus};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::engine;

fn target(context: &Context, spec: Value) -> Arc<dyn Target> {
    let spec = serde_json::from_value(spec).unwrap();
    let target = TargetRef { namespace: "default".to_owned(), spec };
    targets::open(context, &target).map_err(|err| err.to_string()).unwrap()
}

async fn fleet(context: &Context, replicas: i32) -> Api<Fleet> {
    let api: Api<Fleet> = Api::namespaced(context.client.clone(), "default");
    let fleet = json!({
        "apiVersion": "agones.dev/v1", "kind": "Fleet", "metadata": {"name": "arena"},
        "spec": {"replicas": replicas, "template": {"spec": {
            "ports": [{"name": "game", "containerPort": 7000}],
            "template": {"spec": {"containers": [{"name": "game", "image": "game"}]}},
        }}},
    });
    api.create(&PostParams::default(), &serde_json::from_value(fleet).unwrap()).await.unwrap();
    api
}

#[tokio::test]
async fn a_fleet_is_scaled_at_the_version_that_was_read() {
    let (_engine, context) = engine().await;
    let api = fleet(&context, 3).await;
    let status = json!({"status": {"replicas": 3, "readyReplicas": 2}});
    api.patch_status("arena", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let fleet = target(&context, json!({"kind": "Fleet", "name": "arena"}));
    let TargetStatus { count, ready, version } = fleet.status().await.unwrap();
    assert_eq!((count, ready), (3, 2));
    assert_eq!(fleet.size().await, Ok(TargetSize { count, version: version.clone() }));
    fleet.scale(5, &version).await.unwrap();
    assert_eq!(api.get("arena").await.unwrap().spec.replicas, 5);
    let conflict = fleet.scale(7, &version).await.unwrap_err();
    assert!(matches!(conflict, TargetError::Conflict { .. }), "{conflict}");
    assert!(conflict.to_string().starts_with("Fleet default/arena has changed meanwhile: "));
    let status = fleet.status().await.unwrap();
    assert_eq!(status.count, 5);
    assert_ne!(status.version, version);
    fleet.scale(0, &status.version).await.unwrap();
    assert_eq!(fleet.status().await.unwrap().count, 0);
}

#[tokio::test]
async fn a_deployment_without_ready_pods_has_none_ready() {
    let (_engine, context) = engine().await;
    let api: Api<Deployment> = Api::namespaced(context.client.clone(), "default");
    let labels = json!({"app": "web"});
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web"}]},
        }},
    });
    let deployment = serde_json::from_value(deployment).unwrap();
    api.create(&PostParams::default(), &deployment).await.unwrap();
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let status = target(&context, web).status().await.unwrap();
    assert_eq!((status.count, status.ready), (2, 0));
}

#[tokio::test]
async fn what_cannot_be_scaled_is_refused_with_its_cause() {
    let (_engine, context) = engine().await;
    for (spec, cause) in [
        (json!({"kind": "Fleet", "name": "none"}), "not found"),
        (json!({"apiVersion": "apps/v1", "kind": "Widget", "name": "a"}), "Widget"),
        (json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "a"}), "Widget"),
        (json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}), "default/a"),
    ] {
        let error = target(&context, spec.clone()).status().await.unwrap_err();
        assert!(matches!(error, TargetError::Refused { .. }), "{spec}: {error:?}");
        assert!(error.to_string().contains(cause), "{spec}: {error}");
    }
}

#[tokio::test]
async fn a_target_without_a_driver_is_refused_with_the_known_ones() {
    let (_engine, context) = engine().await;
    let open = |spec: Value| {
        let spec = serde_json::from_value(spec).unwrap();
        let target = TargetRef { namespace: "default".to_owned(), spec };
        targets::open(&context, &target).map(drop).unwrap_err().to_string()
    };
    let named = open(json!({"named": {"name": "azure-vmss"}}));
    assert_eq!(
        named,
        "there is no target `named`; known are awsAutoscalingGroup, docker, nodeGroup, nomad, rancher, scale, webhook"
    );
    let widget = open(json!({"kind": "Widget", "name": "a"}));
    assert_eq!(widget, "target `scale`: apiVersion: required for the kind `Widget`");
}
