//! CPU and memory usage of a container, from the counters of a container engine.
//!
//! The formulas are those of `docker stats`, so that the numbers are the same.

/// One reading of a container's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// CPU time of the container, in nanoseconds.
    pub cpu: u64,
    /// CPU time of the whole machine, in nanoseconds; `None` where the engine does not report it.
    pub system: Option<u64>,
    /// The number of CPUs.
    pub cpus: u64,
    /// Memory in use.
    pub memory: Memory,
}

/// Memory of a container, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// All memory in use, including the page cache.
    pub usage: u64,
    /// The limit; for an unlimited container, all memory of the machine.
    pub limit: u64,
    /// `inactive_file`: reclaimable cache.
    pub inactive_file: Option<u64>,
    /// `total_inactive_file`: the same including children; only in cgroup v1.
    pub total_inactive_file: Option<u64>,
}

impl Memory {
    /// Returns the memory in use without reclaimable cache.
    pub fn used(&self) -> u64 {
        let caches = [self.total_inactive_file, self.inactive_file];
        let cache = caches.into_iter().flatten().find(|cache| *cache < self.usage);
        self.usage - cache.unwrap_or(0)
    }
}

/// Returns how many cores a container used between two samples; `None` where a counter was
/// reset.
pub fn cores(previous: &Sample, sample: &Sample) -> Option<f64> {
    let used = sample.cpu.checked_sub(previous.cpu)?;
    let system = sample.system?.checked_sub(previous.system?).filter(|delta| *delta > 0)?;
    (sample.cpus > 0).then(|| used as f64 / system as f64 * sample.cpus as f64)
}

/// Returns a percentage; `None` of zero.
pub fn percent(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(cpu: u64, system: Option<u64>, cpus: u64) -> Sample {
        Sample { cpu, system, cpus, memory: Memory::default() }
    }

    #[test]
    fn cores_are_the_fraction_of_the_machine_times_its_cpus() {
        const S: u64 = 1_000_000_000;
        let before = sample(10 * S, Some(100 * S), 4);
        for (after, wanted) in [
            (sample(10 * S + S / 4, Some(104 * S), 4), Some(0.25)),
            (sample(12 * S, Some(104 * S), 4), Some(2.0)),
            (sample(10 * S, Some(104 * S), 4), Some(0.0)),
            (sample(9 * S, Some(104 * S), 4), None), // restarted
            (sample(11 * S, Some(100 * S), 4), None),
            (sample(11 * S, None, 4), None),
            (sample(11 * S, Some(104 * S), 0), None),
        ] {
            assert_eq!(cores(&before, &after), wanted, "{after:?}");
        }
        assert_eq!(cores(&sample(0, None, 0), &before), None, "no previous sample");
    }

    #[test]
    fn reclaimable_cache_is_not_counted() {
        for (usage, total_inactive_file, inactive_file, used) in [
            (100, None, Some(25), 75),     // cgroup v2
            (100, Some(40), Some(25), 60), // cgroup v1
            (100, Some(100), Some(25), 75),
            (100, Some(140), Some(120), 100),
            (100, None, None, 100),
        ] {
            let memory = Memory { usage, limit: 0, inactive_file, total_inactive_file };
            assert_eq!(memory.used(), used, "{memory:?}");
        }
    }

    #[test]
    fn a_percentage_of_zero_is_unknown() {
        assert_eq!((percent(1.0, 4.0), percent(1.0, 0.0)), (Some(25.0), None));
    }
}
