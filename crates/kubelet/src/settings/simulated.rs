//! Simulated nodes, and the scripts of their pods.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;

use super::Capacity;
use crate::usage::Usage;

/// The label of nodes on which no process runs.
pub const SIMULATED_LABEL: &str = "plimsoll.dev/simulated";

/// Nodes on which no process runs: `sim-0001` and so on, and every node that has [`SIMULATED_LABEL`].
#[derive(Clone)]
pub struct Simulated {
    /// How many nodes to register.
    pub count: usize,
    /// The capacity of each.
    pub capacity: Capacity,
    /// How long a pod takes from being bound to running.
    pub start_after: Duration,
    /// Plays the programs of pods.
    pub simulation: Option<Arc<dyn Simulation>>,
    /// Renews a Lease for each registered node. Only a node lifecycle controller needs that, and the embedded engine has none.
    pub leases: bool,
}

impl Default for Simulated {
    fn default() -> Self {
        let capacity = Capacity { cpu_millis: 16_000, memory_bytes: 64 << 30, pods: 110 };
        Self { count: 0, capacity, start_after: Duration::ZERO, simulation: None, leases: false }
    }
}

/// Plays what the programs of simulated pods would do.
pub trait Simulation: Send + Sync {
    /// Starts to play a pod that became Running. When the future is ready, the pod's containers terminate with its exit code;
    /// it is dropped when the pod is deleted. `None`: the pod runs until it is deleted.
    fn play(&self, pod: &Arc<Pod>) -> Option<BoxFuture<'static, i32>>;

    /// Returns the usage of a running pod that has no annotation with its usage; `None`: it uses nothing.
    fn usage(&self, _pod: &Pod) -> Option<Usage> {
        None
    }
}
