//! Counts requests, and the rate at which they arrive.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

/// The time over which the rate is an average.
const WINDOW: u64 = 10;

/// The counters of the service.
pub(super) struct Stats {
    started_at: Instant,
    counters: Mutex<Counters>,
}

#[derive(Default)]
struct Counters {
    requests: u64,
    rejected: u64,
    in_flight: u64,
    cpu: Duration,
    /// Seconds since the start and the requests that arrived in each, oldest first; at most `WINDOW + 1`.
    arrivals: VecDeque<(u64, u64)>,
}

/// The counters at one moment.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Snapshot {
    requests: u64,
    rejected: u64,
    in_flight: u64,
    requests_per_second: f64,
    cpu_seconds: f64,
    uptime_seconds: u64,
}

/// A request in flight; dropping it ends it.
pub(super) struct InFlight<'s> {
    stats: &'s Stats,
    count: u64,
}

impl Stats {
    pub(super) fn new() -> Self {
        Self { started_at: Instant::now(), counters: Mutex::default() }
    }

    /// Counts a request that arrives.
    pub(super) fn begin(&self, now: Instant) -> InFlight<'_> {
        let second = (now - self.started_at).as_secs();
        let count = self.update(|counters| {
            counters.requests += 1;
            counters.in_flight += 1;
            match counters.arrivals.back_mut() {
                Some((latest, count)) if *latest >= second => *count += 1,
                _ => counters.arrivals.push_back((second, 1)),
            }
            counters.expire(second);
            counters.in_flight
        });
        InFlight { stats: self, count }
    }

    /// Returns the counters. The rate is that of the last whole seconds, since the present one is not over.
    pub(super) fn snapshot(&self, now: Instant) -> Snapshot {
        let second = (now - self.started_at).as_secs();
        self.update(|counters| {
            counters.expire(second);
            let arrived = counters.arrivals.iter().filter(|(at, _)| *at < second);
            let arrived: u64 = arrived.map(|(_, count)| count).sum();
            Snapshot {
                requests: counters.requests,
                rejected: counters.rejected,
                in_flight: counters.in_flight,
                requests_per_second: arrived as f64 / second.clamp(1, WINDOW) as f64,
                cpu_seconds: counters.cpu.as_secs_f64(),
                uptime_seconds: second,
            }
        })
    }

    fn update<T>(&self, change: impl FnOnce(&mut Counters) -> T) -> T {
        change(&mut self.counters.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Counters {
    fn expire(&mut self, second: u64) {
        while self.arrivals.front().is_some_and(|(at, _)| at + WINDOW < second) {
            self.arrivals.pop_front();
        }
    }
}

impl InFlight<'_> {
    /// Returns how many requests were in flight when this one arrived, including it.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Ends a request that used CPU.
    pub(super) fn finish(self, used: Duration) {
        self.stats.update(|counters| counters.cpu += used);
    }

    /// Ends a request that was not processed.
    pub(super) fn reject(self) {
        self.stats.update(|counters| counters.rejected += 1);
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.stats.update(|counters| counters.in_flight -= 1);
    }
}

impl Snapshot {
    /// Returns the counters in the text format of Prometheus.
    pub(super) fn prometheus(&self) -> String {
        let metric = |name: &str, kind: &str, help: &str, value: f64| {
            let name = format!("sample_service_{name}");
            format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n")
        };
        [
            metric("requests_total", "counter", "Requests that arrived.", self.requests as f64),
            metric("rejected_total", "counter", "Requests over the limit.", self.rejected as f64),
            metric("requests_in_flight", "gauge", "Requests in flight.", self.in_flight as f64),
            metric(
                "requests_per_second",
                "gauge",
                "Requests per second in the last 10 seconds.",
                self.requests_per_second,
            ),
            metric("cpu_seconds_total", "counter", "CPU time of requests.", self.cpu_seconds),
        ]
        .concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_ten_whole_seconds() {
        let stats = Stats::new();
        let at = |seconds| stats.started_at + Duration::from_secs(seconds);
        for second in 0..30 {
            for _ in 0..=second / 10 {
                stats.begin(at(second)).finish(Duration::from_millis(1));
            }
        }
        for (second, rate) in
            [(1, 1.0), (5, 1.0), (10, 1.0), (15, 1.5), (30, 3.0), (35, 1.5), (99, 0.0)]
        {
            // Expired arrivals do not come back, so each moment has counters of its own.
            let stats = Stats { started_at: stats.started_at, counters: Mutex::default() };
            for arrival in 0..second.min(30) {
                for _ in 0..=arrival / 10 {
                    stats.begin(at(arrival)).finish(Duration::ZERO);
                }
            }
            let rate_then = stats.snapshot(at(second)).requests_per_second;
            assert!((rate_then - rate).abs() < 1e-9, "{second}: {rate_then}");
        }
        let snapshot = stats.snapshot(at(30));
        assert_eq!((snapshot.requests, snapshot.in_flight), (60, 0));
        assert!(snapshot.prometheus().contains("\nsample_service_requests_total 60\n"));
        assert!(stats.update(|counters| counters.arrivals.len()) <= 11);
    }

    #[test]
    fn a_request_is_in_flight_until_it_ends() {
        let stats = Stats::new();
        let now = stats.started_at;
        let (first, second) = (stats.begin(now), stats.begin(now));
        assert_eq!((first.count(), second.count()), (1, 2));
        second.reject();
        let snapshot = stats.snapshot(now);
        assert_eq!((snapshot.in_flight, snapshot.rejected), (1, 1));
        drop(first);
        assert_eq!(stats.snapshot(now).in_flight, 0);
    }
}
