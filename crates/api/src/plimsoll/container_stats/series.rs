//! Converts the statistics of a service's containers into percentages over time.

use std::collections::BTreeMap;

use decide::checks::Series;
use decide::rules::container::{Memory, Sample, cores, percent};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::super::auto_scale_policy::{RelativeTo, ServiceMetric};
use super::{ContainerStatsSpec, SampleSpec};
use crate::quantity::Quantity;

/// Returns a service's series, one point per second: the mean over the containers with a sample in that second. The
/// error says which container keeps it from being made.
pub fn of_service(
    containers: &[&ContainerStatsSpec],
    metric: ServiceMetric,
    relative_to: RelativeTo,
    now: Timestamp,
) -> Result<Series, String> {
    let mut seconds: BTreeMap<i64, BTreeMap<&str, f64>> = BTreeMap::new();
    let mut reporting = 0;
    for container in containers {
        let whole = whole(container, metric, relative_to)?;
        let points = points(container, metric, whole);
        let minute_ago = now.checked_sub(SignedDuration::from_secs(60)).unwrap_or(Timestamp::MIN);
        reporting += usize::from(points.iter().any(|(at, _)| *at > minute_ago && *at <= now));
        for (at, value) in points {
            // A second that came twice counts once.
            let second = at.as_nanosecond().div_euclid(1_000_000_000);
            let second = i64::try_from(second).unwrap_or(i64::MIN);
            seconds.entry(second).or_default().insert(&container.container, value);
        }
    }
    if reporting * 2 < containers.len() {
        return Err(format!("only {reporting} of {} containers reported", containers.len()));
    }
    let mean = |values: &BTreeMap<&str, f64>| values.values().sum::<f64>() / values.len() as f64;
    let points = seconds
        .iter()
        .filter_map(|(second, values)| Some((Timestamp::from_second(*second).ok()?, mean(values))));
    Ok(Series::new(points.collect(), Some(SignedDuration::from_secs(1))))
}

/// Returns what usage is compared with: cores or bytes; `None` where each sample says it itself.
fn whole(
    spec: &ContainerStatsSpec,
    metric: ServiceMetric,
    relative_to: RelativeTo,
) -> Result<Option<f64>, String> {
    let amount = |text: &str| Quantity::parse_with_hint(text).map(Quantity::as_f64);
    let name = &spec.container;
    let missing = |what: &str| format!("container `{name}` has no {what}");
    match (metric, relative_to) {
        (ServiceMetric::Cpu, RelativeTo::Request) => {
            let request = spec.cpu_request.as_ref().ok_or_else(|| missing("cpuRequest"))?;
            amount(&request.0).map(Some)
        }
        (ServiceMetric::Memory, RelativeTo::Request) => {
            let request = spec.memory_request.as_ref().ok_or_else(|| missing("memoryRequest"))?;
            amount(&request.0).map(Some)
        }
        // Without a limit, 100 percent is one core, as `docker stats` has it.
        (ServiceMetric::Cpu, RelativeTo::Limit) => match &spec.cpu_limit {
            Some(limit) if limit.0 != "none" => amount(&limit.0).map(Some),
            Some(_) | None => Ok(Some(1.0)),
        },
        (ServiceMetric::Memory, RelativeTo::Limit) => match &spec.memory_limit {
            Some(limit) if limit.0 == "none" => Err(missing("memory limit")),
            Some(limit) => amount(&limit.0).map(Some),
            None => Ok(None),
        },
    }
}

fn points(
    spec: &ContainerStatsSpec,
    metric: ServiceMetric,
    whole: Option<f64>,
) -> Vec<(Timestamp, f64)> {
    let mut samples: Vec<&SampleSpec> = spec.samples.iter().collect();
    samples.sort_by_key(|sample| sample.at.0);
    let mut points = Vec::new();
    let mut previous: Option<Sample> = None;
    for SampleSpec { at, stats } in samples {
        // A container that gave nothing in time is sent as zeros from the year 1.
        if stats["read"].as_str().is_some_and(|read| read.starts_with("0001-")) {
            continue;
        }
        let sample = sample(&stats["cpu_stats"], &stats["memory_stats"]);
        let value = match metric {
            ServiceMetric::Cpu => {
                let before = Some(self::sample(&stats["precpu_stats"], &Value::Null))
                    .filter(|before| before.system.is_some_and(|system| system > 0))
                    .or(previous);
                before.and_then(|before| percent(cores(&before, &sample)?, whole?))
            }
            ServiceMetric::Memory => {
                let limit = whole.unwrap_or(sample.memory.limit as f64);
                percent(sample.memory.used() as f64, limit)
            }
        };
        previous = Some(sample);
        points.extend(value.map(|value| (at.0, value)));
    }
    points
}

