//! What is so at the moment of a scrape: fleets, their sums, and autoscalers.

use std::fmt::Error;
use std::sync::Arc;

use api::agones::{AggregateCount, Fleet};
use api::autoscaling::FleetAutoscaler;
use cluster::Caches;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::servers::{Servers, per_node};

type Labels = Vec<(&'static str, String)>;
type Series = Vec<(Labels, i64)>;

/// Reads gauges off what is there.
pub(super) struct Gauges {
    pub(super) caches: Arc<Caches>,
    pub(super) servers: Arc<Servers>,
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

/// Says why each autoscaler decided as it did, which is a name of our own.
pub(super) struct Reasons(pub(super) Arc<Caches>);

impl std::fmt::Debug for Reasons {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reasons")
    }
}

impl Collector for Reasons {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let series = self.0.autoscalers.all().iter().flat_map(|a| reasons(a)).collect();
        let help = "1 for the reason of the last decision";
        write(&mut encoder, ("fleet_autoscalers_reason", help, series))
    }
}

/// Counts the objects that the caches of this process skip.
pub(super) struct Unreadable(pub(super) Arc<Caches>);

impl std::fmt::Debug for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unreadable")
    }
}

impl Collector for Unreadable {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let count = |(kind, count): (&str, _)| {
            (vec![("kind", kind.to_owned())], i64::try_from(count).unwrap_or(i64::MAX))
        };
        let series = self.0.unreadable().into_iter().map(count).collect();
        let help = "Objects that are skipped because they cannot be read";
        write(&mut encoder, ("unreadable_objects", help, series))
    }
}

