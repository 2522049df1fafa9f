//! Metrics of the node controller, under the names of Cluster Autoscaler and ours. Without an evaluation there are none.

use std::fmt::Error;

use control::nodes::{Durations, NodeLabels, NodeMetrics};
use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Collects the numbers of the node controller.
#[derive(Debug)]
pub(super) struct NodeNumbersCollector(pub(super) NodeMetrics);

/// A counter whose name does not end in `_total`. The text format adds that to counters, so that it is shown as a gauge.
const UNTYPED_COUNTER: &str = "cluster_autoscaler_old_unregistered_nodes_removed_count";

impl Collector for NodeNumbersCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let numbers = self.0.numbers();
        for (name, series) in &numbers.gauges {
            let mut family =
                encoder.encode_descriptor(name, help(name), None, MetricType::Gauge)?;
            for (labels, value) in series {
                ConstGauge::new(*value).encode(family.encode_family(labels)?)?;
            }
        }
        for (name, series) in &numbers.counters {
            let is_untyped = *name == UNTYPED_COUNTER;
            let kind = if is_untyped { MetricType::Gauge } else { MetricType::Counter };
            let mut family = encoder.encode_descriptor(name, help(name), None, kind)?;
            for (labels, value) in series {
                let encoder = family.encode_family(labels)?;
                match is_untyped {
                    true => ConstGauge::new(i64::try_from(*value).unwrap_or(i64::MAX))
                        .encode(encoder)?,
                    false => ConstCounter::new(*value).encode(encoder)?,
                }
            }
        }
        activities(&mut encoder, numbers.activities.iter())?;
        let name = "cluster_autoscaler_function_duration_seconds";
        let mut family =
            encoder.encode_descriptor(name, help(name), None, MetricType::Histogram)?;
        for (function, durations) in &numbers.durations {
            let labels: NodeLabels = vec![("function", (*function).to_owned())];
            durations_of(durations, family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn activities<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    all: impl Iterator<Item = (&'a &'static str, &'a Timestamp)>,
) -> Result<(), Error> {
    let name = "cluster_autoscaler_last_activity";
    let mut family = encoder.encode_descriptor(name, help(name), None, MetricType::Gauge)?;
    for (activity, at) in all {
        let labels: NodeLabels = vec![("activity", (*activity).to_owned())];
        ConstGauge::new(at.as_second()).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn durations_of(durations: &Durations, mut encoder: MetricEncoder<'_>) -> Result<(), Error> {
    let bounds = Durations::bounds().map(|to| if to.is_infinite() { f64::MAX } else { to });
    let buckets: Vec<(f64, u64)> = bounds.zip(durations.buckets.iter().copied()).collect();
    encoder.encode_histogram::<NoLabelSet>(durations.sum, durations.count, &buckets, None)
}

fn help(name: &str) -> &'static str {
    let (_, name) = name.split_once("cluster_autoscaler_").unwrap_or(("", name));
    match name {
        "cluster_cpu_current_cores" => "Cores of all nodes",
        "cluster_memory_current_bytes" => "Memory of all nodes",
        "cluster_safe_to_autoscale" => "1 if the cluster is healthy enough to be scaled",
        "cpu_limits_cores" => "The limits of cores",
        "errors" => "Errors by type",
        "evicted_pods" => "Evictions by result",
        "failed_node_creations" => "Machines that could not be created",
        "failed_scale_ups" => "Scale-ups that failed",
        "function_duration_seconds" => "Time that the parts of an evaluation took",
        "last_activity" => "When each activity last began",
        "max_nodes_count" => "The maximum number of nodes",
        "memory_limits_bytes" => "The limits of memory",
        "node_group_backoff_status" => "1 if the group is backed off",
        "node_group_healthiness" => "1 if the group is healthy",
        "node_group_max_count" => "The maximum size of the group",
        "node_group_min_count" => "The minimum size of the group",
        "node_group_target_count" => "The desired size of the group",
        "node_groups_count" => "Node groups",
        "nodes_count" => "Nodes by state",
        "old_unregistered_nodes_removed_count" => "Machines deleted because they had no Node",
        "pending_node_deletions" => "Nodes that are being removed",
        "scale_down_in_cooldown" => "1 if removals are held for a while",
        "scaled_down_nodes" => "Nodes removed",
        "scaled_up_nodes" => "Nodes added",
        "unneeded_nodes_count" => "Nodes that are unneeded",
        "unremovable_nodes_count" => "Nodes that stay, by reason",
        "unschedulable_pods_count" => "Pods that the scheduler found no node for",
        "plimsoll_nodes_evaluations" => "Evaluations of the cluster",
        "plimsoll_nodes_evaluations_skipped" => "Evaluations skipped because nothing had changed",
        "plimsoll_nodes_group_provider_available" => "1 if the provider of the group answers",
        "plimsoll_nodes_pods_without_group" => "Pods that fit on no group",
        _ => "A number of the node controller",
    }
}
