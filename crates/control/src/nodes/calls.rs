//! Calls that change groups at their providers. Each runs in a task of its own, so that one that hangs delays nothing but its group.

use std::collections::BTreeMap;

use cluster::Key;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The change that a call makes.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Raises the target.
    Increase(Increase),
    /// Lowers the target to cancel machines that did not appear.
    Decrease {
        /// The number of instances.
        by: u32,
    },
    /// Deletes instances that cannot be created.
    DeleteFailed,
    /// Deletes instances without a Node.
    DeleteUnregistered,
}

/// An increase of a group.
#[derive(Clone, Debug)]
pub(super) struct Increase {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) max: u32,
    /// The pods that it is for.
    pub(super) pods: Vec<Key>,
}

/// A call that has ended.
pub(super) struct EndedCall {
    pub(super) group: String,
    pub(super) change: Change,
    pub(super) outcome: Result<(), String>,
}

/// The calls in flight, at most one for each group.
#[derive(Default)]
pub(super) struct Calls {
    tasks: JoinSet<EndedCall>,
    /// The groups, each with the target that an increase asks for.
    in_flight: BTreeMap<String, Option<u32>>,
}

impl Calls {
    /// Starts a call.
    pub(super) fn start(
        &mut self,
        group: &str,
        change: Change,
        work: impl Future<Output = Result<(), String>> + Send + 'static,
    ) {
        let target = match &change {
            Change::Increase(increase) => Some(increase.to),
            Change::Decrease { .. } | Change::DeleteFailed | Change::DeleteUnregistered => None,
        };
        let group = group.to_owned();
        self.in_flight.insert(group.clone(), target);
        self.tasks.spawn(async move {
            let outcome = process::catch_panic(work).await.unwrap_or_else(Err);
            EndedCall { group, change, outcome }
        });
    }

    /// Returns the target that the call in flight about a group asks for; `None`: there is no call.
    pub(super) fn in_flight(&self, group: &str) -> Option<Option<u32>> {
        self.in_flight.get(group).copied()
    }

    /// Returns whether there are no calls in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Waits until a call ends, but not longer than the deadline; `None`: none has ended.
    pub(super) async fn next_until(&mut self, deadline: Instant) -> Option<EndedCall> {
        tokio::time::timeout_at(deadline, self.next()).await.ok().flatten()
    }

    /// Waits until a call ends; `None`: there is none.
    pub(super) async fn next(&mut self) -> Option<EndedCall> {
        loop {
            // A task that was aborted has no result; none is.
            if let Ok(ended) = self.tasks.join_next().await? {
                self.in_flight.remove(&ended.group);
                return Some(ended);
            }
        }
    }
}
