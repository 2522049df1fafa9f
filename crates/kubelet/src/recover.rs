//! Marks pods as failed whose processes ended with the kubelet, or with the task that ran them.
//!
//! Their owners then replace them.

use cluster::EventType;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde_json::{Value, json};

use crate::client::PodHandle;
use crate::status::time;

const REASON: &str = "NodeRestarted";
const MESSAGE: &str = "Plimsoll was stopped, and the processes of the pod ended with it";

/// Marks a pod as failed that ran when an earlier kubelet of the node ended.
pub(crate) async fn restarted(pod: &PodHandle) {
    fail(pod, REASON, MESSAGE).await;
}

/// Marks a pod as failed, unless it has ended.
pub(crate) async fn fail(pod: &PodHandle, reason: &str, message: &str) {
    pod.event(None, EventType::Warning, reason, message);
    // The watch may not have delivered the last writes yet.
    pod.refresh().await;
    pod.write_status(|pod, _, now| failed(pod, reason, message, now)).await;
}

/// Returns the status of a failed pod as a strategic merge patch; `None`: it has already ended.
fn failed(pod: &Pod, reason: &str, message: &str, now: Timestamp) -> Option<Value> {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return None;
    }
    let mut patch = json!({"phase": "Failed", "reason": reason, "message": message});
    let Some(status) = status else { return Some(patch) };
    let lists = [
        ("initContainerStatuses", &status.init_container_statuses),
        ("containerStatuses", &status.container_statuses),
    ];
    for (name, list) in lists {
        if let Some(list) = list {
            patch[name] = list.iter().map(|status| ended(status, message, now)).collect();
        }
    }
    let ready = status.conditions.iter().flatten().filter(|condition| {
        matches!(&*condition.type_, "Ready" | "ContainersReady") && condition.status == "True"
    });
    let not_ready = ready.map(|condition| {
        json!({
            "type": condition.type_, "status": "False", "reason": "PodFailed", "lastTransitionTime": time(now),
        })
    });
    patch["conditions"] = not_ready.collect();
    Some(patch)
}

fn ended(status: &ContainerStatus, message: &str, now: Timestamp) -> Value {
    let mut json = serde_json::to_value(status).unwrap_or_default();
    let state = status.state.as_ref();
    if state.is_some_and(|state| state.terminated.is_some()) {
        return json;
    }
    let mut ended = json!({
        "exitCode": 137, "reason": "ContainerStatusUnknown", "message": message, "finishedAt": time(now),
    });
    let running = state.and_then(|state| state.running.as_ref());
    if let Some(started_at) = running.and_then(|running| running.started_at.as_ref()) {
        ended["startedAt"] = time(started_at.0);
    }
    json["state"] = json!({"terminated": ended});
    json["ready"] = false.into();
    json["started"] = false.into();
    json
}
