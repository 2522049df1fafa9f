//! Pods on simulated nodes, where no process runs.
//!
//! After a configured time a pod reports that it is Running. A script can play what its programs would do.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use k8s_openapi::api::core::v1::Pod;

use crate::client::PodHandle;
use crate::machine::Machine;
use crate::pod_task::{DesiredState, PodTask};
use crate::status::{Ended, Exit, Phase, PodState, Role, State};

/// Runs one pod.
pub(crate) async fn run(machine: Arc<Machine>, mut task: PodTask) {
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
            container.state = State::Ended(Ended { id, exit: Exit::default(), from: now, to: now });
        } else {
            container.is_started = true;
        }
    }
}

/// Ends the containers, and returns whether the pod has ended; otherwise they are restarted.
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
        // Sidecars terminate as soon as they are asked to.
        let code = if container.role == Role::Main { code } else { 0 };
        let (id, exit) = (container.id.clone(), Exit::with_code(code));
        let ended = Ended { id, exit, from: since, to: now };
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
