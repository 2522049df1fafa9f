//! Who counts allocations, and how long they took?

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::agones::{FLEET_LABEL, Scheduling};
use api::allocation::{AllocationState, GameServerAllocation, GameServerAllocationStatus};

use super::Refusal;

/// One allocation, for whoever counts them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The fleet of the server, or the one that was asked for; `none` if neither says.
    pub fleet: String,
    /// How servers were chosen.
    pub scheduling: Scheduling,
    /// Whether other clusters were asked for.
    pub is_multi_cluster: bool,
    /// `Allocated`, `UnAllocated`, `Contention` or `error`.
    pub status: &'static str,
    /// How long it took.
    pub took: Duration,
    /// How often a server of this cluster was chosen until one was had; `None` if none was.
    pub tries: Option<u32>,
}

/// Hears of every allocation. It is called in their way, so it must be quick.
#[derive(Clone)]
pub struct Recorder(Arc<dyn Fn(&Measured) + Send + Sync>);

impl Recorder {
    /// Makes a recorder of a function.
    pub fn new(hear: impl Fn(&Measured) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }

    pub(super) fn record(
        &self,
        allocation: &GameServerAllocation,
        answer: &Result<GameServerAllocationStatus, Refusal>,
        took: Duration,
        tries: Option<u32>,
    ) {
        let given = answer.as_ref().ok().and_then(|a| a.metadata.as_ref()).map(|m| &m.labels);
        let asked = allocation.spec.selectors.iter().map(|s| &s.match_labels);
        let fleet = given.into_iter().chain(asked).find_map(|labels| labels.get(FLEET_LABEL));
        (self.0)(&Measured {
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

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder")
    }
}
