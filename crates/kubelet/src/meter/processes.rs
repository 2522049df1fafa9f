//! The CPU time and memory of processes and of this machine, from `/proc`.

use std::collections::BTreeMap;
use std::fs;

use rustix::param::{clock_ticks_per_second, page_size};

use super::Total;

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    parent: i32,
    group: i32,
    /// CPU time in ticks: its own, and that of its children that have ended.
    ticks: u64,
    pages: u64,
}

/// All processes at one time.
#[derive(Default)]
pub(super) struct Processes {
    by_id: BTreeMap<i32, Process>,
    children: BTreeMap<i32, Vec<i32>>,
    /// The whole machine.
    pub(super) machine: Total,
}

impl Processes {
    /// Reads all processes that are visible.
    pub(super) fn read() -> Self {
        let mut all = Self::default();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let id = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
            let Some(id) = id else { continue };
            // It may have ended in the meantime.
            let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
            let Some(process) = parse(&stat) else { continue };
            all.children.entry(process.parent).or_default().push(id);
            all.by_id.insert(id, process);
        }
        let cpu_nanos = fs::read_to_string("/proc/stat").ok().and_then(|text| busy_ticks(&text));
        let memory = fs::read_to_string("/proc/meminfo").ok().and_then(|text| used_memory(&text));
        all.machine = Total {
            cpu_nanos: nanos(cpu_nanos.unwrap_or_default()),
            memory_bytes: memory.unwrap_or_default(),
        };
        all
    }

    /// Returns the total of a process group and all descendants of its processes.
    pub(super) fn total(&self, group: i32) -> Total {
        let in_group = self.by_id.iter().filter(|(_, process)| process.group == group);
        let mut found: BTreeMap<i32, Process> =
            in_group.map(|(id, process)| (*id, *process)).collect();
        let mut next: Vec<i32> = found.keys().copied().collect();
        while let Some(parent) = next.pop() {
            for child in self.children.get(&parent).into_iter().flatten() {
                if let Some(process) = self.by_id.get(child)
                    && found.insert(*child, *process).is_none()
                {
                    next.push(*child);
                }
            }
        }
        let ticks = found.values().map(|process| process.ticks).sum();
        let pages: u64 = found.values().map(|process| process.pages).sum();
        Total { cpu_nanos: nanos(ticks), memory_bytes: pages * page_size() as u64 }
    }
}

fn nanos(ticks: u64) -> u64 {
    ticks.saturating_mul(1_000_000_000 / clock_ticks_per_second().max(1))
}

/// Reads `/proc/PID/stat`.
fn parse(stat: &str) -> Option<Process> {
    // The name of the program is in parentheses, and may contain any character.
    let (_, after) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Process {
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        ticks: number(11)? + number(12)? + number(13)? + number(14)?,
        pages: number(21)?,
    })
}

/// Returns the ticks in which a processor worked, from `/proc/stat`.
fn busy_ticks(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    // Idle and waiting time is not usage; guests are counted as user time already.
    let all: u64 = ticks.iter().take(8).sum();
    Some(all - ticks.get(3).unwrap_or(&0) - ticks.get(4).unwrap_or(&0))
}

/// Returns the bytes in use that cannot be had by dropping caches, from `/proc/meminfo`.
fn used_memory(text: &str) -> Option<u64> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    Some(field("MemTotal:")?.saturating_sub(field("MemAvailable:")?) * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        let stat = "7 (a) b (c) S 1 5 5 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 100 4096 9 18446744073709551615";
        let process = Process { parent: 1, group: 5, ticks: 100, pages: 9 };
        assert_eq!(parse(stat), Some(process));
        assert_eq!(parse("7 (a"), None);
    }

    #[test]
    fn descendants_count_although_they_left_the_group() {
        let process = |parent, group| Process { parent, group, ticks: 1, pages: 1 };
        let mut all = Processes::default();
        for (id, parent, group) in [(2, 1, 2), (3, 2, 2), (4, 3, 4), (5, 1, 5), (6, 1, 2)] {
            all.by_id.insert(id, process(parent, group));
            all.children.entry(parent).or_default().push(id);
        }
        assert_eq!(all.total(2).cpu_nanos, nanos(4));
        assert_eq!(all.total(9).cpu_nanos, 0);
    }

    #[test]
    fn the_machine_is_busy_when_it_is_neither_idle_nor_waiting() {
        assert_eq!(busy_ticks("cpu  1 2 3 100 50 4 5 6 7 8\ncpu0 1"), Some(21));
        let memory = "MemTotal:  100 kB\nMemFree: 1 kB\nMemAvailable:   40 kB\n";
        assert_eq!(used_memory(memory), Some(60 * 1024));
    }
}
