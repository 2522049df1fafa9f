//! Gauges that are read from the caches at each scrape: fleets, their counters and lists, and autoscalers.

use std::fmt::Error;
use std::sync::Arc;

use api::agones::{AggregateCount, Fleet};
use api::autoscaling::FleetAutoscaler;
use cluster::{Caches, DecisionCounts};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::servers::{ServerMetrics, per_node};

pub(super) type Labels = Vec<(&'static str, String)>;
pub(super) type Series = Vec<(Labels, i64)>;

/// Collects gauges from the caches.
pub(super) struct Gauges {
    pub(super) caches: Arc<Caches>,
    pub(super) servers: Arc<ServerMetrics>,
}

impl std::fmt::Debug for Gauges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gauges")
    }
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        self.all().into_iter().try_for_each(|gauge| write(&mut encoder, gauge))
    }
}

/// Reports the reason of each autoscaler's last decision; Agones has no such metric.
pub(super) struct DecisionReasons(pub(super) Arc<Caches>);

impl std::fmt::Debug for DecisionReasons {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DecisionReasons")
    }
}

impl Collector for DecisionReasons {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let series = self.0.autoscalers.all().iter().flat_map(|a| reasons(a)).collect();
        let help = "1 for the reason of the last decision";
        write(&mut encoder, ("fleet_autoscalers_reason", help, series))
    }
}

/// Counts the objects that the caches skip because they cannot be decoded.
pub(super) struct UnreadableObjects(pub(super) Arc<Caches>);

impl std::fmt::Debug for UnreadableObjects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UnreadableObjects")
    }
}

impl Collector for UnreadableObjects {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let count = |(kind, count): (&str, _)| {
            (vec![("kind", kind.to_owned())], i64::try_from(count).unwrap_or(i64::MAX))
        };
        let series = self.0.unreadable().into_iter().map(count).collect();
        let help = "Objects that are skipped because they cannot be decoded";
        write(&mut encoder, ("unreadable_objects", help, series))
    }
}

/// Counts the decisions that were recorded and dropped.
#[derive(Debug)]
pub(super) struct RecordedDecisions(pub(super) DecisionCounts);

impl Collector for RecordedDecisions {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        for (name, help, count) in [
            ("decisions_recorded", "Decisions written to the journal", self.0.recorded()),
            ("decisions_dropped", "Decisions missing from the journal", self.0.dropped()),
        ] {
            let counter = ConstCounter::new(count);
            let encoder = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            counter.encode(encoder)?;
        }
        Ok(())
    }
}

