//! Records of allocations, for metrics.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::agones::{FLEET_LABEL, Scheduling};
use api::allocation::{AllocationState, GameServerAllocation, GameServerAllocationStatus};

use super::AllocationError;

/// One finished allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocationRecord {
    /// The fleet of the server, or else of the request; `none` if neither has one.
    pub fleet: String,
    /// The scheduling strategy.
    pub scheduling: Scheduling,
    /// Whether it was a multi-cluster allocation.
    pub is_multi_cluster: bool,
    /// `Allocated`, `UnAllocated`, `Contention` or `error`.
    pub status: &'static str,
    /// How long it took.
    pub took: Duration,
    /// The number of attempts in this cluster; `None` if it allocated no server.
    pub tries: Option<u32>,
}

/// A callback for every allocation. It is called before the response is sent, so it must be fast.
#[derive(Clone)]
pub struct AllocationRecorder(Arc<dyn Fn(&AllocationRecord) + Send + Sync>);

impl AllocationRecorder {
    /// Returns a recorder that calls this function.
    pub fn new(callback: impl Fn(&AllocationRecord) + Send + Sync + 'static) -> Self {
        Self(Arc::new(callback))
    }

    pub(super) fn record(
        &self,
        allocation: &GameServerAllocation,
        answer: &Result<GameServerAllocationStatus, AllocationError>,
        took: Duration,
        tries: Option<u32>,
    ) {
        let allocated = answer.as_ref().ok().and_then(|a| a.metadata.as_ref()).map(|m| &m.labels);
        let requested = allocation.spec.selectors.iter().map(|s| &s.match_labels);
        let fleet =
            allocated.into_iter().chain(requested).find_map(|labels| labels.get(FLEET_LABEL));
        (self.0)(&AllocationRecord {
            fleet: fleet.cloned().unwrap_or_else(|| "none".to_owned()),
            scheduling: allocation.spec.scheduling,
            is_multi_cluster: allocation.spec.multi_cluster_setting.enabled,
            status: match answer.as_ref().map(|a| a.state) {
                Ok(AllocationState::Allocated) => "Allocated",
                Ok(AllocationState::UnAllocated) => "UnAllocated",
                Ok(AllocationState::Contention) => "Contention",
                Err(_) => "error",
            },
            took,
            tries,
        });
    }
}

impl fmt::Debug for AllocationRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AllocationRecorder")
    }
}
