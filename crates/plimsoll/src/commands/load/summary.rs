//! The results of a load test, in memory of a fixed size.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

/// Buckets of the histogram per factor e of latency: each is 1% wide.
const PRECISION: f64 = 100.0;
/// The maximum number of different errors that are counted by name.
const MAX_REASONS: usize = 10;

/// Counts, errors and latencies of requests.
#[derive(Debug, Default)]
pub(super) struct Summary {
    requests: u64,
    errors: u64,
    reasons: BTreeMap<String, u64>,
    /// Successful requests by the logarithm of their latency in microseconds.
    buckets: BTreeMap<u32, u64>,
    max: Duration,
    pub(super) took: Duration,
}

impl Summary {
    pub(super) fn record(&mut self, latency: Duration, result: Result<(), String>) {
        self.requests += 1;
        match result {
            Ok(()) => {
                *self.buckets.entry(bucket(latency)).or_default() += 1;
                self.max = self.max.max(latency);
            }
            Err(reason) => self.count_error(reason, 1),
        }
    }

    fn count_error(&mut self, reason: String, count: u64) {
        self.errors += count;
        let is_known = self.reasons.contains_key(&reason) || self.reasons.len() < MAX_REASONS;
        let reason = if is_known { reason } else { "other errors".to_owned() };
        *self.reasons.entry(reason).or_default() += count;
    }

    /// Adds the results of another worker.
    pub(super) fn add(&mut self, other: Self) {
        self.requests += other.requests;
        for (reason, count) in other.reasons {
            self.count_error(reason, count);
        }
        for (bucket, count) in other.buckets {
            *self.buckets.entry(bucket).or_default() += count;
        }
        self.max = self.max.max(other.max);
    }

    pub(super) fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Returns the latency that a share of the successful requests did not exceed, to 1%.
    fn quantile(&self, share: f64) -> Duration {
        let total: u64 = self.buckets.values().sum();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive count"
        )]
        let rank = (total as f64 * share).ceil() as u64;
        let mut cumulative = 0;
        for (bucket, count) in &self.buckets {
            cumulative += count;
            if cumulative >= rank {
                return latency(*bucket).min(self.max);
            }
        }
        self.max
    }

    fn rate(&self) -> f64 {
        self.requests as f64 / self.took.as_secs_f64().max(1e-9)
    }

    pub(super) fn json(&self) -> Value {
        let seconds = |latency: Duration| latency.as_secs_f64();
        json!({
            "requests": self.requests, "errors": self.errors, "reasons": self.reasons,
            "seconds": seconds(self.took), "requestsPerSecond": self.rate(),
            "latencySeconds": {
                "p50": seconds(self.quantile(0.5)), "p90": seconds(self.quantile(0.9)),
                "p99": seconds(self.quantile(0.99)), "max": seconds(self.max),
            },
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, errors, took, max, .. } = self;
        writeln!(f, "requests  {requests} in {:.1?} ({:.1} per second)", took, self.rate())?;
        writeln!(f, "errors    {errors}")?;
        for (reason, count) in &self.reasons {
            writeln!(f, "          {count} × {reason}")?;
        }
        if self.buckets.is_empty() {
            return Ok(());
        }
        let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|share| self.quantile(share));
        writeln!(f, "latency   p50 {p50:.1?}  p90 {p90:.1?}  p99 {p99:.1?}  max {max:.1?}")
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the logarithm is at most 44"
)]
fn bucket(latency: Duration) -> u32 {
    ((latency.as_micros() as f64 + 1.0).ln() * PRECISION).round() as u32
}

fn latency(bucket: u32) -> Duration {
    Duration::from_secs_f64((((f64::from(bucket) / PRECISION).exp() - 1.0) / 1e6).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact_to_one_per_cent() {
        let mut workers = [Summary::default(), Summary::default()];
        for millis in 1..=1000_u64 {
            workers[(millis % 2) as usize].record(Duration::from_millis(millis), Ok(()));
        }
        let mut all = Summary::default();
        workers.into_iter().for_each(|worker| all.add(worker));
        for (share, expected) in [(0.5, 0.5), (0.9, 0.9), (0.99, 0.99), (1.0, 1.0)] {
            let found = all.quantile(share).as_secs_f64();
            assert!((found / expected - 1.0).abs() < 0.011, "{share}: {found}");
        }
        assert_eq!(all.max, Duration::from_secs(1));
        assert!(!all.has_errors());
        assert_eq!(Summary::default().quantile(0.5), Duration::ZERO);
    }

    #[test]
    fn errors_are_counted_by_reason_up_to_a_limit() {
        let mut summary = Summary::default();
        for number in 0..100 {
            summary.record(Duration::ZERO, Err(format!("status {number}")));
        }
        summary.record(Duration::ZERO, Err("status 0".to_owned()));
        assert_eq!((summary.requests, summary.errors), (101, 101));
        assert_eq!(summary.reasons.len(), MAX_REASONS + 1);
        assert_eq!((summary.reasons["status 0"], summary.reasons["other errors"]), (2, 90));
        let text = summary.to_string();
        assert!(
            text.contains("\nerrors    101\n") && text.contains("\n          2 × status 0\n"),
            "{text}"
        );
    }
}
