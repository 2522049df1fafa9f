//! The task of one pod.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::watch;

use crate::client::PodHandle;
use crate::kubelet::Machine;
use crate::recover;

/// What is to become of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DesiredState {
    /// It runs.
    Running,
    /// It is deleted: it may take this long to end, and then its object goes.
    Deleted(Duration),
    /// Its object is gone: it ends at once.
    Gone,
    /// The kubelet stops: it may take this long to end, and its object stays as it is.
    Left(Duration),
}

/// A pod to be run.
#[derive(Clone)]
pub(crate) struct Task {
    pub(crate) object: PodHandle,
    /// The pod as it was when it was bound.
    pub(crate) pod: Arc<Pod>,
    pub(crate) desired: watch::Receiver<DesiredState>,
}

impl Task {
    /// Waits until the pod is not to run any more.
    pub(crate) async fn until_unwanted(&mut self) -> DesiredState {
        match self.desired.wait_for(|desired| *desired != DesiredState::Running).await {
            Ok(desired) => *desired,
            Err(_) => DesiredState::Left(Duration::ZERO),
        }
    }
}

/// Changes the desired state of a pod.
pub(super) fn set(sender: &watch::Sender<DesiredState>, desired: DesiredState) {
    sender.send_if_modified(|now| std::mem::replace(now, desired) != desired);
}

/// Runs a pod until it is gone. One whose task panics has failed: what it ran ended with the task.
pub(super) async fn run_or_fail<Fut>(
    machine: Arc<Machine>,
    task: Task,
    run: impl FnOnce(Arc<Machine>, Task) -> Fut,
) where
    Fut: Future<Output = ()>,
{
    let (of_failure, failed) = (Arc::clone(&machine), task.clone());
    let Err(cause) = process::catch_panic(run(machine, task)).await else { return };
    let key = failed.object.entry.key.clone();
    tracing::error!(pod = %key, cause, "the task of a pod ended; the pod has failed");
    let message = format!("the task that ran the pod ended: {cause}");
    let ending = || fail(&of_failure, failed.clone(), &message);
    of_failure.context.supervisor.complete(format!("end of pod {key}"), ending).await;
}

/// Lets a pod fail that nothing runs any more, and removes it when it is deleted.
async fn fail(machine: &Machine, mut task: Task, message: &str) {
    if *task.desired.borrow() == DesiredState::Running {
        recover::fail(&task.object, "TaskPanicked", message).await;
    }
    let desired = task.until_unwanted().await;
    machine.logs.remove(&task.object.entry.uid);
    if let DesiredState::Deleted(_) = desired {
        task.object.remove().await;
    }
}
