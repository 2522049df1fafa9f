//! What may one answer of a module cost?
//!
//! Work is counted in steps: instructions of the module, and for calls of its host a fixed number and one for every eight
//! bytes. Time is that of the clock on the wall, so that a busy machine does not stretch it. Whoever no longer wants the
//! answer cancels it. All three are looked at before every call of the host and after every slice of instructions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How many instructions run between two looks at what is left: a few milliseconds.
pub(super) const SLICE: u64 = 1_000_000;

/// What a call of the host costs, apart from the bytes it handles.
const HOST_CALL: u64 = 20;

/// What one answer may cost.
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

/// What is left of the limits of one answer.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    limits: Limits,
    work: u64,
    started_at: Instant,
    cancelled: Arc<AtomicBool>,
}

/// Why a module may not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Exhausted {
    #[error("it did not come to an end within {0} steps")]
    Work(u64),
    #[error("it did not come to an end within {} s", .0.as_secs_f64())]
    Time(Duration),
    #[error("nobody waits for its answer any more")]
    Cancelled,
}

impl wasmi::errors::HostError for Exhausted {}

impl Budget {
    pub(super) fn new(limits: Limits, cancelled: Arc<AtomicBool>) -> Self {
        Self { limits, work: limits.work, started_at: Instant::now(), cancelled }
    }

    /// Takes steps out of the budget, unless it is used up or the answer is no longer wanted.
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

    /// Pays for a call of the host that handles so many bytes.
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
