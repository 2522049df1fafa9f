//! Pods on simulated nodes, where nothing runs.
//!
//! After a set time a pod reports that it is Running. A script can play what its programs would do.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;

use crate::client::PodHandle;
use crate::dispatch::{DesiredState, Task};
use crate::kubelet::Machine;
use crate::node::Capacity;
use crate::status::{Ended, Phase, PodState, Role, State};

/// Nodes on which nothing really runs: `sim-0001` and so on, and every node that has [`crate::SIMULATED_LABEL`].
#[derive(Clone)]
pub struct Simulated {
    /// How many nodes to register.
    pub count: usize,
    /// The capacity of each.
    pub capacity: Capacity,
    /// How long a pod takes from being bound to running.
    pub start_after: Duration,
    /// Plays the programs of pods.
    pub simulation: Option<Arc<dyn Simulation>>,
    /// Renews a Lease for each registered node. Only a node lifecycle controller needs that, and the embedded engine has none.
    pub leases: bool,
}

impl Default for Simulated {
    fn default() -> Self {
        let capacity = Capacity { cpu_millis: 16_000, memory_bytes: 64 << 30, pods: 110 };
        Self { count: 0, capacity, start_after: Duration::ZERO, simulation: None, leases: false }
    }
}

/// Plays what the programs of simulated pods would do.
pub trait Simulation: Send + Sync {
    /// Starts to play a pod that became Running. When the future is ready, the pod's containers end with its exit code; it
    /// is dropped when the pod is deleted. `None`: the pod just runs.
    fn play(&self, pod: &Arc<Pod>) -> Option<BoxFuture<'static, i32>>;
}

/// Runs one pod.
pub(crate) async fn run(machine: Arc<Machine>, mut task: Task) {
    let (object, pod) = (task.object.clone(), Arc::clone(&task.pod));
    let desired = tokio::select! {
        biased;
        desired = task.until_unwanted() => desired,
        never = live(&machine, &object, &pod) => match never {},
    };
    if let DesiredState::Deleted(_) = desired {
        task.object.remove().await;
    }
}

/// Starts the pod, and plays it until it has ended.
async fn live(machine: &Machine, object: &PodHandle, pod: &Arc<Pod>) -> std::convert::Infallible {
    let simulated = &machine.simulated;
    tokio::time::sleep(simulated.start_after).await;
    let clock = &machine.context.clock;
    let number = machine.addresses.fetch_add(1, Ordering::Relaxed) + 1;
    let ip = format!("10.{}.{}.{}", 128 + (number >> 16) % 64, (number >> 8) % 256, number % 256);
    let node = pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).unwrap_or_default();
    let mut state = PodState::new(pod, clock.now(), &machine.node_address(node), &ip);
    loop {
        start(&mut state, clock.now(), &object.entry.uid);
        object.write_status(|pod, last, now| Some(state.patch(pod, last, now))).await;
        let played = simulated.simulation.as_ref().and_then(|s| s.play(pod));
        let Some(played) = played else { break };
        let code = played.await;
        if end(&mut state, pod, code, clock.now()) {
            break;
        }
    }
    if state.phase != Phase::Running {
        object.write_status(|pod, last, now| Some(state.patch(pod, last, now))).await;
    }
    std::future::pending().await
}

fn start(state: &mut PodState, now: jiff::Timestamp, uid: &str) {
    state.phase = Phase::Running;
    for container in &mut state.containers {
        if matches!(container.state, State::Running { .. }) {
            continue;
        }
        let id = format!("simulated://{uid}/{}/{}", container.name, container.runs);
        if container.role == Role::Init && matches!(container.state, State::Ended(_)) {
            continue;
        }
        container.run(id.clone(), now);
        container.is_ready = true;
        if container.role == Role::Init {
            let message = String::new();
            let ended = Ended { id, code: 0, signal: None, message, from: now, to: now };
            container.state = State::Ended(ended);
        } else {
            container.is_started = true;
        }
    }
}

/// Ends the containers, and returns whether the pod has ended; otherwise they are to start again.
fn end(state: &mut PodState, pod: &Pod, code: i32, now: jiff::Timestamp) -> bool {
    let policy = pod.spec.as_ref().and_then(|s| s.restart_policy.as_deref());
    let is_over = match policy {
        Some("Never") => true,
        Some("OnFailure") => code == 0,
        _ => false,
    };
    if is_over {
        state.phase = if code == 0 { Phase::Succeeded } else { Phase::Failed };
    }
    for container in &mut state.containers {
        let State::Running { since } = &container.state else { continue };
        let since = *since;
        // Sidecars are asked to end, and do.
        let code = if container.role == Role::Main { code } else { 0 };
        let (id, message) = (container.id.clone(), String::new());
        let ended = Ended { id, code, signal: None, message, from: since, to: now };
        if is_over {
            container.state = State::Ended(ended);
            (container.is_ready, container.is_started) = (false, false);
        } else if container.role == Role::Main {
            container.state = State::Ended(ended);
            container.wait("ContainerCreating", String::new());
        }
    }
    is_over
}
