//! The life of a pod of this machine.
//!
//! Init containers run one after the other, sidecars among them stay; then everything else runs. When the last container
//! has ended, or the pod is deleted, sidecars are stopped in the reverse order, and nothing of the pod is left.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cluster::EventType;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::Local;
use crate::client::PodHandle;
use crate::container::{ContainerRunner, Stop};
use crate::deadline;
use crate::dispatch::{DesiredState, Task};
use crate::kubelet::Machine;
use crate::network::PodNetwork;
use crate::publish::StatusPublisher;
use crate::status::{ContainerState, Phase, PodState, Role, State, containers};

/// How long a pod waits before it tries again to have its ports: first, and at most. Those of a pod that has just gone
/// are free in a moment.
const PORTS_RETRY_AFTER: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(5));
/// The least time that a sidecar has to end, however late it is.
const SIDECAR_GRACE: Duration = Duration::from_secs(2);

/// A running pod, shared by its containers.
pub(crate) struct PodRun {
    pub(crate) machine: Arc<Machine>,
    pub(crate) object: PodHandle,
    pub(crate) pod: Arc<Pod>,
    pub(crate) network: Arc<PodNetwork>,
    state: Mutex<PodState>,
    /// Whether changes are published; at the start all are published at once.
    is_public: AtomicBool,
    publisher: Arc<StatusPublisher>,
}

impl PodRun {
    pub(crate) fn local(&self) -> &Local {
        self.machine.local.as_ref().expect("pods run here only where this machine is a node")
    }

    pub(crate) fn spec(&self) -> &PodSpec {
        self.pod.spec.as_ref().expect("a pod that is bound has a spec")
    }

    fn state(&self) -> MutexGuard<'_, PodState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state of a container.
    pub(crate) fn set(&self, index: usize, edit: impl FnOnce(&mut ContainerState)) {
        if let Some(container) = self.state().containers.get_mut(index) {
            edit(container);
        }
    }

    /// Publishes the status of the pod, if changes are published.
    pub(crate) fn publish(&self) {
        if !self.is_public.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.state().clone();
        if state.phase == Phase::Running {
            let never_started = |c: &ContainerState| {
                c.role == Role::Main && matches!(c.state, State::Waiting { .. }) && c.runs == 0
            };
            if state.containers.iter().any(never_started) {
                state.phase = Phase::Pending;
            }
        }
        self.publisher.publish(state);
    }

    fn set_phase(&self, phase: Phase) {
        self.state().phase = phase;
    }

    fn set_public(&self, is_public: bool) {
        self.is_public.store(is_public, Ordering::Relaxed);
    }

    /// Returns how long a container may take to end.
    pub(crate) fn grace(&self) -> Duration {
        deadline::seconds(self.spec().termination_grace_period_seconds.unwrap_or(30))
    }
}

/// Runs a pod until it has ended and is deleted.
pub(crate) async fn run(machine: Arc<Machine>, mut task: Task) {
    let uid = Arc::clone(&task.object.entry.uid);
    let desired = match set_up(&machine, &mut task).await {
        Ok(run) => live(run, &mut task).await,
        Err(desired) => desired,
    };
    machine.logs.remove(&uid);
    if let DesiredState::Deleted(_) = desired {
        task.object.remove().await;
    }
}

/// Makes the network of the pod, as soon as its ports are free.
async fn set_up(machine: &Arc<Machine>, task: &mut Task) -> Result<Arc<PodRun>, DesiredState> {
    let Some(local) = machine.local.as_ref().filter(|_| task.pod.spec.is_some()) else {
        return Err(task.until_unwanted().await);
    };
    let (mut wait, longest) = PORTS_RETRY_AFTER;
    let network = loop {
        let err = match PodNetwork::new(machine, local, &task.pod).await {
            Ok(network) => break network,
            Err(err) => err,
        };
        if (longest / 2..longest).contains(&wait) {
            let note = format!("Failed to create pod sandbox: {err}");
            task.object.event(None, EventType::Warning, "FailedCreatePodSandBox", note);
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => wait = (wait * 2).min(longest),
            desired = task.until_unwanted() => return Err(desired),
        }
    };
    let (host_ip, pod_ip) = network.addresses(local);
    let now = machine.context.clock.now();
    let state = PodState::new(&task.pod, now, &host_ip.to_string(), &pod_ip.to_string());
    Ok(Arc::new(PodRun {
        machine: Arc::clone(machine),
        object: task.object.clone(),
        pod: Arc::clone(&task.pod),
        network: Arc::new(network),
        state: Mutex::new(state),
        is_public: AtomicBool::new(false),
        publisher: Arc::new(StatusPublisher::start(task.object.clone())),
    }))
}

