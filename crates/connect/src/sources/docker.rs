//! CPU and memory of a service's containers, as `docker stats` shows them: percent of one core, percent of the memory limit. Or in percent
//! of what the containers may use (`cpu/limit`, `memory/limit`) or have reserved (`memory/request`).
//!
//! The answer is the mean over the running containers that could be measured.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use api::plimsoll::auto_scale_policy::RelativeTo;
use api::plimsoll::container_stats::sample;
use decide::rules::container::{Sample, cores, percent};
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::{SignedDuration, Timestamp};
use process::Clock;
use serde_json::Value;

use super::container_usage::{Metric, UsageQuery, mean};
use super::{Answer, MetricSource, Query, QueryError};
use crate::docker_engine::DockerEngine;
use crate::registry::Context;

/// The most containers whose counters are read at the same time.
const CONCURRENTLY: usize = 16;
/// How far apart two readings are at least, and at most.
const SHORTEST: SignedDuration = SignedDuration::from_secs(1);
const LONGEST: SignedDuration = SignedDuration::from_mins(2);
/// How many containers are remembered.
const CONTAINERS: usize = 10_000;

struct DockerStats {
    engine: DockerEngine,
    clock: Clock,
    /// The last reading of each container by id.
    read: Mutex<HashMap<String, ContainerReading>>,
}

#[derive(Clone, Copy)]
struct ContainerReading {
    at: Timestamp,
    sample: Sample,
    /// The cores in use since the reading before.
    cores: Option<f64>,
}

pub(super) fn open(context: &Context, settings: &Value) -> Result<Box<dyn MetricSource>, String> {
    let engine = DockerEngine::open(context, settings)?;
    Ok(Box::new(DockerStats { engine, clock: context.clock.clone(), read: Mutex::default() }))
}

impl MetricSource for DockerStats {
    fn query<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Answer, QueryError>> {
        Box::pin(async move {
            let (usage, service) =
                UsageQuery::of_service(query, "docker", |target| target.docker.as_ref())?;
            let running = self.engine.containers(service, false).await?;
            let values: Vec<Option<f64>> = stream::iter(running)
                .map(|container| async move { self.measure(&container.id, usage).await })
                .buffer_unordered(CONCURRENTLY)
                .try_collect()
                .await?;
            let values: Vec<f64> = values.into_iter().flatten().collect();
            Ok(mean(query, &values))
        })
    }
}

impl DockerStats {
    /// Measures a container; `None` where it has ended or has nothing to compare with.
    async fn measure(&self, id: &str, usage: UsageQuery) -> Result<Option<f64>, QueryError> {
        let known = {
            let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
            read.get(id).copied().filter(|known| self.age(known) <= LONGEST)
        };
        let recent = known.filter(|known| self.age(known) < SHORTEST);
        let reading = match recent {
            Some(recent) => Some(recent),
            None => self.read(id, known).await?,
        };
        let Some(reading) = reading else { return Ok(None) };
        let memory = reading.sample.memory;
        let whole = match (usage.relative_to, usage.metric) {
            (None, Metric::Cpu) => 1.0,
            // All memory of the machine where the container has no limit.
            (None, Metric::Memory) => memory.limit as f64,
            (Some(relative_to), metric) => {
                let container = self.engine.get::<Value>(&["containers", id, "json"], &[]).await?;
                let Some(container) = container else { return Ok(None) };
                whole(&container, metric, relative_to)?
            }
        };
        Ok(match usage.metric {
            Metric::Cpu => reading.cores.and_then(|cores| percent(cores, whole)),
            Metric::Memory => percent(memory.used() as f64, whole),
        })
    }

    /// Reads the counters: once where they can be compared with an earlier reading, else twice, which takes the engine a second.
    async fn read(
        &self,
        id: &str,
        known: Option<ContainerReading>,
    ) -> Result<Option<ContainerReading>, QueryError> {
        let once = if known.is_some() { "true" } else { "false" };
        let parameters = [("stream", "false"), ("one-shot", once)];
        let stats = self.engine.get::<Value>(&["containers", id, "stats"], &parameters).await?;
        let Some(stats) = stats else { return Ok(None) };
        let Some((now, before)) = samples(&stats) else { return Ok(None) };
        let before = before.or(known.map(|known| known.sample));
        let cores = before.and_then(|before| cores(&before, &now));
        let reading = ContainerReading { at: self.clock.now(), sample: now, cores };
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.len() >= CONTAINERS && !read.contains_key(id) {
            read.clear();
        }
        read.insert(id.to_owned(), reading);
        Ok(Some(reading))
    }

