//! The state of a pod and its containers, as the kubelet reports it.

mod patch;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};

pub(crate) use patch::time;

/// The role of a container in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Runs to completion before the next container starts.
    Init,
    /// Starts in the order of the init containers, and keeps running.
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

/// How a run of a container ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) code: i32,
    pub(crate) signal: Option<i32>,
    pub(crate) message: String,
}

impl Exit {
    /// Returns an exit that a code describes completely.
    pub(crate) fn with_code(code: i32) -> Self {
        Self { code, ..Self::default() }
    }

    /// Returns an exit with a message.
    pub(crate) fn failure(code: i32, message: impl Into<String>) -> Self {
        Self { code, signal: None, message: message.into() }
    }
}

/// A run of a container that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The ID of the run.
    pub(crate) id: String,
    pub(crate) exit: Exit,
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
    /// The previous run.
    pub(crate) last: Option<Ended>,
    /// How many times it was started.
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

impl PodState {
    /// Returns the state of a pod of which no container has started.
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
}

impl ContainerState {
    /// Waits for the next run; the run that has ended becomes the last.
    pub(crate) fn wait(&mut self, reason: &'static str, message: String) {
        let waiting = State::Waiting { reason, message };
        if let State::Ended(ended) = std::mem::replace(&mut self.state, waiting) {
            self.last = Some(ended);
        }
    }

    /// Starts a run.
    pub(crate) fn run(&mut self, id: String, since: Timestamp) {
        self.runs = self.runs.saturating_add(1);
        self.id = id;
        self.state = State::Running { since };
    }
}