/// Runs the pod's containers, and returns what replaced the wish that it runs.
async fn live(run: Arc<PodRun>, task: &mut Task) -> DesiredState {
    let phase = run_while_wanted(&run, task).await;
    let desired = *task.desired.borrow();
    if desired == DesiredState::Running {
        run.set_phase(phase);
        run.set_public(true);
        run.publish();
    }
    let publisher = Arc::clone(&run.publisher);
    // Its ports are free from now on, though its object is still there.
    drop(run);
    let desired = task.until_unwanted().await;
    if let DesiredState::Left(_) = desired {
        // The last status is worth one more attempt.
        publisher.flush().await;
    }
    desired
}

async fn run_while_wanted(run: &Arc<PodRun>, task: &mut Task) -> Phase {
    let (stop, stopping) = watch::channel(None);
    // It may be unwanted from the start.
    task.desired.mark_changed();
    let mut running = std::pin::pin!(run_containers(run, stopping));
    loop {
        let changed = tokio::select! {
            phase = &mut running => return phase,
            changed = task.desired.changed() => changed,
        };
        let desired = if changed.is_ok() {
            *task.desired.borrow()
        } else {
            DesiredState::Left(Duration::ZERO)
        };
        let grace = match desired {
            DesiredState::Running => continue,
            DesiredState::Deleted(grace) => grace,
            DesiredState::Gone => Duration::ZERO,
            DesiredState::Left(grace) => {
                // The next start reports its end.
                run.set_public(false);
                grace
            }
        };
        stop.send_replace(Some(deadline::after(grace)));
        if changed.is_err() {
            return running.await;
        }
    }
}

/// Runs every container, and returns the phase that the pod ended in.
async fn run_containers(run: &Arc<PodRun>, mut stop: Stop) -> Phase {
    let mut sidecars = Vec::new();
    let is_initialized = initialize(run, &stop, &mut sidecars).await;
    let is_well = is_initialized && {
        let mut main = Vec::new();
        for (index, container) in with_role(run, |role| role == Role::Main) {
            main.push(start(run, index, Role::Main, container, stop.clone()).await);
        }
        run.set_phase(Phase::Running);
        run.set_public(stop.borrow_and_update().is_none());
        run.publish();
        let mut is_well = true;
        for runner in main {
            is_well &= runner.await.is_ok_and(|code| code == 0);
        }
        is_well
    };
    for (stop_sidecar, runner) in sidecars.into_iter().rev() {
        let deadline = stop.borrow().unwrap_or_else(|| deadline::after(run.grace()));
        stop_sidecar.send_replace(Some(deadline.max(Instant::now() + SIDECAR_GRACE)));
        let _: Result<i32, _> = runner.await;
    }
    if is_well { Phase::Succeeded } else { Phase::Failed }
}

type Sidecar = (watch::Sender<Option<Instant>>, AbortOnDropHandle<i32>);

/// Runs the init containers in order, and returns whether the others may start.
async fn initialize(run: &Arc<PodRun>, stop: &Stop, sidecars: &mut Vec<Sidecar>) -> bool {
    for (index, container) in with_role(run, |role| role != Role::Main) {
        if stop.borrow().is_some() {
            return false;
        }
        let is_sidecar = container.restart_policy.as_deref() == Some("Always");
        if is_sidecar {
            let (stop, stopping) = watch::channel(None);
            sidecars.push((stop, start(run, index, Role::Sidecar, container, stopping).await));
            continue;
        }
        let runner = start(run, index, Role::Init, container, stop.clone()).await;
        // It may take long, and its pod's status shows what it waits for.
        run.set_public(stop.borrow().is_none());
        run.publish();
        let is_done = runner.await.is_ok_and(|code| code == 0);
        run.set_public(false);
        if !is_done {
            return false;
        }
    }
    stop.borrow().is_none()
}

fn with_role(run: &Arc<PodRun>, wanted: fn(Role) -> bool) -> Vec<(usize, Container)> {
    let all = containers(&run.pod).enumerate().filter(|(_, (role, _))| wanted(*role));
    all.map(|(index, (_, container))| (index, container.clone())).collect()
}

/// Starts the task of a container, and waits until it has started or could not.
async fn start(
    run: &Arc<PodRun>,
    index: usize,
    role: Role,
    container: Container,
    stop: Stop,
) -> AbortOnDropHandle<i32> {
    let (first, has_started) = oneshot::channel();
    let pod = Arc::clone(run);
    let runner = ContainerRunner { pod, index, role, container, stop, first: Some(first) };
    let runner = AbortOnDropHandle::new(tokio::spawn(runner.run()));
    let _ = has_started.await;
    runner
}
