//! The limits of one call of a module.
//!
//! Work is counted in steps: instructions of the module, and for calls of the host a fixed number and one for every eight
//! bytes. Time is monotonic, and includes waiting for a busy machine. A dropped caller cancels the call. All three are
//! checked before every call of the host and after every slice of instructions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How many instructions run between two checks: a few milliseconds.
pub(super) const SLICE: u64 = 1_000_000;

/// The cost of a call of the host, apart from the bytes it handles.
const HOST_CALL: u64 = 20;

/// The limits of one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Steps, of which an interpreter does a hundred million a second or more. A policy needs some hundred thousand.
    pub(super) work: u64,
    /// Time.
    pub(super) time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { work: 500 * SLICE, time: Duration::from_secs(5) }
    }
}

/// The remaining budget of one call.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    limits: Limits,
    work: u64,
    started_at: Instant,
    cancelled: Arc<AtomicBool>,
}

/// Why a module was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Exhausted {
    #[error("it did not finish within {0} steps")]
    Work(u64),
    #[error("it did not finish within {} s", .0.as_secs_f64())]
    Time(Duration),
    #[error("the caller has cancelled it")]
    Cancelled,
}

impl wasmi::errors::HostError for Exhausted {}

impl Budget {
    pub(super) fn new(limits: Limits, cancelled: Arc<AtomicBool>) -> Self {
        Self { limits, work: limits.work, started_at: Instant::now(), cancelled }
    }

    /// Takes steps out of the budget, unless it is used up or the call is cancelled.
    pub(super) fn spend(&mut self, steps: u64) -> Result<(), Exhausted> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Exhausted::Cancelled);
        }
        if self.started_at.elapsed() >= self.limits.time {
            return Err(Exhausted::Time(self.limits.time));
        }
        let left = self.work.checked_sub(steps);
        self.work = left.ok_or(Exhausted::Work(self.limits.work))?;
        Ok(())
    }

    /// Charges the budget for a call of the host that handles this many bytes.
    pub(super) fn spend_on_host(&mut self, bytes: u64) -> Result<(), Exhausted> {
        self.spend(HOST_CALL.saturating_add(bytes / 8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_ends_by_work_by_time_and_by_being_cancelled() {
        let limits = Limits { work: 100, time: Duration::from_secs(3600) };
        let cancelled = Arc::new(AtomicBool::new(false));
        let mut budget = Budget::new(limits, Arc::clone(&cancelled));
        assert_eq!(budget.spend(60), Ok(()));
        assert_eq!(budget.spend_on_host(160), Ok(()));
        assert_eq!(budget.spend(1), Err(Exhausted::Work(100)));
        cancelled.store(true, Ordering::Relaxed);
        assert_eq!(budget.spend(0), Err(Exhausted::Cancelled));
        let limits = Limits { time: Duration::ZERO, ..limits };
        let mut budget = Budget::new(limits, Arc::default());
        assert_eq!(budget.spend(0), Err(Exhausted::Time(Duration::ZERO)));
    }
}
