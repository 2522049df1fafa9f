//! The scheduler from the outside: on the embedded API server, with failing requests, and on the real API server.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing, also in its helpers")]

mod faults;
mod preemption;
mod real;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::Client;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

/// Returns a node that is ready.
fn node(name: &str, cpu: &str) -> Node {
    let resources = json!({"cpu": cpu, "memory": "1Gi", "pods": "10"});
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": "test"}],
        },
    }))
    .unwrap()
}

/// Returns a pod that requests this much cpu.
fn pod(name: &str, scheduler_name: &str, cpu: &str) -> Pod {
    let container: Value =
        json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}});
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"schedulerName": scheduler_name, "containers": [container]},
    }))
    .unwrap()
}

/// Waits until something holds for a pod. The bound is generous: it is reached only when the test fails.
async fn wait_for_pod(pods: &Api<Pod>, name: &str, holds: impl Fn(&Pod) -> bool) -> Pod {
    for _ in 0..1200 {
        if let Some(pod) = pods.get_opt(name).await.unwrap().filter(|pod| holds(pod)) {
            return pod;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("gave up on {name}: {:?}", pods.get_opt(name).await.unwrap());
}

fn node_name(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref())
}

/// Returns why a pod is unschedulable.
fn unschedulable(pod: &Pod) -> Option<&str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
    assert_eq!(condition.reason.as_deref(), Some("Unschedulable"));
    condition.message.as_deref()
}

/// Waits for an event about a pod, and returns its message.
async fn wait_for_event(client: &Client, namespace: &str, pod: &Pod, reason: &str) -> Event {
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let uid = &pod.metadata.uid;
    for _ in 0..600 {
        let all = events.list(&ListParams::default()).await.unwrap();
        let is_it =
            |e: &Event| e.involved_object.uid == *uid && e.reason.as_deref() == Some(reason);
        if let Some(event) = all.items.into_iter().find(is_it) {
            return event;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("no event {reason} about {:?}", pod.metadata.name);
}
