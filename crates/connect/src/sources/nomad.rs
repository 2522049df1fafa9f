//! Nomad: the use of a task group's allocations, with the queries of Nomad Autoscaler's `nomad-apm`.
//!
//! `avg_cpu` and its kind are about the group of the policy's target; `taskgroup_avg_cpu/GROUP/JOB@NAMESPACE` names another.

use futures::future::{BoxFuture, try_join_all};
use serde::Deserialize;
use serde_json::Value;

use super::{Answer, MetricSource, Query, QueryError};
use crate::nomad::NomadApi;
use crate::registry::Context;

struct Nomad {
    api: NomadApi,
}

pub(super) fn open(context: &Context, settings: &Value) -> Result<Box<dyn MetricSource>, String> {
    Ok(Box::new(Nomad { api: NomadApi::open(context, settings)? }))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Sum,
    Average,
    Maximum,
    Minimum,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metric {
    /// Percent, as the client reports it.
    Cpu,
    /// Percent of the MHz that the tasks request.
    CpuAllocated,
    /// Bytes.
    Memory,
    /// Percent of the MiB that the tasks request.
    MemoryAllocated,
}

/// A query, parsed.
#[derive(Debug, PartialEq, Eq)]
struct Parsed<'a> {
    operation: Operation,
    metric: Metric,
    /// Group, job and namespace, in the long form.
    group: Option<(&'a str, &'a str, &'a str)>,
}

fn parse(text: &str) -> Option<Parsed<'_>> {
    let (short, group) = match text.strip_prefix("taskgroup_") {
        None => (text, None),
        Some(rest) => {
            let (short, rest) = rest.split_once('/')?;
            let (group, rest) = rest.split_once('/')?;
            let (job, namespace) = rest.rsplit_once('@')?;
            (short, Some((group, job, namespace)))
        }
    };
    let (operation, metric) = short.split_once('_')?;
    let operation = match operation {
        "sum" => Operation::Sum,
        "avg" => Operation::Average,
        "max" => Operation::Maximum,
        "min" => Operation::Minimum,
        _ => return None,
    };
    let metric = match metric {
        "cpu" => Metric::Cpu,
        "cpu-allocated" => Metric::CpuAllocated,
        "memory" => Metric::Memory,
        "memory-allocated" => Metric::MemoryAllocated,
        _ => return None,
    };
    Some(Parsed { operation, metric, group })
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Allocation {
    #[serde(rename = "ID")]
    id: String,
    task_group: String,
    client_status: String,
}

/// The answer of `/v1/client/allocation/{id}/stats`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Stats {
    resource_usage: ResourceUsage,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ResourceUsage {
    cpu_stats: CpuStats,
    memory_stats: MemoryStats,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct CpuStats {
    percent: f64,
    total_ticks: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct MemoryStats {
    usage: u64,
    #[serde(rename = "RSS")]
    rss: u64,
}

impl MetricSource for Nomad {
    fn query<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Answer, QueryError>> {
        Box::pin(async move {
            query.expect_present("nomad")?;
            let unknown = || {
                QueryError::Unsupported(format!(
                    "`{}` is not a query of the source nomad; write `avg_cpu` or `taskgroup_avg_cpu/GROUP/JOB@NAMESPACE`, \
                     with sum, avg, max or min of cpu, cpu-allocated, memory or memory-allocated",
                    query.text
                ))
            };
            let parsed = parse(&query.text).ok_or_else(unknown)?;
            let own = query.target.as_ref().and_then(|target| target.spec.nomad.as_ref());
            let own = own.map(|own| {
                (own.group.as_str(), own.job.as_str(), own.namespace.as_deref().unwrap_or_default())
            });
            let (group, job, namespace) = parsed.group.or(own).ok_or_else(|| {
                QueryError::Unsupported(format!(
                    "`{}` needs a target of the type nomad",
                    query.text
                ))
            })?;
            let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
            let found = self.values(group, job, namespace, parsed.metric).await?;
            Ok(reduce(&found, parsed.operation)
                .map_or(Answer::NoData, |value| Answer::now(query, value)))
        })
    }
}

impl Nomad {
    /// Measures every running allocation of a group.
    async fn values(
        &self,
        group: &str,
        job: &str,
        namespace: Option<&str>,
        metric: Metric,
    ) -> Result<Vec<f64>, QueryError> {
        let missing = || QueryError::Refused {
            url: "nomad".to_owned(),
            message: format!("job {job} does not exist"),
        };
        let path = ["v1", "job", job, "allocations"];
        let allocations = self.api.get::<Vec<Allocation>>(&path, namespace).await?;
        let allocations = allocations.ok_or_else(missing)?;
        let running = allocations
            .iter()
            .filter(|found| found.task_group == group && found.client_status == "running");
        let whole = match metric {
            Metric::CpuAllocated | Metric::MemoryAllocated => {
                let job = self.api.get::<Value>(&["v1", "job", job], namespace).await?;
                let asked = asked_for(&job.ok_or_else(missing)?, group, metric);
                asked.ok_or_else(|| QueryError::Refused {
                    url: "nomad".to_owned(),
                    message: format!("the tasks of group {group} ask for nothing to compare with"),
                })?
            }
            Metric::Cpu | Metric::Memory => 1.0,
        };
        // An allocation that cannot be measured fails the query: what it uses is not known.
        let measured = running.map(|allocation| async move {
            let path = ["v1", "client", "allocation", &allocation.id, "stats"];
            let stats = self.api.get::<Stats>(&path, namespace).await?;
            Ok::<_, QueryError>(stats.map(|stats| value(&stats.resource_usage, metric, whole)))
        });
        Ok(try_join_all(measured).await?.into_iter().flatten().collect())
    }
}

/// Returns the request of a group's tasks, in MHz or MiB.
fn asked_for(job: &Value, group: &str, metric: Metric) -> Option<f64> {
    let field = if metric == Metric::CpuAllocated { "CPU" } else { "MemoryMB" };
    let groups = job["TaskGroups"].as_array()?;
    let group = groups.iter().find(|found| found["Name"] == group)?;
    let tasks = group["Tasks"].as_array()?.iter();
    let sum: f64 = tasks.filter_map(|task| task["Resources"][field].as_f64()).sum();
    (sum > 0.0).then_some(sum)
}

fn value(usage: &ResourceUsage, metric: Metric, whole: f64) -> f64 {
    // Some drivers report no usage, only the resident set.
    let memory = if usage.memory_stats.usage > 0 {
        usage.memory_stats.usage
    } else {
        usage.memory_stats.rss
    };
    match metric {
        Metric::Cpu => usage.cpu_stats.percent,
        Metric::CpuAllocated => usage.cpu_stats.total_ticks / whole * 100.0,
        Metric::Memory => memory as f64,
        // Whole MiB, as Nomad Autoscaler counts them.
        Metric::MemoryAllocated => (memory >> 20) as f64 / whole * 100.0,
    }
}

fn reduce(values: &[f64], operation: Operation) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    match operation {
        _ if values.is_empty() => None,
        Operation::Sum => Some(sum),
        Operation::Average => Some(sum / values.len() as f64),
        Operation::Maximum => values.iter().copied().reduce(f64::max),
        Operation::Minimum => values.iter().copied().reduce(f64::min),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn queries_have_a_short_and_a_long_form() {
        let short = parse("avg_cpu-allocated").unwrap();
        assert_eq!(
            (short.operation, short.metric, short.group),
            (Operation::Average, Metric::CpuAllocated, None)
        );
        let long = parse("taskgroup_max_memory/api/web/v2@a@team").unwrap();
        assert_eq!((long.operation, long.metric), (Operation::Maximum, Metric::Memory));
        assert_eq!(long.group, Some(("api", "web/v2@a", "team")));
        for bad in ["", "cpu", "avg_disk", "mean_cpu", "taskgroup_avg_cpu", "taskgroup_avg_cpu/g/j"]
        {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn use_is_absolute_or_relative_to_what_the_tasks_ask_for() {
        let job = json!({"TaskGroups": [{"Name": "api", "Tasks": [
            {"Resources": {"CPU": 500, "MemoryMB": 256}}, {"Resources": {"CPU": 100, "MemoryMB": 64}},
        ]}]});
        assert_eq!(asked_for(&job, "api", Metric::CpuAllocated), Some(600.0));
        assert_eq!(asked_for(&job, "api", Metric::MemoryAllocated), Some(320.0));
        assert_eq!(asked_for(&job, "web", Metric::CpuAllocated), None);
        let usage = ResourceUsage {
            cpu_stats: CpuStats { percent: 12.5, total_ticks: 300.0 },
            memory_stats: MemoryStats { usage: 0, rss: 160 << 20 },
        };
        assert_eq!(value(&usage, Metric::Cpu, 1.0), 12.5);
        assert_eq!(value(&usage, Metric::CpuAllocated, 600.0), 50.0);
        assert_eq!(value(&usage, Metric::MemoryAllocated, 320.0), 50.0);
        let values = [1.0, 3.0, 0.0];
        assert_eq!(reduce(&values, Operation::Maximum), Some(3.0));
        assert_eq!(reduce(&values, Operation::Minimum), Some(0.0));
        assert_eq!(reduce(&values[2..], Operation::Maximum), Some(0.0));
        assert_eq!(reduce(&[], Operation::Sum), None);
    }
}
