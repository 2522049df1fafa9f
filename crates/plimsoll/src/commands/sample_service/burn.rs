//! Uses a given amount of CPU time.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The rounds of work between two readings of the clock: some microseconds.
const ROUNDS: u32 = 4096;

/// Works until this thread has used the given CPU time, however long that takes on a busy machine. Returns the time used.
pub(super) fn burn(cpu: Duration) -> Duration {
    let start = thread_time();
    let mut value = 0x9e37_79b9_7f4a_7c15_u64;
    loop {
        let used = thread_time().saturating_sub(start);
        if used >= cpu {
            return used;
        }
        for _ in 0..ROUNDS {
            // A xorshift generator: cheap steps that depend on each other.
            value ^= value << 13;
            value ^= value >> 7;
            value ^= value << 17;
        }
        value = black_box(value);
    }
}

/// Returns the CPU time that this thread has used.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_time_is_used() {
        let before = thread_time();
        let used = burn(Duration::from_millis(5));
        assert!(used >= Duration::from_millis(5));
        assert!(thread_time() - before >= used);
        burn(Duration::ZERO);
    }
}
