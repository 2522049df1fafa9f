//! What becomes of pods that nothing runs any more?
//!
//! Their processes ended with Plimsoll, or with the task that ran them. They are said to have failed, so that their owners replace
//! them.

use serde_json::{Value, json};

use crate::core::Core;
use crate::rest::internal::PodRef;
use crate::rest::meta;

const REASON: &str = "NodeRestarted";
const MESSAGE: &str = "Plimsoll was stopped, and the processes of the pod ended with it";

/// Lets a pod fail that ran when Plimsoll ended.
pub(super) async fn restarted(core: &Core, pod: &PodRef) {
    fail(core, pod, REASON, MESSAGE).await;
}

/// Lets a pod fail that nothing runs any more, unless it is over.
pub(super) async fn fail(core: &Core, pod: &PodRef, reason: &str, message: &str) {
    let now = meta::time(core.clock.now());
    pod.change(&["status"], |pod| {
        let status = &mut pod["status"];
        if status["phase"] == "Succeeded" || status["phase"] == "Failed" {
            return;
        }
        status["phase"] = "Failed".into();
        status["reason"] = reason.into();
        status["message"] = message.into();
        for list in ["initContainerStatuses", "containerStatuses"] {
            let statuses = status[list].as_array_mut();
            statuses.into_iter().flatten().for_each(|status| end(status, message, &now));
        }
        for condition in status["conditions"].as_array_mut().into_iter().flatten() {
            let is_about_readiness =
                condition["type"] == "Ready" || condition["type"] == "ContainersReady";
            if is_about_readiness && condition["status"] == "True" {
                condition["status"] = "False".into();
                condition["reason"] = "PodFailed".into();
                condition["lastTransitionTime"] = now.clone();
            }
        }
    })
    .await;
    pod.event("plimsoll", "Warning", reason, message).await;
}

fn end(status: &mut Value, message: &str, now: &Value) {
    if !status["state"]["terminated"].is_null() {
        return;
    }
    let started = status["state"]["running"]["startedAt"].clone();
    let mut ended = json!({"exitCode": 137, "reason": "ContainerStatusUnknown", "message": message, "finishedAt": now});
    if started.is_string() {
        ended["startedAt"] = started;
    }
    status["state"] = json!({"terminated": ended});
    status["ready"] = false.into();
    status["started"] = false.into();
}
