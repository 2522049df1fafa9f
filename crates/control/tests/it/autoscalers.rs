//! Fleet autoscalers: the times of their evaluations, their events and status, and their behaviour after failures.

mod day;
mod refused;
mod sizes;
mod web;

use api::agones::{Fleet, GameServer};
use api::autoscaling::{FleetAutoscaler, FleetAutoscalerStatus};
use k8s_openapi::api::core::v1::Event;
use serde_json::{Value, json};

use crate::cluster::{Cluster, until};

/// An autoscaler with a sync interval of an hour: whatever it does earlier follows from a change.
pub(crate) fn autoscaler(name: &str, fleet: &str, policy: Value) -> Value {
    json!({
        "apiVersion": "autoscaling.agones.dev/v1", "kind": "FleetAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "fleetName": fleet, "policy": policy,
            "sync": {"type": "FixedInterval", "fixedInterval": {"seconds": 3600}},
        },
    })
}

pub(crate) fn buffer(size: i32, min: i32, max: i32) -> Value {
    let buffer = json!({"bufferSize": size, "minReplicas": min, "maxReplicas": max});
    json!({"type": "Buffer", "buffer": buffer})
}

pub(crate) fn webhook(url: &str) -> Value {
    json!({"type": "Webhook", "webhook": {"url": url}})
}

async fn make(cluster: &Cluster, autoscaler: Value) {
    cluster.create::<FleetAutoscaler>(autoscaler).await;
}

/// Allocates this many Ready servers, as the allocator does.
async fn allocate(cluster: &Cluster, count: usize) {
    for server in cluster.in_state("Ready").await.iter().take(count) {
        let name = server.metadata.name.as_deref().unwrap();
        cluster.patch::<GameServer>(name, json!({"status": {"state": "Allocated"}})).await;
    }
}

pub(crate) async fn wanted(cluster: &Cluster, fleet: &str, replicas: i32) {
    until(&format!("{fleet} should have {replicas}"), async || {
        cluster.fleet(fleet).await.spec.replicas == replicas
    })
    .await;
}

async fn status(cluster: &Cluster, name: &str) -> FleetAutoscalerStatus {
    cluster.api::<FleetAutoscaler>().get(name).await.unwrap().status.unwrap_or_default()
}

/// Waits until the autoscaler is unable to scale, and returns the message.
async fn unable(cluster: &Cluster, name: &str, reason: &str) -> String {
    let mut message = String::new();
    until(&format!("{name} is unable: {reason}"), async || {
        let status = status(cluster, name).await;
        let found = status.conditions.iter().find(|c| c.status == "False" && c.reason == reason);
        message = found.map(|c| c.message.clone()).unwrap_or_default();
        found.is_some() && !status.able_to_scale
    })
    .await;
    message
}

/// Waits for an event about the autoscaler with this reason.
async fn event(cluster: &Cluster, name: &str, reason: &str, words: &str) {
    until(&format!("{name}: {reason}: {words}"), async || {
        let events: Vec<Event> = cluster.list().await;
        events.iter().any(|event| {
            event.involved_object.name.as_deref() == Some(name)
                && event.reason.as_deref() == Some(reason)
                && event.message.as_deref().is_some_and(|message| message.contains(words))
        })
    })
    .await;
}

async fn cluster_with(fleet: Value) -> Cluster {
    let cluster = Cluster::start().await;
    cluster.create::<Fleet>(fleet).await;
    cluster
}
