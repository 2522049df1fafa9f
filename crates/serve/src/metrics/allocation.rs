//! Metrics of allocations: duration and attempts.

use std::time::Duration;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

const SECONDS: [f64; 11] = [0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.0, 3.0];
/// Finer buckets below those of Agones: an allocation takes about a millisecond.
const FINE_SECONDS: [f64; 4] = [0.0005, 0.001, 0.0025, 0.005];
const TRIES: [f64; 5] = [1.0, 2.0, 3.0, 4.0, 5.0];

type Labels = [(&'static str, String); 5];

/// Records the allocations of an allocator. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AllocationMetrics {
    took: Family<Labels, Histogram, fn() -> Histogram>,
    tries: Family<Labels, Histogram, fn() -> Histogram>,
}

/// One finished allocation.
#[derive(Clone, Copy, Debug)]
pub struct AllocationSample<'a> {
    /// The fleet of the server; empty when there is none.
    pub fleet: &'a str,
    /// `Allocated`, `UnAllocated`, `Contention` or `error`.
    pub status: &'a str,
    /// `Packed` or `Distributed`.
    pub scheduling: &'a str,
    /// Whether it was a multi-cluster allocation.
    pub is_multicluster: bool,
    /// The time from the request to the response.
    pub took: Duration,
    /// The number of attempts, where known.
    pub tries: Option<u32>,
}

impl AllocationMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let took: fn() -> Histogram = || Histogram::new(FINE_SECONDS.into_iter().chain(SECONDS));
        let tries: fn() -> Histogram = || Histogram::new(TRIES);
        let new = Self {
            took: Family::new_with_constructor(took),
            tries: Family::new_with_constructor(tries),
        };
        registry.register(
            "gameserver_allocations_duration_seconds",
            "Duration of allocations",
            new.took.clone(),
        );
        registry.register(
            "gameserver_allocations_retry_total",
            "Attempts per successful allocation",
            new.tries.clone(),
        );
        new
    }

    /// Records an allocation.
    pub fn record(&self, sample: AllocationSample<'_>) {
        let fleet = if sample.fleet.is_empty() { "none" } else { sample.fleet };
        let labels = |status: &str| -> Labels {
            [
                ("fleet_name", fleet.to_owned()),
                ("cluster_name", "none".to_owned()),
                ("is_multicluster", sample.is_multicluster.to_string()),
                ("status", status.to_owned()),
                ("scheduling_strategy", sample.scheduling.to_owned()),
            ]
        };
        self.took.get_or_create(&labels(sample.status)).observe(sample.took.as_secs_f64());
        if let Some(tries) = sample.tries.filter(|_| sample.status == "Allocated") {
            self.tries.get_or_create(&labels("Success")).observe(f64::from(tries));
        }
    }
}