/// Reads Docker Engine's counters; what is not there is zero or absent.
pub fn sample(cpu: &Value, memory: &Value) -> Sample {
    let number = |value: &Value| {
        // Some engines write large counters as floating-point numbers.
        value.as_u64().or_else(|| value.as_f64().filter(|n| *n >= 0.0).map(|n| n as u64))
    };
    let listed = cpu["cpu_usage"]["percpu_usage"].as_array().map_or(0, |cpus| cpus.len() as u64);
    let online = number(&cpu["online_cpus"]).filter(|cpus| *cpus > 0);
    let stats = &memory["stats"];
    Sample {
        cpu: number(&cpu["cpu_usage"]["total_usage"]).unwrap_or(0),
        system: number(&cpu["system_cpu_usage"]),
        cpus: online.unwrap_or(listed),
        memory: Memory {
            usage: number(&memory["usage"]).unwrap_or(0),
            limit: number(&memory["limit"]).unwrap_or(0),
            inactive_file: number(&stats["inactive_file"]),
            total_inactive_file: number(&stats["total_inactive_file"]),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RelativeTo::{Limit, Request};
    use ServiceMetric::{Cpu, Memory};
    use serde_json::json;

    const SECOND: u64 = 1_000_000_000;

    /// A container that has used `cores` of four for `seconds` seconds, up to second 1000.
    fn container(name: &str, cores: f64, seconds: u64, more: Value) -> ContainerStatsSpec {
        let counted = |at: u64| {
            json!({"cpu_usage": {"total_usage": (at as f64 * cores * SECOND as f64) as u64},
                   "system_cpu_usage": at * 4 * SECOND, "online_cpus": 4})
        };
        let samples: Vec<Value> = (1001 - seconds..=1000)
            .map(|at| {
                let memory = json!({"usage": 600, "limit": 1000, "stats": {"inactive_file": 100}});
                json!({"at": Timestamp::from_second(at as i64).unwrap().to_string(), "stats": {
                    "cpu_stats": counted(at), "precpu_stats": counted(at - 1), "memory_stats": memory,
                }})
            })
            .collect();
        let mut spec = json!({"serviceId": "s", "container": name, "samples": samples});
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        serde_json::from_value(spec).unwrap()
    }

    fn newest(
        containers: &[&ContainerStatsSpec],
        metric: ServiceMetric,
        relative_to: RelativeTo,
    ) -> Result<f64, String> {
        let now = Timestamp::from_second(1000).unwrap();
        let series = of_service(containers, metric, relative_to, now)?;
        Ok(series.between(now, now).first().copied().unwrap_or(f64::NAN).round())
    }

    #[test]
    fn usage_is_a_share_of_the_limit_or_of_the_request() {
        for (metric, relative_to, more, wanted) in [
            (Cpu, Limit, json!({}), Ok(50.0)),
            (Cpu, Limit, json!({"cpuLimit": "none"}), Ok(50.0)),
            (Cpu, Limit, json!({"cpuLimit": "2"}), Ok(25.0)),
            (Cpu, Request, json!({"cpuRequest": "250m"}), Ok(200.0)),
            (Cpu, Request, json!({}), Err("container `c` has no cpuRequest")),
            (Memory, Limit, json!({}), Ok(50.0)),
            (Memory, Limit, json!({"memoryLimit": "2k"}), Ok(25.0)),
            (
                Memory,
                Limit,
                json!({"memoryLimit": "none"}),
                Err("container `c` has no memory limit"),
            ),
            (Memory, Request, json!({"memoryRequest": "500"}), Ok(100.0)),
            (Memory, Request, json!({}), Err("container `c` has no memoryRequest")),
        ] {
            let one = container("c", 0.5, 60, more.clone());
            let found = newest(&[&one], metric, relative_to);
            assert_eq!(found, wanted.map_err(str::to_owned), "{metric:?} {relative_to:?} {more}");
        }
    }

    #[test]
    fn a_point_is_the_mean_of_the_containers_observed_in_its_second() {
        let (a, b) = (container("a", 0.4, 60, json!({})), container("b", 0.8, 60, json!({})));
        assert_eq!(newest(&[&a, &b], Cpu, Limit), Ok(60.0));
        let silent = container("c", 0.8, 0, json!({}));
        assert_eq!(newest(&[&a, &silent], Cpu, Limit), Ok(40.0));
        let too_few = newest(&[&a, &silent, &silent], Cpu, Limit).unwrap_err();
        assert_eq!(too_few, "only 1 of 3 containers reported");
    }

    #[test]
    fn a_sample_without_a_previous_one_is_dropped_and_becomes_one() {
        let mut one = container("c", 0.5, 3, json!({}));
        for sample in &mut one.samples {
            sample.stats["precpu_stats"] = json!({"cpu_usage": {"total_usage": 0}});
        }
        let now = Timestamp::from_second(1000).unwrap();
        let series = of_service(&[&one], Cpu, Limit, now).unwrap();
        assert_eq!(series.between(Timestamp::UNIX_EPOCH, now), [50.0, 50.0]);
    }

    #[test]
    fn zeros_from_the_year_one_are_no_sample() {
        let mut one = container("c", 0.5, 2, json!({}));
        one.samples[1].stats = json!({"read": "0001-01-01T00:00:00Z"});
        assert!(newest(&[&one], Memory, Limit).unwrap().is_nan());
    }
}
