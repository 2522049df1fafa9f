//! The task of one pod.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::watch;

use crate::client::PodHandle;
use crate::machine::Machine;
use crate::recover;

/// The state that a pod is to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DesiredState {
    /// It runs.
    Running,
    /// It is deleted: it may take this long to terminate, and then its object is removed.
    Deleted(Duration),
    /// Its object no longer exists: it is killed.
    Gone,
    /// The kubelet stops: it may take this long to terminate, and its object stays as it is.
    Left(Duration),
}

/// A pod to be run.
#[derive(Clone)]
pub(crate) struct PodTask {
    pub(crate) object: PodHandle,
    /// The pod as it was when it was bound.
    pub(crate) pod: Arc<Pod>,
    pub(crate) desired: watch::Receiver<DesiredState>,
}

impl PodTask {
    /// Waits until the pod is no longer to run.
    pub(crate) async fn until_unwanted(&mut self) -> DesiredState {
        match self.desired.wait_for(|desired| *desired != DesiredState::Running).await {
            Ok(desired) => *desired,
            Err(_) => DesiredState::Left(Duration::ZERO),
        }
    }
}

/// Changes the desired state of a pod.
pub(crate) fn set_desired(sender: &watch::Sender<DesiredState>, desired: DesiredState) {
    sender.send_if_modified(|now| std::mem::replace(now, desired) != desired);
}

/// Runs a pod until it is deleted. A pod whose task panics fails, since its processes are killed with the task.
pub(crate) async fn run_or_fail<Fut>(
    machine: Arc<Machine>,
    task: PodTask,
    run: impl FnOnce(Arc<Machine>, PodTask) -> Fut,
) where
    Fut: Future<Output = ()>,
{
    let running = run(Arc::clone(&machine), task.clone());
    let Err(cause) = process::catch_panic(running).await else { return };
    let key = task.object.entry.key.clone();
    tracing::error!(pod = %key, cause, "the task of a pod panicked; the pod has failed");
    let message = format!("the task that ran the pod ended: {cause}");
    let ending = || fail(&machine, task.clone(), &message);
    machine.context.supervisor.complete(format!("end of pod {key}"), ending).await;
}

/// Marks a pod as failed whose task has panicked, and removes it when it is deleted.
async fn fail(machine: &Machine, mut task: PodTask, message: &str) {
    if *task.desired.borrow() == DesiredState::Running {
        recover::fail(&task.object, "TaskPanicked", message).await;
    }
    let desired = task.until_unwanted().await;
    machine.logs.remove(&task.object.entry.uid);
    if let DesiredState::Deleted(_) = desired {
        task.object.remove().await;
    }
}
