//! How does a pod run where nothing runs?
//!
//! After a set time it says that it is Running. What its programs would do can be played from outside.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;

use super::Machine;
use super::dispatch::{Task, Wish};
use super::nodes::Capacity;
use super::status::{Ended, Phase, PodState, Role, State};
use crate::rest::internal::PodRef;

/// Nodes on which nothing really runs: `sim-0001` and so on, and every node that has [`super::SIMULATED_LABEL`].
#[derive(Clone)]
pub struct Simulated {
    /// How many nodes to make.
    pub count: usize,
    /// What each offers.
    pub capacity: Capacity,
    /// How long a pod takes from being bound to running.
    pub start_after: Duration,
    /// What plays the programs of pods.
    pub simulation: Option<Arc<dyn Simulation>>,
}

impl Default for Simulated {
    fn default() -> Self {
        let capacity = Capacity { cpu_millis: 16_000, memory_bytes: 64 << 30, pods: 110 };
        Self { count: 0, capacity, start_after: Duration::ZERO, simulation: None }
    }
}

/// Plays what the programs of simulated pods would do.
pub trait Simulation: Send + Sync {
    /// Starts to play a pod that became Running. When what it gives is ready, the pod's containers end with that exit
    /// code; it is dropped when the pod is deleted. `None`: the pod just runs.
    fn play(&self, pod: &Arc<Pod>) -> Option<BoxFuture<'static, i32>>;
}

/// Runs one pod.
pub(super) async fn run(machine: Arc<Machine>, mut task: Task) {
    let (object, pod) = (task.object.clone(), Arc::clone(&task.pod));
    let wish = tokio::select! {
        wish = task.until_unwanted() => wish,
        never = live(&machine, &object, &pod) => match never {},
    };
    if let Wish::Stop(_) = wish {
        task.object.remove().await;
    }
}

/// Starts the pod, and plays it until it is over.
async fn live(machine: &Machine, object: &PodRef, pod: &Arc<Pod>) -> std::convert::Infallible {
    let simulated = &machine.simulated;
    tokio::time::sleep(simulated.start_after).await;
    let clock = &machine.core.clock;
    let number = machine.addresses.fetch_add(1, Ordering::Relaxed) + 1;
    let ip = format!("10.{}.{}.{}", 128 + (number >> 16) % 64, (number >> 8) % 256, number % 256);
    let node = pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).unwrap_or_default();
    let mut state = PodState::new(pod, clock.now(), &address(machine, node), &ip);
    loop {
        start(&mut state, clock.now(), &object.uid);
        publish(machine, object, &state).await;
        let played = simulated.simulation.as_ref().and_then(|s| s.play(pod));
        let Some(played) = played else { break };
        let code = played.await;
        if end(&mut state, pod, code, clock.now()) {
            break;
        }
    }
    if state.phase != Phase::Running {
        publish(machine, object, &state).await;
    }
    std::future::pending().await
}

async fn publish(machine: &Machine, object: &PodRef, state: &PodState) {
    let now = machine.core.clock.now();
    object.change(&["status"], |pod| state.write(pod, now)).await;
}

/// Gives the address of a node.
fn address(machine: &Machine, node: &str) -> String {
    let node = machine.core.store.get("nodes", node).and_then(|n| n.value("v1", "Node").ok());
    let addresses = node.as_ref().and_then(|node| node["status"]["addresses"].as_array());
    let internal = addresses.into_iter().flatten().find(|a| a["type"] == "InternalIP");
    internal.and_then(|a| a["address"].as_str()).unwrap_or("127.0.0.1").to_owned()
}

fn start(state: &mut PodState, now: jiff::Timestamp, uid: &str) {
    state.phase = Phase::Running;
    for container in &mut state.containers {
        if container.role == Role::Init {
            let ended = Ended { code: 0, signal: None, message: String::new(), from: now, to: now };
            container.state = State::Ended(ended);
            container.is_ready = true;
        } else {
            let since = match &container.state {
                State::Running { since } => *since,
                State::Waiting { .. } | State::Ended(_) => now,
            };
            container.state = State::Running { since };
            container.is_started = true;
            container.is_ready = true;
        }
        container.id = format!("simulated://{uid}/{}/{}", container.name, container.restarts);
    }
}

/// Ends the containers, and tells whether the pod is over; otherwise they are to start again.
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
        // Sidecars are asked to end, and do.
        let code = if container.role == Role::Main { code } else { 0 };
        let ended = Ended { code, signal: None, message: String::new(), from: *since, to: now };
        if is_over {
            container.state = State::Ended(ended);
            (container.is_ready, container.is_started) = (false, false);
        } else if container.role == Role::Main {
            container.last = Some(ended);
            container.restarts += 1;
            container.state =
                State::Waiting { reason: "ContainerCreating", message: String::new() };
        }
    }
    is_over
}
