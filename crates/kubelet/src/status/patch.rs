//! The status of a pod as a patch of its object.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{ContainerState, Ended, Phase, PodState, Role, State};

/// Returns a time in the format of API objects.
pub(crate) fn time(at: Timestamp) -> Value {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}

impl PodState {
    /// Returns the status as a strategic merge patch for `pod`, which keeps the conditions of other components. `last` is the
    /// status that was written last, which `pod` may not have yet.
    pub(crate) fn patch(&self, pod: &Pod, last: Option<&Value>, now: Timestamp) -> Value {
        let list = |wanted: fn(Role) -> bool| -> Vec<Value> {
            self.containers.iter().filter(|c| wanted(c.role)).map(ContainerState::json).collect()
        };
        let mut status = json!({
            "phase": self.phase.name(), "startTime": time(self.since),
            "hostIP": self.host_ip, "hostIPs": [{"ip": self.host_ip}],
            "podIP": self.pod_ip, "podIPs": [{"ip": self.pod_ip}],
            "containerStatuses": list(|role| role == Role::Main),
            "conditions": self.conditions(pod, last, now),
        });
        let init = list(|role| role != Role::Main);
        if !init.is_empty() {
            status["initContainerStatuses"] = init.into();
        }
        status
    }

    fn conditions(&self, pod: &Pod, last: Option<&Value>, now: Timestamp) -> Vec<Value> {
        let unready: Vec<&str> = self
            .containers
            .iter()
            .filter(|c| c.role != Role::Init && !c.is_ready)
            .map(|c| c.name.as_str())
            .collect();
        let not_ready = match self.phase {
            Phase::Succeeded => Some(("PodCompleted", None)),
            Phase::Failed => Some(("PodFailed", None)),
            Phase::Pending | Phase::Running if unready.is_empty() => None,
            Phase::Pending | Phase::Running => {
                let names = unready.join(" ");
                let message = format!("containers with unready status: [{names}]");
                Some(("ContainersNotReady", Some(message)))
            }
        };
        let incomplete = self.incomplete();
        let is_initialized = self.phase != Phase::Pending || incomplete.is_empty();
        let not_initialized = (!is_initialized).then(|| {
            let names = incomplete.join(" ");
            let message = format!("containers with incomplete status: [{names}]");
            ("ContainersNotInitialized", Some(message))
        });
        let all = [
            ("PodReadyToStartContainers", None),
            ("Initialized", not_initialized),
            ("Ready", not_ready.clone()),
            ("ContainersReady", not_ready),
        ];
        all.into_iter().map(|(kind, not)| condition(pod, last, kind, not, now)).collect()
    }

    /// Returns the init containers that have not completed, and the sidecars that have not started.
    fn incomplete(&self) -> Vec<&str> {
        let is_incomplete = |c: &&ContainerState| match c.role {
            Role::Init => !c.is_ready,
            Role::Sidecar => !c.is_started,
            Role::Main => false,
        };
        self.containers.iter().filter(is_incomplete).map(|c| c.name.as_str()).collect()
    }
}

/// Returns a condition: False if there is a reason for it, otherwise True. The transition time changes only with the status.
fn condition(
    pod: &Pod,
    last: Option<&Value>,
    kind: &str,
    not: Option<(&'static str, Option<String>)>,
    now: Timestamp,
) -> Value {
    let status = if not.is_none() { "True" } else { "False" };
    let since = match last.and_then(|last| last["conditions"].as_array()) {
        Some(written) => {
            let same = written.iter().find(|c| c["type"] == kind && c["status"] == status);
            same.map(|condition| condition["lastTransitionTime"].clone())
        }
        None => {
            let conditions =
                pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let same = conditions.into_iter().find(|c| c.type_ == kind && c.status == status);
            same.and_then(|c| c.last_transition_time.as_ref()).map(|since| time(since.0))
        }
    };
    let since = since.unwrap_or_else(|| time(now));
    let (reason, message) = match not {
        Some((reason, message)) => (Some(reason), message),
        None => (None, None),
    };
    // Fields have to be set to null, since a merge keeps those that are missing.
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastProbeTime": null, "lastTransitionTime": since,
    })
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

impl Ended {
    fn json(&self) -> Value {
        let mut ended = json!({
            "exitCode": self.exit.code, "reason": if self.exit.code == 0 { "Completed" } else { "Error" },
            "startedAt": time(self.from), "finishedAt": time(self.to),
        });
        if !self.id.is_empty() {
            ended["containerID"] = self.id.as_str().into();
        }
        if let Some(signal) = self.exit.signal {
            ended["signal"] = signal.into();
        }
        if !self.exit.message.is_empty() {
            ended["message"] = self.exit.message.as_str().into();
        }
        json!({"terminated": ended})
    }
}

impl ContainerState {
    fn json(&self) -> Value {
        let state = match &self.state {
            State::Waiting { reason, message } if message.is_empty() => {
                json!({"waiting": {"reason": reason}})
            }
            State::Waiting { reason, message } => {
                json!({"waiting": {"reason": reason, "message": message}})
            }
            State::Running { since } => json!({"running": {"startedAt": time(*since)}}),
            State::Ended(ended) => ended.json(),
        };
        let last = self.last.as_ref().map_or_else(|| json!({}), Ended::json);
        let mut status = json!({
            "name": self.name, "image": self.image, "imageID": "", "state": state, "lastState": last,
            "ready": self.is_ready, "started": self.is_started, "restartCount": self.runs.saturating_sub(1),
        });
        if !self.id.is_empty() {
            status["containerID"] = self.id.as_str().into();
        }
        status
    }
}