    fn age(&self, reading: &ContainerReading) -> SignedDuration {
        self.clock.now().duration_since(reading.at)
    }
}

/// Returns what the use of a container is compared with, in cores or bytes: its limit or its reservation. Without a CPU limit it is one core.
fn whole(container: &Value, metric: Metric, relative_to: RelativeTo) -> Result<f64, QueryError> {
    let settings = &container["HostConfig"];
    // Zero is how the engine writes that a setting is not made.
    let number = |field: &str| settings[field].as_f64().filter(|number| *number > 0.0);
    let found = match (metric, relative_to) {
        (Metric::Cpu, RelativeTo::Limit) => {
            let of_quota = || Some(number("CpuQuota")? / number("CpuPeriod").unwrap_or(1e5));
            let limit = number("NanoCpus").map(|nanos| nanos / 1e9).or_else(of_quota);
            Ok(limit.unwrap_or(1.0))
        }
        (Metric::Cpu, RelativeTo::Request) => {
            Err("CPU request, since Docker knows none; compare with the limit")
        }
        (Metric::Memory, RelativeTo::Limit) => number("Memory").ok_or("memory limit"),
        (Metric::Memory, RelativeTo::Request) => {
            number("MemoryReservation").ok_or("memory reservation")
        }
    };
    let name = container["Name"].as_str().unwrap_or_default().trim_start_matches('/');
    found.map_err(|what| QueryError::Unsupported(format!("container {name} has no {what}")))
}

/// Returns the sample of a stats object and the one before it, if there is one; `None` for a container that has ended.
fn samples(stats: &Value) -> Option<(Sample, Option<Sample>)> {
    let has_ended = stats["read"].as_str().is_none_or(|read| read.starts_with("0001-"));
    let before = sample(&stats["precpu_stats"], &Value::Null);
    let before = Some(before).filter(|before| before.system.is_some_and(|system| system > 0));
    (!has_ended).then(|| (sample(&stats["cpu_stats"], &stats["memory_stats"]), before))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_without_a_cpu_limit_may_use_one_core_and_without_a_memory_limit_is_not_compared()
    {
        let compared = |settings: Value, metric, relative_to| {
            let container = json!({"Name": "/web", "HostConfig": settings});
            whole(&container, metric, relative_to).map_err(|err| err.to_string())
        };
        use Metric::{Cpu, Memory};
        use RelativeTo::{Limit, Request};
        for (settings, metric, relative_to, wanted) in [
            (json!({"NanoCpus": 500_000_000}), Cpu, Limit, Ok(0.5)),
            (json!({"NanoCpus": 0, "CpuQuota": 150_000}), Cpu, Limit, Ok(1.5)),
            (json!({"CpuQuota": 20_000, "CpuPeriod": 10_000}), Cpu, Limit, Ok(2.0)),
            (json!({"CpuQuota": -1}), Cpu, Limit, Ok(1.0)),
            (
                json!({"CpuShares": 512}),
                Cpu,
                Request,
                Err("CPU request, since Docker knows none; compare with the limit"),
            ),
            (json!({"Memory": 1024}), Memory, Limit, Ok(1024.0)),
            (json!({"Memory": 0}), Memory, Limit, Err("memory limit")),
            (json!({"MemoryReservation": 512}), Memory, Request, Ok(512.0)),
            (json!({"Memory": 1024}), Memory, Request, Err("memory reservation")),
        ] {
            let wanted = wanted.map_err(|what| format!("container web has no {what}"));
            assert_eq!(compared(settings.clone(), metric, relative_to), wanted, "{settings}");
        }
    }

    #[test]
    fn samples_are_those_that_docker_stats_compares() {
        let counters = |cpu: u64, system: u64| json!({"cpu_usage": {"total_usage": cpu}, "system_cpu_usage": system, "online_cpus": 2});
        let memory = json!({"usage": 600, "limit": 1000, "stats": {"inactive_file": 100}});
        let stats = json!({"read": "2026-01-01T00:00:00Z", "cpu_stats": counters(300, 2000),
                           "precpu_stats": counters(100, 1000), "memory_stats": memory});
        let (now, before) = samples(&stats).unwrap();
        assert_eq!(cores(&before.unwrap(), &now), Some(0.4));
        assert_eq!(now.memory.used(), 500);
        let first = json!({"read": "2026-01-01T00:00:00Z", "cpu_stats": counters(300, 2000),
                           "precpu_stats": {"cpu_usage": {"total_usage": 0}}});
        assert!(samples(&first).unwrap().1.is_none());
        assert!(samples(&json!({"read": "0001-01-01T00:00:00Z"})).is_none(), "it has ended");
    }
}
