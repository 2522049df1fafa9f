//! Deletes several machines of a group in one call of its provider: those that are drained within an interval, or all of a group that
//! is removed as a whole.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use decide::nodes::UnremovableReason;

use super::providers::ProviderGroup;
use super::removal::NotRemoved;

/// The outcome of a deletion.
type Outcome = Result<(), NotRemoved>;
/// Machines, each with who waits for its deletion.
type Waiting = Vec<(String, oneshot::Sender<Outcome>)>;

/// The machines of each group that are collected at present.
#[derive(Default)]
pub(super) struct Batches(Mutex<BTreeMap<String, Waiting>>);

impl Batches {
    /// Deletes a machine, together with all others of its group that are to be deleted within the interval.
    pub(super) async fn delete(
        &self,
        name: &str,
        group: &ProviderGroup,
        machine: String,
        interval: Duration,
    ) -> Outcome {
        if interval.is_zero() {
            return group.delete_nodes(&[machine]).await.map_err(NotRemoved::Failed);
        }
        let (sender, outcome) = oneshot::channel();
        let is_first = {
            let mut batches = lock(&self.0);
            let batch = batches.entry(name.to_owned()).or_default();
            batch.push((machine, sender));
            batch.len() == 1
        };
        if is_first {
            tokio::time::sleep(interval).await;
            let batch = lock(&self.0).remove(name).unwrap_or_default();
            delete_all(group, batch).await;
        }
        awaited(outcome).await
    }
}

/// The machines of a group that is removed as a whole: either all are deleted, or none.
pub(super) struct WholeGroup {
    size: usize,
    /// Those that can be deleted, or why none is, once one cannot be.
    ready: Mutex<Result<Waiting, NotRemoved>>,
}

impl WholeGroup {
    pub(super) fn new(size: usize) -> Arc<Self> {
        Arc::new(Self { size, ready: Mutex::new(Ok(Vec::new())) })
    }

    /// Deletes a machine once all others of its group can be deleted.
    pub(super) async fn delete(&self, group: &ProviderGroup, machine: String) -> Outcome {
        let (sender, outcome) = oneshot::channel();
        let complete = {
            let mut ready = lock(&self.ready);
            let all = ready.as_mut().map_err(|cause| cause.clone())?;
            all.push((machine, sender));
            (all.len() == self.size).then(|| std::mem::take(all))
        };
        if let Some(all) = complete {
            delete_all(group, all).await;
        }
        awaited(outcome).await
    }

    /// Records that a machine is not deleted. The others fail only if it failed.
    pub(super) fn abort(&self, cause: &NotRemoved) {
        let stays = UnremovableReason::AtomicScaleDownFailed;
        let others = match cause {
            NotRemoved::Needed(_) => NotRemoved::Needed(stays),
            NotRemoved::Failed(_) => NotRemoved::Failed(stays.to_string()),
        };
        let mut ready = lock(&self.ready);
        if ready.is_err() {
            return;
        }
        let waiting = std::mem::replace(&mut *ready, Err(others.clone()));
        for (_, sender) in waiting.into_iter().flatten() {
            drop(sender.send(Err(others.clone())));
        }
    }
}

async fn delete_all(group: &ProviderGroup, batch: Waiting) {
    let (machines, waiting): (Vec<String>, Vec<_>) = batch.into_iter().unzip();
    let outcome = group.delete_nodes(&machines).await.map_err(NotRemoved::Failed);
    for sender in waiting {
        drop(sender.send(outcome.clone()));
    }
}

async fn awaited(outcome: oneshot::Receiver<Outcome>) -> Outcome {
    let lost = || "the deletion was given up".to_owned();
    outcome.await.unwrap_or_else(|_| Err(lost().into()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
