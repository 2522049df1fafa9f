//! The numbers of the node controller: what its last evaluation found, what was done, and whether evaluations succeed.
//!
//! Names and labels are those of Cluster Autoscaler where it has the same number, so that its dashboards and alerts go on working.

mod liveness;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

pub use liveness::{Activity, LivenessLimits};

/// The labels of a series.
pub type NodeLabels = Vec<(&'static str, String)>;
/// The values of a metric by their labels.
pub type NodeSeries<T> = BTreeMap<NodeLabels, T>;

/// The labels that Cluster Autoscaler gives counters of nodes; nodes are not counted by device.
const DEVICES: [&str; 3] = ["gpu_resource_name", "gpu_name", "dra_drivers"];
/// The bounds of durations: the smallest, the largest and the number, of exponential buckets.
const BOUNDS: (f64, f64, i32) = (0.1, 1800.0, 150);

/// Records the numbers of the node controller. Clones share the same numbers.
#[derive(Clone, Debug, Default)]
pub struct NodeMetrics(Arc<Mutex<NodeNumbers>>);

/// The numbers, by the names of their metrics.
#[derive(Clone, Debug, Default)]
pub struct NodeNumbers {
    /// What the last evaluation found.
    pub gauges: BTreeMap<&'static str, NodeSeries<i64>>,
    /// What was counted; the names are without `_total`.
    pub counters: BTreeMap<&'static str, NodeSeries<u64>>,
    /// How long functions took, by the name of the function.
    pub durations: BTreeMap<&'static str, Durations>,
    /// When each activity was last begun.
    pub activities: BTreeMap<&'static str, Timestamp>,
    /// Whether evaluations succeed.
    pub activity: Activity,
}

/// How long a function took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Durations {
    /// How many calls took no longer than each of [`Durations::bounds`] but longer than the one before it.
    pub buckets: Vec<u64>,
    /// The number of calls.
    pub count: u64,
    /// Their time in seconds.
    pub sum: f64,
}

impl Durations {
    /// Returns the upper bounds of the buckets in seconds; the last one is infinite.
    pub fn bounds() -> impl Iterator<Item = f64> {
        let (first, last, count) = BOUNDS;
        let factor = (last / first).powf(1.0 / f64::from(count - 1));
        (0..count).map(move |n| first * factor.powi(n)).chain([f64::INFINITY])
    }

    fn observe(&mut self, seconds: f64) {
        self.buckets.resize(Self::bounds().count(), 0);
        let bucket = self.buckets.iter_mut().zip(Self::bounds()).find(|(_, to)| seconds <= *to);
        bucket.into_iter().for_each(|(count, _)| *count += 1);
        self.count += 1;
        self.sum += seconds;
    }
}

impl NodeMetrics {
    /// Returns the numbers as they are now.
    pub fn numbers(&self) -> NodeNumbers {
        self.lock().clone()
    }

    /// Returns whether evaluations succeed.
    pub fn activity(&self) -> Activity {
        self.lock().activity
    }

    /// Records that an evaluation begins.
    pub(crate) fn began(&self, now: Timestamp) {
        let mut numbers = self.lock();
        numbers.activity.began(now);
        numbers.activities.insert("main", now);
    }

    /// Records that an evaluation succeeded, or that there was nothing to evaluate.
    pub(crate) fn succeeded(&self, now: Timestamp) {
        self.lock().activity.succeeded(now);
    }

    /// Records when something was last done.
    pub(crate) fn active(&self, activity: &'static str, now: Timestamp) {
        self.lock().activities.insert(activity, now);
    }

    /// Records how long a function took.
    pub(crate) fn took(&self, function: &'static str, time: Duration) {
        self.lock().durations.entry(function).or_default().observe(time.as_secs_f64());
    }

    /// Replaces what the last evaluation found.
    pub(crate) fn found(&self, gauges: BTreeMap<&'static str, NodeSeries<i64>>) {
        self.lock().gauges = gauges;
    }

    /// Adds to a counter.
    pub(crate) fn count(&self, name: &'static str, labels: NodeLabels, by: usize) {
        let mut numbers = self.lock();
        let count = numbers.counters.entry(name).or_default().entry(labels).or_default();
        *count += by as u64;
    }

    /// Adds to a counter of nodes.
    pub(crate) fn count_nodes(&self, name: &'static str, reason: Option<&str>, by: usize) {
        let reason = reason.map(|reason| ("reason", reason.to_owned()));
        let devices = DEVICES.map(|device| (device, String::new()));
        self.count(name, reason.into_iter().chain(devices).collect(), by);
    }

    /// Counts an error under one of Cluster Autoscaler's types.
    pub(crate) fn count_error(&self, kind: &str) {
        self.count("cluster_autoscaler_errors", vec![("type", kind.to_owned())], 1);
    }

    fn lock(&self) -> MutexGuard<'_, NodeNumbers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_in_the_first_bucket_that_holds_it() {
        let bounds: Vec<f64> = Durations::bounds().collect();
        assert_eq!((bounds.len(), bounds[0]), (151, 0.1));
        assert!((bounds[149] - 1800.0).abs() < 0.001, "{}", bounds[149]);
        let mut durations = Durations::default();
        for (seconds, bucket) in [(0.0, 0), (0.1, 0), (0.101, 1), (3600.0, 150)] {
            let before = durations.buckets.get(bucket).copied().unwrap_or_default();
            durations.observe(seconds);
            assert_eq!(durations.buckets[bucket], before + 1, "{seconds}");
        }
        assert_eq!(durations.count, 4);
    }
}
