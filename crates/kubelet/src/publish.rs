//! Publishes the status of a pod without blocking its containers.
//!
//! A task of its own writes the newest status and passes over those that a newer one has replaced meanwhile.

use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::client::PodHandle;
use crate::status::PodState;

/// The latest status of a pod, on its way to the API server.
pub(crate) struct StatusPublisher {
    desired: watch::Sender<Numbered>,
    written: watch::Receiver<u64>,
    _task: AbortOnDropHandle<()>,
}

/// A status and how many were published before it.
#[derive(Clone, Default)]
struct Numbered {
    number: u64,
    state: Option<PodState>,
}

impl StatusPublisher {
    /// Starts to publish statuses of a pod, until this is dropped.
    pub(crate) fn start(pod: PodHandle) -> Self {
        let (desired, receiver) = watch::channel(Numbered::default());
        let (sender, written) = watch::channel(0);
        let task = AbortOnDropHandle::new(tokio::spawn(write_all(pod, receiver, sender)));
        Self { desired, written, _task: task }
    }

    /// Publishes a status.
    pub(crate) fn publish(&self, state: PodState) {
        self.desired.send_modify(|desired| {
            desired.number += 1;
            desired.state = Some(state);
        });
    }

    /// Waits until the last published status is written, or never will be.
    pub(crate) async fn flush(&self) {
        let number = self.desired.borrow().number;
        let _ = self.written.clone().wait_for(|written| *written >= number).await;
    }
}

async fn write_all(
    pod: PodHandle,
    mut desired: watch::Receiver<Numbered>,
    written: watch::Sender<u64>,
) {
    while desired.changed().await.is_ok() {
        let Numbered { number, state } = desired.borrow_and_update().clone();
        if let Some(state) = state {
            pod.write_status(|pod, last, now| Some(state.patch(pod, last, now))).await;
        }
        written.send_replace(number);
    }
}