fn write(
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
        fleets.sort_by_key(|fleet| whose(&fleet.metadata));
        let mut autoscalers = self.caches.autoscalers.all();
        autoscalers.sort_by_key(|autoscaler| whose(&autoscaler.metadata));
        let mut all = vec![
            ("gameservers_count", "Game servers by state", self.servers()),
            ("nodes_count", "Nodes with and without game servers", self.nodes()),
        ];
        let of_fleets: [OfFleets; 8] = [
            ("fleets_replicas_count", "Game servers of fleets", replicas),
            ("fleet_rollout_percent", "How far the rollout of fleets is", rollout),
            ("fleet_counters", "Counters, summed over fleets", |f| sums(f, Source::Counter)),
            ("fleet_lists", "Lists, summed over fleets", |f| sums(f, Source::List)),
            ("gameservers_counter_total", "Counters: their counts, summed", |f| {
                keyed(f, Source::Counter, |sum| sum.count)
            }),
            ("gameservers_counter_capacity_total", "Counters: their capacities, summed", |f| {
                keyed(f, Source::Counter, |sum| sum.capacity)
            }),
            ("gameservers_list_length_total", "Lists: their lengths, summed", |f| {
                keyed(f, Source::List, |sum| sum.count)
            }),
            ("gameservers_list_capacity_total", "Lists: their capacities, summed", |f| {
                keyed(f, Source::List, |sum| sum.capacity)
            }),
        ];
        for (name, help, of) in of_fleets {
            all.push((name, help, fleets.iter().flat_map(|fleet| of(fleet)).collect()));
        }
        for (name, help, of) in AUTOSCALERS {
            all.push((name, help, autoscalers.iter().flat_map(|a| of(a)).collect()));
        }
        all
    }

    fn servers(&self) -> Series {
        let series = |((state, fleet, namespace), count): (super::servers::Place, i64)| {
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

/// A gauge of fleets: its name, what it says, and how it is read.
type OfFleets = (&'static str, &'static str, fn(&Fleet) -> Series);

/// A gauge of autoscalers: its name, what it says, and how it is read.
type OfAutoscalers = (&'static str, &'static str, fn(&FleetAutoscaler) -> Series);

const AUTOSCALERS: [OfAutoscalers; 6] = [
    ("fleet_autoscalers_current_replicas_count", "Replicas that were there", |a| {
        one(a, |status| status.current_replicas.into())
    }),
    ("fleet_autoscalers_desired_replicas_count", "Replicas that are wanted", |a| {
        one(a, |status| status.desired_replicas.into())
    }),
    ("fleet_autoscalers_able_to_scale", "Whether the policy has an answer", |a| {
        one(a, |status| status.able_to_scale.into())
    }),
    ("fleet_autoscalers_limited", "Whether a limit holds", |a| {
        one(a, |status| status.scaling_limited.into())
    }),
    ("fleet_autoscalers_buffer_limits", "The limits of Buffer policies", limits),
    ("fleet_autoscalers_buffer_size", "The size of Buffer policies", buffer),
];

#[derive(Clone, Copy)]
enum Source {
    Counter,
    List,
}

fn whose(meta: &ObjectMeta) -> Labels {
    let (name, namespace) = (meta.name.clone(), meta.namespace.clone());
    vec![("name", name.unwrap_or_default()), ("namespace", namespace.unwrap_or_default())]
}

fn with(mut labels: Labels, name: &'static str, value: impl Into<String>) -> Labels {
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
    let series =
        |(type_, count): (&str, i32)| (with(whose(&fleet.metadata), "type", type_), count.into());
    counts.into_iter().map(series).collect()
}

/// Upstream's name says percent; its numbers are counts.
fn rollout(fleet: &Fleet) -> Series {
    let current = fleet.status.as_ref().map_or(0, |status| status.replicas);
    let whose = |type_| with(whose(&fleet.metadata), "type", type_);
    vec![
        (whose("current_replicas"), current.into()),
        (whose("desired_replicas"), fleet.spec.replicas.into()),
    ]
}

fn of(fleet: &Fleet, source: Source) -> impl Iterator<Item = (&String, &AggregateCount)> {
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
        let labels = with(whose(&fleet.metadata), label, key.as_str());
        [
            ("allocated_count", sum.allocated_count),
            ("allocated_capacity", sum.allocated_capacity),
            ("total_count", sum.count),
            ("total_capacity", sum.capacity),
        ]
        .map(|(type_, value)| (with(labels.clone(), "type", type_), value))
    };
    of(fleet, source).flat_map(series).collect()
}

/// The names of the first design of counters and lists.
fn keyed(fleet: &Fleet, source: Source, value: fn(&AggregateCount) -> i64) -> Series {
    let meta = &fleet.metadata;
    let series = |(key, sum): (&String, &AggregateCount)| {
        let labels = vec![
            ("key", key.clone()),
            ("fleet_name", meta.name.clone().unwrap_or_default()),
            ("namespace", meta.namespace.clone().unwrap_or_default()),
        ];
        (labels, value(sum))
    };
    of(fleet, source).map(series).collect()
}

fn named(autoscaler: &FleetAutoscaler) -> Labels {
    with(whose(&autoscaler.metadata), "fleet_name", autoscaler.spec.fleet_name.as_str())
}

fn one(
    autoscaler: &FleetAutoscaler,
    value: fn(&api::autoscaling::FleetAutoscalerStatus) -> i64,
) -> Series {
    vec![(named(autoscaler), value(&autoscaler.status.clone().unwrap_or_default()))]
}

fn limits(autoscaler: &FleetAutoscaler) -> Series {
    let Some(buffer) = &autoscaler.spec.policy.buffer else { return Vec::new() };
    vec![
        (with(named(autoscaler), "type", "min"), buffer.min_replicas.into()),
        (with(named(autoscaler), "type", "max"), buffer.max_replicas.into()),
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
    vec![(with(named(autoscaler), "type", type_), size)]
}

fn reasons(autoscaler: &FleetAutoscaler) -> Series {
    let status = autoscaler.status.iter();
    let able = status.flat_map(|s| &s.conditions).find(|c| c.type_ == "AbleToScale");
    able.map(|c| (with(named(autoscaler), "reason", c.reason.as_str()), 1)).into_iter().collect()
}
