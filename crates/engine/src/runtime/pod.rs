//! How does a pod of this machine live?
//!
//! Init containers run one after the other, sidecars among them stay; then everything else runs. When the last container
//! has ended, or the pod is deleted, sidecars are stopped in the reverse order, and nothing of the pod is left.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::container::{Keeper, Stop};
use super::dispatch::{Task, Wish};
use super::network::PodNetwork;
use super::status::{ContainerState, Phase, PodState, Role, State, containers};
use super::{Local, Machine};
use crate::deadline;
use crate::rest::internal::PodRef;

/// How long a pod waits before it tries again to have its ports: first, and at most. Those of a pod that has just gone
/// are free in a moment.
const PORTS_AGAIN_AFTER: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(5));
/// What a sidecar has at least to end in, however late it is.
const SIDECAR_GRACE: Duration = Duration::from_secs(2);

/// What the containers of a pod share.
pub(super) struct PodRun {
    pub(super) machine: Arc<Machine>,
    pub(super) object: PodRef,
    pub(super) pod: Arc<Pod>,
    pub(super) network: Arc<PodNetwork>,
    state: Mutex<PodState>,
    /// Whether changes are written; at the start all are written at once.
    is_told: AtomicBool,
    writing: tokio::sync::Mutex<()>,
}

impl PodRun {
    pub(super) fn local(&self) -> &Local {
        self.machine.local.as_ref().expect("pods run here only where this machine is a node")
    }

    pub(super) fn spec(&self) -> &PodSpec {
        self.pod.spec.as_ref().expect("a pod that is bound has a spec")
    }

    /// Changes what is known of a container.
    pub(super) fn set(&self, index: usize, edit: impl FnOnce(&mut ContainerState)) {
        edit(&mut self.state.lock().expect("no one panics while holding it").containers[index]);
    }

    /// Writes the status of the pod, if it is time to.
    pub(super) async fn publish(&self) {
        if !self.is_told.load(Ordering::Relaxed) {
            return;
        }
        let _turn = self.writing.lock().await;
        let mut state = self.state.lock().expect("no one panics while holding it").clone();
        if state.phase == Phase::Running {
            let never_started = |c: &ContainerState| {
                c.role == Role::Main && matches!(c.state, State::Waiting { .. }) && c.restarts == 0
            };
            if state.containers.iter().any(never_started) {
                state.phase = Phase::Pending;
            }
        }
        let now = self.machine.core.clock.now();
        self.object.change(&["status"], |pod| state.write(pod, now)).await;
    }

    fn set_phase(&self, phase: Phase) {
        self.state.lock().expect("no one panics while holding it").phase = phase;
    }

    fn tell(&self, is_told: bool) {
        self.is_told.store(is_told, Ordering::Relaxed);
    }

    /// Gives how long a container may take to end.
    pub(super) fn grace(&self) -> Duration {
        let seconds = self.spec().termination_grace_period_seconds.unwrap_or(30);
        deadline::seconds(seconds)
    }
}

/// Runs a pod until it is over and gone.
pub(super) async fn run(machine: Arc<Machine>, mut task: Task) {
    let uid = Arc::clone(&task.object.uid);
    let wish = match set_up(&machine, &mut task).await {
        Ok(run) => live(run, &mut task).await,
        Err(wish) => wish,
    };
    machine.core.logs.forget(&uid);
    if let Wish::Stop(_) = wish {
        task.object.remove().await;
    }
}

/// Makes the network of the pod, as soon as its ports are free.
async fn set_up(machine: &Arc<Machine>, task: &mut Task) -> Result<Arc<PodRun>, Wish> {
    let Some(local) = machine.local.as_ref().filter(|_| task.pod.spec.is_some()) else {
        return Err(task.until_unwanted().await);
    };
    let (mut wait, longest) = PORTS_AGAIN_AFTER;
    let network = loop {
        let err = match PodNetwork::new(machine, local, &task.pod).await {
            Ok(network) => break network,
            Err(err) => err,
        };
        if (longest / 2..longest).contains(&wait) {
            let why = format!("the network of the pod could not be made: {err}");
            task.object.event("plimsoll", "Warning", "FailedCreatePodSandBox", &why).await;
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => wait = (wait * 2).min(longest),
            wish = task.until_unwanted() => return Err(wish),
        }
    };
    let (host_ip, pod_ip) = network.addresses(local);
    let now = machine.core.clock.now();
    let state = PodState::new(&task.pod, now, &host_ip.to_string(), &pod_ip.to_string());
    Ok(Arc::new(PodRun {
        machine: Arc::clone(machine),
        object: task.object.clone(),
        pod: Arc::clone(&task.pod),
        network: Arc::new(network),
        state: Mutex::new(state),
        is_told: AtomicBool::new(false),
        writing: tokio::sync::Mutex::default(),
    }))
}

