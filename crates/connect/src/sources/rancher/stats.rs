//! The messages of the websocket `containerStats`.

use std::collections::{BTreeMap, BTreeSet};

use decide::rules::container::percent;
use jiff::Timestamp;
use serde::Deserialize;

/// The most containers that are remembered.
const CONTAINERS: usize = 10_000;

/// The first and the last report of each container.
pub(super) struct Readings {
    /// The containers that are expected to report.
    expected: BTreeSet<String>,
    by_id: BTreeMap<String, (Report, Option<Report>)>,
}

/// A report of a container.
#[derive(Clone, Copy)]
struct Report {
    at: Timestamp,
    /// CPU time since the container's start, in nanoseconds.
    cpu: Option<u64>,
    memory: Option<u64>,
}

/// An element of a message.
#[derive(Deserialize)]
struct Element {
    id: String,
    #[serde(default)]
    timestamp: String,
    #[serde(default)]
    cpu: Cpu,
    #[serde(default)]
    memory: Memory,
}

#[derive(Default, Deserialize)]
struct Cpu {
    #[serde(default)]
    usage: CpuUsage,
}

#[derive(Default, Deserialize)]
struct CpuUsage {
    total: Option<u64>,
}

#[derive(Default, Deserialize)]
struct Memory {
    usage: Option<u64>,
}

impl Element {
    /// Returns the report, unless it is one of zeros: a container that did not report within a second.
    fn report(&self) -> Option<Report> {
        let at: Timestamp = self.timestamp.parse().ok()?;
        let report = Report { at, cpu: self.cpu.usage.total, memory: self.memory.usage };
        (at > Timestamp::UNIX_EPOCH).then_some(report)
    }
}

impl Readings {
    pub(super) fn new(expected: BTreeSet<String>) -> Self {
        Self { expected, by_id: BTreeMap::new() }
    }

    /// Adds a message: a list of elements. Anything else is ignored.
    pub(super) fn add(&mut self, message: &[u8]) {
        let elements: Vec<Element> = serde_json::from_slice(message).unwrap_or_default();
        for element in elements {
            let Some(report) = element.report() else { continue };
            let has_room = self.by_id.len() < CONTAINERS;
            match self.by_id.get_mut(&element.id) {
                // A counter that decreased belongs to a container that has been restarted.
                Some((first, last)) if report.cpu < first.cpu => (*first, *last) = (report, None),
                Some((first, last)) if report.at > first.at => *last = Some(report),
                Some(_) => {}
                None if has_room => {
                    self.by_id.insert(element.id, (report, None));
                }
                None => {}
            }
        }
    }

    /// Returns whether every expected container has this many reports.
    pub(super) fn has(&self, reports: usize) -> bool {
        let count = |(_, last): &(Report, Option<Report>)| 1 + usize::from(last.is_some());
        self.by_id.len() >= self.expected.len().max(1)
            && self.by_id.values().all(|readings| count(readings) >= reports)
    }

    /// Returns the cores that each container uses which has reported twice, by its id in Rancher.
    pub(super) fn cpu(&self, of_service: &[String]) -> Vec<(String, f64)> {
        self.by_instance(of_service, |first, last| {
            let last = last?;
            let used = last.cpu?.checked_sub(first.cpu?)?;
            let percent = percent(used as f64, last.at.duration_since(first.at).as_nanos() as f64);
            percent.map(|percent| percent / 100.0)
        })
    }

    /// Returns the memory of each container in bytes, by its id in Rancher.
    pub(super) fn memory(&self, of_service: &[String]) -> Vec<(String, f64)> {
        self.by_instance(of_service, |first, last| Some(last.unwrap_or(first).memory? as f64))
    }

    /// Computes a number for each container, by its id in Rancher. The only container of a service reports with the id that it has in Docker.
    fn by_instance(
        &self,
        of_service: &[String],
        number: impl Fn(Report, Option<Report>) -> Option<f64>,
    ) -> Vec<(String, f64)> {
        let only = Some(of_service).filter(|ids| ids.len() == 1).and_then(|ids| ids.first());
        let found = self.by_id.iter().filter_map(|(id, (first, last))| {
            Some((only.unwrap_or(id).clone(), number(*first, *last)?))
        });
        found.collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn element(id: &str, second: u32, cpu: u64) -> Value {
        json!([{"id": id, "resourceType": "container", "memLimit": 8_000_000_000_u64,
                "timestamp": format!("2026-01-01T00:00:{second:02}Z"),
                "cpu": {"usage": {"total": cpu, "user": 1, "system": 1}}, "memory": {"usage": 100}}])
    }

    fn readings(expected: &[&str], messages: &[Value]) -> Readings {
        let mut readings = Readings::new(expected.iter().map(|id| (*id).to_owned()).collect());
        messages.iter().for_each(|message| readings.add(message.to_string().as_bytes()));
        readings
    }

    #[test]
    fn usage_is_the_share_of_the_time_between_two_reports() {
        const S: u64 = 1_000_000_000;
        let both = [element("a", 1, 5 * S), element("b", 1, 0), element("a", 3, 6 * S)];
        let found = readings(&["a", "b"], &both);
        let cpu = |found: &Readings| {
            found.cpu(&[]).into_iter().map(|(_, cores)| cores).collect::<Vec<_>>()
        };
        assert_eq!(cpu(&found), [0.5]);
        assert!(found.has(1) && !found.has(2));
        let found = readings(&["a", "b"], &[both.as_slice(), &[element("b", 2, S)]].concat());
        assert_eq!(cpu(&found), [0.5, 1.0]);
        assert!(found.has(2));
    }

    #[test]
    fn zeros_restarts_and_repetitions_do_not_count() {
        let zeros = json!([{"id": "a", "timestamp": "0001-01-01T00:00:00Z"}]);
        let restarted = [element("a", 1, 900), element("a", 2, 0), element("a", 2, 0)];
        for messages in [vec![zeros], vec![json!({"not": "a list"})], restarted.to_vec()] {
            assert_eq!(readings(&["a"], &messages).cpu(&[]), [], "{messages:?}");
        }
        assert!(!readings(&[], &[]).has(1), "at least one container is awaited");
    }

    #[test]
    fn the_only_container_has_its_id_from_the_service() {
        let found = readings(&["1i7"], &[element("0123abcd", 1, 0)]);
        assert_eq!(found.memory(&["1i7".to_owned()]), [("1i7".to_owned(), 100.0)]);
    }
}
