//! The status of a pod and its containers, as the kubelet writes it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

/// The place of a container in the life of its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Runs to its end before the others start.
    Init,
    /// Starts in the order of the init containers, and runs beside the others.
    Sidecar,
    /// One of `spec.containers`.
    Main,
}

/// The phase of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

/// A run of a container that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The ID of the run.
    pub(crate) id: String,
    pub(crate) code: i32,
    pub(crate) signal: Option<i32>,
    pub(crate) message: String,
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
}

/// The state of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Waiting { reason: &'static str, message: String },
    Running { since: Timestamp },
    Ended(Ended),
}

/// One container.
#[derive(Clone, Debug)]
pub(crate) struct ContainerState {
    pub(crate) name: String,
    pub(crate) image: String,
    pub(crate) role: Role,
    pub(crate) state: State,
    /// The run before this one.
    pub(crate) last: Option<Ended>,
    /// How often it was started.
    pub(crate) runs: u32,
    pub(crate) is_started: bool,
    pub(crate) is_ready: bool,
    /// The ID of the latest run.
    pub(crate) id: String,
}

/// A pod and its containers.
#[derive(Clone, Debug)]
pub(crate) struct PodState {
    pub(crate) phase: Phase,
    pub(crate) since: Timestamp,
    pub(crate) host_ip: String,
    pub(crate) pod_ip: String,
    pub(crate) containers: Vec<ContainerState>,
}

/// Lists the containers of a pod with their roles, in the order in which they start.
pub(crate) fn containers(pod: &Pod) -> impl Iterator<Item = (Role, &Container)> {
    let spec = pod.spec.iter();
    let init =
        spec.clone().flat_map(|spec| spec.init_containers.iter().flatten()).map(|container| {
            let is_sidecar = container.restart_policy.as_deref() == Some("Always");
            (if is_sidecar { Role::Sidecar } else { Role::Init }, container)
        });
    init.chain(spec.flat_map(|spec| &spec.containers).map(|container| (Role::Main, container)))
}

/// Returns a time as objects have it.
pub(crate) fn time(at: Timestamp) -> Value {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}

impl PodState {
    /// Returns the state of a pod whose containers all wait.
    pub(crate) fn new(pod: &Pod, now: Timestamp, host_ip: &str, pod_ip: &str) -> Self {
        let has_init = containers(pod).any(|(role, _)| role != Role::Main);
        let reason = if has_init { "PodInitializing" } else { "ContainerCreating" };
        let containers = containers(pod).map(|(role, container)| ContainerState {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            role,
            state: State::Waiting { reason, message: String::new() },
            last: None,
            runs: 0,
            is_started: false,
            is_ready: false,
            id: String::new(),
        });
        Self {
            phase: Phase::Pending,
            since: now,
            host_ip: host_ip.to_owned(),
            pod_ip: pod_ip.to_owned(),
            containers: containers.collect(),
        }
    }

    /// Returns the status as a strategic merge patch of that of `pod`: conditions of other components stay. `last` is the status
    /// that was written last, which `pod` may not have yet.
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

    /// Names the init containers that have not ended well, and the sidecars that have not started.
    fn incomplete(&self) -> Vec<&str> {
        let is_incomplete = |c: &&ContainerState| match c.role {
            Role::Init => !c.is_ready,
            Role::Sidecar => !c.is_started,
            Role::Main => false,
        };
        self.containers.iter().filter(is_incomplete).map(|c| c.name.as_str()).collect()
    }
}

/// Returns a condition that is False for a reason, or True. One whose status has not changed keeps its transition time.
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
    // A merge keeps what it does not name.
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
            "exitCode": self.code, "reason": if self.code == 0 { "Completed" } else { "Error" },
            "startedAt": time(self.from), "finishedAt": time(self.to),
        });
        if !self.id.is_empty() {
            ended["containerID"] = self.id.as_str().into();
        }
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
    /// Begins to wait for the next run; the one that has ended becomes the last.
    pub(crate) fn wait(&mut self, reason: &'static str, message: String) {
        let waiting = State::Waiting { reason, message };
        if let State::Ended(ended) = std::mem::replace(&mut self.state, waiting) {
            self.last = Some(ended);
        }
    }

    /// Begins a run.
    pub(crate) fn run(&mut self, id: String, since: Timestamp) {
        self.runs = self.runs.saturating_add(1);
        self.id = id;
        self.state = State::Running { since };
    }

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
