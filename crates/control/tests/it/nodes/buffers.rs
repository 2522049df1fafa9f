//! CapacityBuffers: nodes keep room for pods that do not exist.

use k8s_openapi::api::core::v1::PodTemplate;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};

use super::*;

/// Defines the kind as the Cluster Autoscaler's users do, reduced to what the API server needs to know.
async fn define(client: &Client) -> Api<DynamicObject> {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "capacitybuffers.autoscaling.x-k8s.io"},
        "spec": {
            "group": "autoscaling.x-k8s.io", "scope": "Namespaced",
            "names": {"kind": "CapacityBuffer", "plural": "capacitybuffers", "singular": "capacitybuffer"},
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": open, "status": open},
                }},
            }],
        },
    }))
    .unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    crds.create(&PostParams::default(), &crd).await.unwrap();
    let kind = GroupVersionKind::gvk("autoscaling.x-k8s.io", "v1beta1", "CapacityBuffer");
    let api = Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk(&kind));
    until("the kind is served", async || api.list(&ListParams::default()).await.is_ok()).await;
    api
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_buffer_adds_nodes_and_keeps_them_until_it_is_gone() {
    let mut world = World::idle(json!({})).await;
    let buffers = define(&world.client()).await;
    world.group("g", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    world.tasks.spawn(control(world.client(), world.cluster.settings()));
    let template: PodTemplate = serde_json::from_value(json!({
        "metadata": {"name": "spare"},
        "template": {"spec": {
            "nodeSelector": {"pool": world.name},
            "tolerations": [{"key": "pool", "operator": "Exists"}],
            "containers": [{"name": "c", "image": "game:1", "resources": {"requests": {"cpu": "3"}}}],
        }},
    }))
    .unwrap();
    let templates = world.cluster.api::<PodTemplate>();
    templates.create(&PostParams::default(), &template).await.unwrap();
    let buffer: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"name": "b"},
        "spec": {"podTemplateRef": {"name": "spare"}, "replicas": 2},
    }))
    .unwrap();
    buffers.create(&PostParams::default(), &buffer).await.unwrap();
    until("there is room for both", async || world.nodes("g").await.len() == 2).await;
    let condition = async |kind: &str| {
        let status = buffers.get("b").await.unwrap().data["status"].clone();
        let all = status["conditions"].as_array().cloned().unwrap_or_default();
        let found = all.into_iter().find(|condition| condition["type"] == kind);
        found.map(|found| found["reason"].as_str().unwrap_or_default().to_owned())
    };
    let is_provisioned = async || condition("Provisioning").await.as_deref() == Some("Provisioned");
    until("the status says so", is_provisioned).await;
    assert_eq!(condition("ReadyForProvisioning").await.as_deref(), Some("Ready"));
    assert_eq!(buffers.get("b").await.unwrap().data["status"]["replicas"], 2);
    // A real pod takes the room at once, and the buffer gets a node for what it lacks now.
    world.pod("p", "3", json!({})).await;
    until("the pod has a node, and there is more room", async || {
        world.bound().await == 1 && world.nodes("g").await.len() == 3
    })
    .await;
    buffers.delete("b", &DeleteParams::default()).await.unwrap();
    until("the room is gone", async || world.nodes("g").await.len() == 1).await;
    assert_eq!(world.bound().await, 1);
    assert!(world.reasons("buffer-b-demand-0").await.is_empty(), "there are no such pods");
}
