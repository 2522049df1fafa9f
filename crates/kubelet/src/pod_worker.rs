//! Runs a pod of this machine.
//!
//! Init containers run one after the other, and sidecars among them keep running; then the main containers start. When the last container
//! has ended, or the pod is deleted, sidecars are stopped in reverse order.

mod volumes;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use cluster::EventType;
use k8s_openapi::api::core::v1::{Container, Pod};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::container::{ContainerRunner, Stop};
use crate::machine::Machine;
use crate::network::{NetworkConfig, Networking, PodNetwork};
use crate::pod::PodRun;
use crate::pod_task::{DesiredState, PodTask};
use crate::settings::Local;
use crate::status::{Phase, Role, containers};
use crate::volumes::PodVolumes;
use crate::{deadline, resolve};

/// How long a pod waits before it tries again to bind its ports: first, and at most. Those of a pod that has just been
/// deleted are free in a moment.
const PORTS_RETRY_AFTER: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(5));
/// The shortest time that a sidecar has to terminate, even if the grace period is over.
const SIDECAR_GRACE: Duration = Duration::from_secs(2);

/// Runs a pod until it has ended and is deleted.
pub(crate) async fn run(machine: Arc<Machine>, mut task: PodTask) {
    let uid = Arc::clone(&task.object.entry.uid);
    let volumes =
        machine.volumes.as_ref().map(|root| Arc::new(PodVolumes::new(root, &task.pod, &uid)));
    let desired = match set_up(&machine, &mut task, volumes.clone()).await {
        Ok(run) => live(run, &mut task).await,
        Err(desired) => desired,
    };
    if let Some(volumes) = volumes {
        volumes.remove().await;
    }
    machine.logs.remove(&uid);
    if let DesiredState::Deleted(_) = desired {
        task.object.remove().await;
    }
}

/// Creates the network of the pod, as soon as its ports are free.
async fn set_up(
    machine: &Arc<Machine>,
    task: &mut PodTask,
    volumes: Option<Arc<PodVolumes>>,
) -> Result<Arc<PodRun>, DesiredState> {
    let local = machine.local.as_ref().filter(|_| task.pod.spec.is_some());
    let (Some(local), Some(volumes)) = (local, volumes) else {
        return Err(task.until_unwanted().await);
    };
    let (mut wait, longest) = PORTS_RETRY_AFTER;
    let network = loop {
        let err = match create_network(machine, local, &task.pod).await {
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
    let (object, pod) = (task.object.clone(), Arc::clone(&task.pod));
    Ok(Arc::new(PodRun::new(machine, local, object, pod, network, volumes)))
}

async fn create_network(machine: &Machine, local: &Local, pod: &Pod) -> io::Result<PodNetwork> {
    let config = NetworkConfig {
        pod,
        address: local.address,
        program_ports: local.programs.ports(pod),
        services: machine.services.as_ref(),
        supervisor: &machine.context.supervisor,
    };
    let has_docker = machine.docker.is_some();
    let is_on_host = pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true))
        || has_docker && containers(pod).any(|(_, c)| resolve::is_for_docker(local, c));
    if machine.networking == Networking::Namespaces && !is_on_host {
        return PodNetwork::own(config).await;
    }
    let spawner = machine.spawner.clone();
    let spawner = spawner.ok_or_else(|| io::Error::other("this machine is not a node"))?;
    PodNetwork::shared(config, spawner)
}

/// Runs the pod's containers until it is no longer to run, and returns its new desired state.
async fn live(run: Arc<PodRun>, task: &mut PodTask) -> DesiredState {
    let phase = run_while_wanted(&run, task).await;
    let desired = *task.desired.borrow();
    if desired == DesiredState::Running {
        run.set_phase(phase);
        run.set_public(true);
        run.publish();
    }
    let publisher = Arc::clone(&run.publisher);
    // Frees its ports, although its object still exists.
    drop(run);
    let desired = task.until_unwanted().await;
    if let DesiredState::Left(_) = desired {
        // The next kubelet should know the last status.
        publisher.flush().await;
    }
    desired
}

async fn run_while_wanted(run: &Arc<PodRun>, task: &mut PodTask) -> Phase {
    let (stop, stopping) = watch::channel(None);
    // It may have been deleted before it started.
    task.desired.mark_changed();
    let mut running = std::pin::pin!(run_all(run, stopping));
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
                // The next kubelet reports that it has ended.
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

/// Sets up the volumes, runs every container, and returns the phase that the pod ended in.
async fn run_all(run: &Arc<PodRun>, mut stop: Stop) -> Phase {
    let Ok(renew_at) = volumes::set_up(run, &mut stop).await else { return Phase::Failed };
    tokio::select! {
        phase = run_containers(run, stop) => phase,
        never = volumes::follow(run, renew_at) => match never {},
    }
}

/// Runs every container, and returns the phase that the pod ended in.
async fn run_containers(run: &Arc<PodRun>, mut stop: Stop) -> Phase {
    let mut sidecars = Vec::new();
    let is_initialized = initialize(run, &stop, &mut sidecars).await;
    let has_succeeded = is_initialized && {
        let mut main = Vec::new();
        for (index, container) in with_role(run, |role| role == Role::Main) {
            main.push(start(run, index, Role::Main, container, stop.clone()).await);
        }
        run.set_phase(Phase::Running);
        run.set_public(stop.borrow_and_update().is_none());
        run.publish();
        let mut has_succeeded = true;
        for runner in main {
            has_succeeded &= runner.await.is_ok_and(|code| code == 0);
        }
        has_succeeded
    };
    for (stop_sidecar, runner) in sidecars.into_iter().rev() {
        let deadline = stop.borrow().unwrap_or_else(|| deadline::after(run.grace()));
        stop_sidecar.send_replace(Some(deadline.max(Instant::now() + SIDECAR_GRACE)));
        let _: Result<i32, _> = runner.await;
    }
    if has_succeeded { Phase::Succeeded } else { Phase::Failed }
}

type Sidecar = (watch::Sender<Option<Instant>>, AbortOnDropHandle<i32>);

/// Runs the init containers in order, and returns whether the main containers may start.
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
        // It may take long, and the status shows what the pod waits for.
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
