//! CPU and memory of a service's containers, as `docker stats` shows them: percent of one core, percent of the memory limit.
//!
//! The answer is the mean over the running containers that could be measured.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use api::plimsoll::container_stats::sample;
use decide::rules::container::{Sample, cores, percent};
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::{SignedDuration, Timestamp};
use process::Clock;
use serde_json::Value;

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
    /// Percent of one core since the reading before.
    cpu: Option<f64>,
}

pub(super) fn open(context: &Context, settings: &Value) -> Result<Box<dyn MetricSource>, String> {
    let engine = DockerEngine::open(context, settings)?;
    Ok(Box::new(DockerStats { engine, clock: context.clock.clone(), read: Mutex::default() }))
}

#[derive(Clone, Copy)]
enum Metric {
    Cpu,
    Memory,
}

impl MetricSource for DockerStats {
    fn query<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Answer, QueryError>> {
        Box::pin(async move {
            query.expect_present("docker")?;
            let metric = match query.text.as_str() {
                "cpu" => Metric::Cpu,
                "memory" => Metric::Memory,
                other => {
                    let problem = format!(
                        "`{other}` is not a query of the source docker; write `cpu` or `memory`"
                    );
                    return Err(QueryError::Unsupported(problem));
                }
            };
            let service = query.target.as_ref().and_then(|target| target.spec.docker.as_ref());
            let service = service.ok_or_else(|| {
                QueryError::Unsupported(
                    "the source docker measures a target of the type docker".into(),
                )
            })?;
            let running = self.engine.containers(service, false).await?;
            let values: Vec<Option<f64>> = stream::iter(running)
                .map(|container| async move { self.measure(&container.id, metric).await })
                .buffer_unordered(CONCURRENTLY)
                .try_collect()
                .await?;
            let values: Vec<f64> = values.into_iter().flatten().collect();
            Ok(match values.len() {
                0 => Answer::NoData,
                count => Answer::now(query, values.iter().sum::<f64>() / count as f64),
            })
        })
    }
}

impl DockerStats {
    /// Measures a container; `None` where it has ended or has nothing to compare with.
    async fn measure(&self, id: &str, metric: Metric) -> Result<Option<f64>, QueryError> {
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
        Ok(match metric {
            Metric::Cpu => reading.cpu,
            Metric::Memory => percent(memory.used() as f64, memory.limit as f64),
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
        let cpu = before.and_then(|before| percent(cores(&before, &now)?, 1.0));
        let reading = ContainerReading { at: self.clock.now(), sample: now, cpu };
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
