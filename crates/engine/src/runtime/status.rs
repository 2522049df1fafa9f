//! What does the status of a pod say of its containers?

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

use crate::rest::internal::set_condition;
use crate::rest::meta;

/// What a container is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Runs to its end before the others start.
    Init,
    /// Starts in the order of the init containers, and runs beside the others.
    Sidecar,
    /// What the pod is for.
    Main,
}

/// How a pod is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

/// How a run of a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) code: i32,
    pub(super) signal: Option<i32>,
    pub(super) message: String,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
}

/// How a container is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Waiting { reason: &'static str, message: String },
    Running { since: Timestamp },
    Ended(Ended),
}

/// One container.
#[derive(Clone, Debug)]
pub(super) struct ContainerState {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) role: Role,
    pub(super) state: State,
    /// How the run before this one ended.
    pub(super) last: Option<Ended>,
    pub(super) restarts: u32,
    pub(super) is_started: bool,
    pub(super) is_ready: bool,
    /// What names this run.
    pub(super) id: String,
}

/// A pod and its containers.
#[derive(Clone, Debug)]
pub(super) struct PodState {
    pub(super) phase: Phase,
    pub(super) reason: Option<&'static str>,
    pub(super) message: Option<String>,
    pub(super) since: Timestamp,
    pub(super) host_ip: String,
    pub(super) pod_ip: String,
    pub(super) containers: Vec<ContainerState>,
}

/// Lists the containers of a pod with what they are for, in the order in which they start.
pub(super) fn containers(pod: &Pod) -> impl Iterator<Item = (Role, &Container)> {
    let spec = pod.spec.iter();
    let init =
        spec.clone().flat_map(|spec| spec.init_containers.iter().flatten()).map(|container| {
            let is_sidecar = container.restart_policy.as_deref() == Some("Always");
            (if is_sidecar { Role::Sidecar } else { Role::Init }, container)
        });
    init.chain(spec.flat_map(|spec| &spec.containers).map(|container| (Role::Main, container)))
}

impl PodState {
    /// Starts with every container waiting.
    pub(super) fn new(pod: &Pod, now: Timestamp, host_ip: &str, pod_ip: &str) -> Self {
        let has_init =
            pod.spec.as_ref().is_some_and(|s| s.init_containers.iter().flatten().next().is_some());
        let reason = if has_init { "PodInitializing" } else { "ContainerCreating" };
        let containers = containers(pod).map(|(role, container)| ContainerState {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            role,
            state: State::Waiting { reason, message: String::new() },
            last: None,
            restarts: 0,
            is_started: false,
            is_ready: false,
            id: String::new(),
        });
        Self {
            phase: Phase::Pending,
            reason: None,
            message: None,
            since: now,
            host_ip: host_ip.to_owned(),
            pod_ip: pod_ip.to_owned(),
            containers: containers.collect(),
        }
    }

    /// Writes the status into the pod. What others said in it stays.
    pub(super) fn write(&self, pod: &mut Value, now: Timestamp) {
        let status = &mut pod["status"];
        status["phase"] = self.phase.name().into();
        status["startTime"] = meta::time(self.since);
        status["hostIP"] = self.host_ip.as_str().into();
        status["hostIPs"] = json!([{"ip": self.host_ip}]);
        status["podIP"] = self.pod_ip.as_str().into();
        status["podIPs"] = json!([{"ip": self.pod_ip}]);
        for (field, value) in [("reason", self.reason), ("message", self.message.as_deref())] {
            if let Some(value) = value {
                status[field] = value.into();
            }
        }
        let list = |wanted: fn(Role) -> bool| -> Vec<Value> {
            self.containers.iter().filter(|c| wanted(c.role)).map(ContainerState::json).collect()
        };
        let init = list(|role| role != Role::Main);
        if !init.is_empty() {
            status["initContainerStatuses"] = init.into();
        }
        status["containerStatuses"] = list(|role| role == Role::Main).into();
        self.write_conditions(pod, now);
    }

    fn write_conditions(&self, pod: &mut Value, now: Timestamp) {
        let unready: Vec<&str> = self
            .containers
            .iter()
            .filter(|c| c.role != Role::Init && !c.is_ready)
            .map(|c| c.name.as_str())
            .collect();
        let why = match self.phase {
            Phase::Succeeded => Some(("PodCompleted", String::new())),
            Phase::Failed => Some(("PodFailed", String::new())),
            Phase::Pending | Phase::Running if unready.is_empty() => None,
            Phase::Pending | Phase::Running => {
                let names = unready.join(" ");
                Some(("ContainersNotReady", format!("containers with unready status: [{names}]")))
            }
        };
        let is_initialized = self.phase != Phase::Pending;
        let not_yet =
            || Some(("ContainersNotInitialized", "containers with incomplete status".to_owned()));
        for (kind, why) in [
            ("PodReadyToStartContainers", None),
            ("Initialized", if is_initialized { None } else { not_yet() }),
            ("Ready", why.clone()),
            ("ContainersReady", why),
        ] {
            let status = if why.is_none() { "True" } else { "False" };
            let before = pod["status"]["conditions"].as_array();
            let before =
                before.into_iter().flatten().find(|c| c["type"] == kind && c["status"] == status);
            let since = before.map(|c| c["lastTransitionTime"].clone());
            let since = since.unwrap_or_else(|| meta::time(now));
            let mut condition = json!({"type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": since});
            if let Some((reason, message)) = why {
                condition["reason"] = reason.into();
                if !message.is_empty() {
                    condition["message"] = message.into();
                }
            }
            set_condition(pod, condition);
        }
    }
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
    fn json(&self, id: &str) -> Value {
        let mut ended = json!({
            "exitCode": self.code, "reason": if self.code == 0 { "Completed" } else { "Error" },
            "startedAt": meta::time(self.from), "finishedAt": meta::time(self.to), "containerID": id,
        });
        if let Some(signal) = self.signal {
            ended["signal"] = signal.into();
        }
        if !self.message.is_empty() {
            ended["message"] = self.message.as_str().into();
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
            State::Running { since } => json!({"running": {"startedAt": meta::time(*since)}}),
            State::Ended(ended) => ended.json(&self.id),
        };
        let last = self.last.as_ref().map_or_else(|| json!({}), |last| last.json(&self.id));
        let mut status = json!({
            "name": self.name, "image": self.image, "imageID": "", "state": state, "lastState": last,
            "ready": self.is_ready, "started": self.is_started, "restartCount": self.restarts,
        });
        if !self.id.is_empty() {
            status["containerID"] = self.id.as_str().into();
        }
        status
    }
}
