//! Publishes the status of a pod without blocking its containers.
//!
//! A separate task writes the newest status, and skips those that were replaced in the meantime.

use process::{Supervised, Supervisor};
use tokio::sync::watch;

use crate::client::PodHandle;
use crate::status::PodState;

/// Publishes the latest status of a pod.
pub(crate) struct StatusPublisher {
    /// Dropped first: it would end, and be started again, without the sender.
    _task: Supervised,
    desired: watch::Sender<NumberedState>,
    written: watch::Receiver<u64>,
}

/// A status and how many were published before it.
#[derive(Clone, Default)]
struct NumberedState {
    number: u64,
    state: Option<PodState>,
}

impl StatusPublisher {
    /// Starts to publish the statuses of a pod, until this is dropped.
    pub(crate) fn start(pod: PodHandle, supervisor: &Supervisor) -> Self {
        let (desired, receiver) = watch::channel(NumberedState::default());
        let (sender, written) = watch::channel(0);
        let name = format!("status of pod {}", pod.entry.key);
        // A new start begins with the newest status.
        let writing = move || write_all(pod.clone(), receiver.clone(), sender.clone());
        Self { _task: supervisor.spawn(name, writing), desired, written }
    }

    /// Publishes a status.
    pub(crate) fn publish(&self, state: PodState) {
        self.desired.send_modify(|desired| {
            desired.number += 1;
            desired.state = Some(state);
        });
    }

    /// Waits until the last published status is written, or cannot be written.
    pub(crate) async fn flush(&self) {
        let number = self.desired.borrow().number;
        let _ = self.written.clone().wait_for(|written| *written >= number).await;
    }
}

async fn write_all(
    pod: PodHandle,
    mut desired: watch::Receiver<NumberedState>,
    written: watch::Sender<u64>,
) {
    while desired.changed().await.is_ok() {
        let NumberedState { number, state } = desired.borrow_and_update().clone();
        if let Some(state) = state {
            pod.write_status(|pod, last, now| Some(state.patch(pod, last, now))).await;
        }
        written.send_replace(number);
    }
}