/// Lets the pod live, and gives why it is not wanted any more.
async fn live(run: Arc<PodRun>, task: &mut Task) -> Wish {
    let phase = play_while_wanted(&run, task).await;
    let wish = *task.wish.borrow();
    if wish == Wish::Run {
        run.set_phase(phase);
        run.tell(true);
        run.publish().await;
    }
    // Its ports are free from now on, though its object is still there.
    drop(run);
    task.until_unwanted().await
}

async fn play_while_wanted(run: &Arc<PodRun>, task: &mut Task) -> Phase {
    let (stop, stopping) = watch::channel(None);
    // It may be unwanted from the start.
    task.wish.mark_changed();
    let mut playing = std::pin::pin!(play(run, stopping));
    loop {
        let changed = tokio::select! {
            phase = &mut playing => return phase,
            changed = task.wish.changed() => changed,
        };
        let wish = if changed.is_ok() { *task.wish.borrow() } else { Wish::Leave(Duration::ZERO) };
        let grace = match wish {
            Wish::Run => continue,
            Wish::Stop(grace) => grace,
            Wish::Gone => Duration::ZERO,
            Wish::Leave(grace) => {
                // The next start says what became of it.
                run.tell(false);
                grace
            }
        };
        stop.send_replace(Some(deadline::after(grace)));
        if changed.is_err() {
            return playing.await;
        }
    }
}

/// Runs every container, and gives how the pod ended.
async fn play(run: &Arc<PodRun>, mut stop: Stop) -> Phase {
    let mut sidecars = Vec::new();
    let is_initialized = initialize(run, &stop, &mut sidecars).await;
    let is_well = is_initialized && {
        let mut main = Vec::new();
        for (index, container) in of_role(run, |role| role == Role::Main) {
            main.push(start(run, index, Role::Main, container, stop.clone()).await);
        }
        run.set_phase(Phase::Running);
        run.tell(stop.borrow_and_update().is_none());
        run.publish().await;
        let mut is_well = true;
        for keeper in main {
            is_well &= keeper.await.is_ok_and(|code| code == 0);
        }
        is_well
    };
    for (stop_sidecar, keeper) in sidecars.into_iter().rev() {
        let deadline = stop.borrow().unwrap_or_else(|| deadline::after(run.grace()));
        stop_sidecar.send_replace(Some(deadline.max(Instant::now() + SIDECAR_GRACE)));
        let _: Result<i32, _> = keeper.await;
    }
    if is_well { Phase::Succeeded } else { Phase::Failed }
}

type Sidecar = (watch::Sender<Option<Instant>>, AbortOnDropHandle<i32>);

/// Runs the init containers in order, and tells whether the others may start.
async fn initialize(run: &Arc<PodRun>, stop: &Stop, sidecars: &mut Vec<Sidecar>) -> bool {
    for (index, container) in of_role(run, |role| role != Role::Main) {
        if stop.borrow().is_some() {
            return false;
        }
        let is_sidecar = container.restart_policy.as_deref() == Some("Always");
        if is_sidecar {
            let (stop, stopping) = watch::channel(None);
            sidecars.push((stop, start(run, index, Role::Sidecar, container, stopping).await));
            continue;
        }
        let keeper = start(run, index, Role::Init, container, stop.clone()).await;
        // It may take long, and people want to know what a pod is waiting for.
        run.tell(stop.borrow().is_none());
        run.publish().await;
        let is_done = keeper.await.is_ok_and(|code| code == 0);
        run.tell(false);
        if !is_done {
            return false;
        }
    }
    stop.borrow().is_none()
}

fn of_role(run: &Arc<PodRun>, wanted: fn(Role) -> bool) -> Vec<(usize, Container)> {
    let all = containers(&run.pod).enumerate().filter(|(_, (role, _))| wanted(*role));
    all.map(|(index, (_, container))| (index, container.clone())).collect()
}

/// Starts to look after a container, and waits until it has started or could not.
async fn start(
    run: &Arc<PodRun>,
    index: usize,
    role: Role,
    container: Container,
    stop: Stop,
) -> AbortOnDropHandle<i32> {
    let (first, has_started) = oneshot::channel();
    let keeper = Keeper { pod: Arc::clone(run), index, role, container, stop, first: Some(first) };
    let keeper = AbortOnDropHandle::new(tokio::spawn(keeper.keep()));
    let _ = has_started.await;
    keeper
}