pub(super) fn write(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, series): (&str, &str, Series),
) -> Result<(), Error> {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in series {
        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

impl Gauges {
    fn all(&self) -> Vec<(&'static str, &'static str, Series)> {
        let mut fleets = self.caches.fleets.all();
        fleets.sort_by_key(|fleet| object_labels(&fleet.metadata));
        let mut autoscalers = self.caches.autoscalers.all();
        autoscalers.sort_by_key(|autoscaler| object_labels(&autoscaler.metadata));
        let mut all = vec![
            ("gameservers_count", "Game servers by state", self.servers()),
            ("nodes_count", "Nodes with and without game servers", self.nodes()),
        ];
        let fleet_gauges: [FleetGauge; 8] = [
            ("fleets_replicas_count", "Game servers of fleets", replicas),
            ("fleet_rollout_percent", "Current and desired replicas of fleets", rollout),
            ("fleet_counters", "Counters, summed over fleets", |f| sums(f, Source::Counter)),
            ("fleet_lists", "Lists, summed over fleets", |f| sums(f, Source::List)),
            ("gameservers_counter_total", "Counters: their counts, summed", |f| {
                legacy_sums(f, Source::Counter, |sum| sum.count)
            }),
            ("gameservers_counter_capacity_total", "Counters: their capacities, summed", |f| {
                legacy_sums(f, Source::Counter, |sum| sum.capacity)
            }),
            ("gameservers_list_length_total", "Lists: their lengths, summed", |f| {
                legacy_sums(f, Source::List, |sum| sum.count)
            }),
            ("gameservers_list_capacity_total", "Lists: their capacities, summed", |f| {
                legacy_sums(f, Source::List, |sum| sum.capacity)
            }),
        ];
        for (name, help, read) in fleet_gauges {
            all.push((name, help, fleets.iter().flat_map(|fleet| read(fleet)).collect()));
        }
        for (name, help, read) in AUTOSCALER_GAUGES {
            all.push((name, help, autoscalers.iter().flat_map(|a| read(a)).collect()));
        }
        all
    }

    fn servers(&self) -> Series {
        let series = |((state, fleet, namespace), count): (super::servers::CountKey, i64)| {
            (vec![("type", state), ("fleet_name", fleet), ("namespace", namespace)], count)
        };
        self.servers.counts().into_iter().map(series).collect()
    }

    fn nodes(&self) -> Series {
        let nodes = per_node(&self.caches);
        let count = |is_empty: bool| {
            let count = nodes.values().filter(|count| (**count == 0) == is_empty).count();
            (vec![("empty", is_empty.to_string())], i64::try_from(count).unwrap_or(i64::MAX))
        };
        vec![count(false), count(true)]
    }
}

/// A gauge of fleets: its name, its help text, and how it is read.
type FleetGauge = (&'static str, &'static str, fn(&Fleet) -> Series);

/// A gauge of autoscalers: its name, its help text, and how it is read.
type AutoscalerGauge = (&'static str, &'static str, fn(&FleetAutoscaler) -> Series);

const AUTOSCALER_GAUGES: [AutoscalerGauge; 6] = [
    ("fleet_autoscalers_current_replicas_count", "Current replicas", |a| {
        status_gauge(a, |status| status.current_replicas.into())
    }),
    ("fleet_autoscalers_desired_replicas_count", "Desired replicas", |a| {
        status_gauge(a, |status| status.desired_replicas.into())
    }),
    ("fleet_autoscalers_able_to_scale", "Whether the policy can scale the fleet", |a| {
        status_gauge(a, |status| status.able_to_scale.into())
    }),
    ("fleet_autoscalers_limited", "Whether scaling is limited", |a| {
        status_gauge(a, |status| status.scaling_limited.into())
    }),
    ("fleet_autoscalers_buffer_limits", "The limits of Buffer policies", limits),
    ("fleet_autoscalers_buffer_size", "The size of Buffer policies", buffer),
];

#[derive(Clone, Copy)]
enum Source {
    Counter,
    List,
}

fn object_labels(meta: &ObjectMeta) -> Labels {
    let (name, namespace) = (meta.name.clone(), meta.namespace.clone());
    vec![("name", name.unwrap_or_default()), ("namespace", namespace.unwrap_or_default())]
}

fn with_label(mut labels: Labels, name: &'static str, value: impl Into<String>) -> Labels {
    labels.push((name, value.into()));
    labels
}

fn replicas(fleet: &Fleet) -> Series {
    let status = fleet.status.clone().unwrap_or_default();
    let counts = [
        ("total", status.replicas),
        ("allocated", status.allocated_replicas),
        ("ready", status.ready_replicas),
        ("desired", fleet.spec.replicas),
        ("reserved", status.reserved_replicas),
    ];
    let series = |(type_, count): (&str, i32)| {
        (with_label(object_labels(&fleet.metadata), "type", type_), count.into())
    };
    counts.into_iter().map(series).collect()
}

/// Returns the replica counts of a rollout. Despite Agones' metric name these are not percentages.
fn rollout(fleet: &Fleet) -> Series {
    let current = fleet.status.as_ref().map_or(0, |status| status.replicas);
    let labels = |type_| with_label(object_labels(&fleet.metadata), "type", type_);
    vec![
        (labels("current_replicas"), current.into()),
        (labels("desired_replicas"), fleet.spec.replicas.into()),
    ]
}

fn aggregates(fleet: &Fleet, source: Source) -> impl Iterator<Item = (&String, &AggregateCount)> {
    let status = fleet.status.as_ref();
    let sums = status.and_then(|status| match source {
        Source::Counter => status.counters.as_ref(),
        Source::List => status.lists.as_ref(),
    });
    sums.into_iter().flatten()
}

fn sums(fleet: &Fleet, source: Source) -> Series {
    let label = match source {
        Source::Counter => "counter",
        Source::List => "list",
    };
    let series = |(key, sum): (&String, &AggregateCount)| {
        let labels = with_label(object_labels(&fleet.metadata), label, key.as_str());
        [
            ("allocated_count", sum.allocated_count),
            ("allocated_capacity", sum.allocated_capacity),
            ("total_count", sum.count),
            ("total_capacity", sum.capacity),
        ]
        .map(|(type_, value)| (with_label(labels.clone(), "type", type_), value))
    };
    aggregates(fleet, source).flat_map(series).collect()
}

/// Returns sums under the metric names of the first design of counters and lists.
fn legacy_sums(fleet: &Fleet, source: Source, value: fn(&AggregateCount) -> i64) -> Series {
    let meta = &fleet.metadata;
    let series = |(key, sum): (&String, &AggregateCount)| {
        let labels = vec![
            ("key", key.clone()),
            ("fleet_name", meta.name.clone().unwrap_or_default()),
            ("namespace", meta.namespace.clone().unwrap_or_default()),
        ];
        (labels, value(sum))
    };
    aggregates(fleet, source).map(series).collect()
}

fn autoscaler_labels(autoscaler: &FleetAutoscaler) -> Labels {
    with_label(
        object_labels(&autoscaler.metadata),
        "fleet_name",
        autoscaler.spec.fleet_name.as_str(),
    )
}

fn status_gauge(
    autoscaler: &FleetAutoscaler,
    value: fn(&api::autoscaling::FleetAutoscalerStatus) -> i64,
) -> Series {
    vec![(autoscaler_labels(autoscaler), value(&autoscaler.status.clone().unwrap_or_default()))]
}

fn limits(autoscaler: &FleetAutoscaler) -> Series {
    let Some(buffer) = &autoscaler.spec.policy.buffer else { return Vec::new() };
    vec![
        (with_label(autoscaler_labels(autoscaler), "type", "min"), buffer.min_replicas.into()),
        (with_label(autoscaler_labels(autoscaler), "type", "max"), buffer.max_replicas.into()),
    ]
}

fn buffer(autoscaler: &FleetAutoscaler) -> Series {
    let Some(buffer) = &autoscaler.spec.policy.buffer else { return Vec::new() };
    let (type_, size) = match &buffer.buffer_size {
        IntOrString::Int(size) => ("count", i64::from(*size)),
        IntOrString::String(text) => {
            ("percentage", text.trim_end_matches('%').parse().unwrap_or_default())
        }
    };
    vec![(with_label(autoscaler_labels(autoscaler), "type", type_), size)]
}

fn reasons(autoscaler: &FleetAutoscaler) -> Series {
    let status = autoscaler.status.iter();
    let able = status.flat_map(|s| &s.conditions).find(|c| c.type_ == "AbleToScale");
    able.map(|c| (with_label(autoscaler_labels(autoscaler), "reason", c.reason.as_str()), 1))
        .into_iter()
        .collect()
}
