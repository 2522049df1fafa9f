//! How long do allocations take, and how often are they tried?

use std::time::Duration;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

const SECONDS: [f64; 11] = [0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.0, 3.0];
/// The same, and finer below: an allocation of ours takes a millisecond.
const FINE: [f64; 4] = [0.0005, 0.001, 0.0025, 0.005];
const TRIES: [f64; 5] = [1.0, 2.0, 3.0, 4.0, 5.0];

type Labels = [(&'static str, String); 5];

/// Takes down what an allocator did. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Allocation {
    took: Family<Labels, Histogram, fn() -> Histogram>,
    tries: Family<Labels, Histogram, fn() -> Histogram>,
}

/// One allocation that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Allocated<'a> {
    /// The fleet of the server; empty when there is none.
    pub fleet: &'a str,
    /// `Allocated`, `UnAllocated`, `Contention` or `error`.
    pub status: &'a str,
    /// `Packed` or `Distributed`.
    pub scheduling: &'a str,
    /// Whether other clusters were asked.
    pub is_multicluster: bool,
    /// From the request to the answer.
    pub took: Duration,
    /// How often a server was chosen, where that is known.
    pub tries: Option<u32>,
}

impl Allocation {
    pub(super) fn registered(registry: &mut Registry) -> Self {
        let took: fn() -> Histogram = || Histogram::new(FINE.into_iter().chain(SECONDS));
        let tries: fn() -> Histogram = || Histogram::new(TRIES);
        let new = Self {
            took: Family::new_with_constructor(took),
            tries: Family::new_with_constructor(tries),
        };
        registry.register(
            "gameserver_allocations_duration_seconds",
            "How long allocations took",
            new.took.clone(),
        );
        registry.register(
            "gameserver_allocations_retry_total",
            "How often a server was chosen before one was had",
            new.tries.clone(),
        );
        new
    }

    /// Takes down an allocation.
    pub fn record(&self, done: Allocated<'_>) {
        let fleet = if done.fleet.is_empty() { "none" } else { done.fleet };
        let labels = |status: &str| -> Labels {
            [
                ("fleet_name", fleet.to_owned()),
                ("cluster_name", "none".to_owned()),
                ("is_multicluster", done.is_multicluster.to_string()),
                ("status", status.to_owned()),
                ("scheduling_strategy", done.scheduling.to_owned()),
            ]
        };
        self.took.get_or_create(&labels(done.status)).observe(done.took.as_secs_f64());
        if let Some(tries) = done.tries.filter(|_| done.status == "Allocated") {
            self.tries.get_or_create(&labels("Success")).observe(f64::from(tries));
        }
    }
}
