//! The settings and the recorded state of a NodeAutoscaler, as decisions read them.

use std::collections::BTreeMap;

use decide::nodes::{
    Expander, Health, LastChanges, Limits, Range, ScaleDownSettings, ScaleUpSettings, Settings,
    Status, Tolerances,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::requests::amount;
use crate::Problem;
use crate::plimsoll::node_autoscaler as wire;

/// Returns the settings, or all problems of them.
pub fn settings(spec: &wire::NodeAutoscalerSpec) -> Result<Settings, Vec<Problem>> {
    wire::check::spec(spec)?;
    Ok(Settings {
        expanders: spec.expanders.iter().filter_map(|name| expander(name)).collect(),
        seed: spec.seed,
        limits: limits(&spec.limits),
        scale_up: scale_up(&spec.scale_up),
        scale_down: scale_down(&spec.scale_down),
        health: Health {
            max_unready_percent: spec.health.max_unready_percent,
            ok_unready: count(spec.health.ok_unready),
        },
    })
}

/// Returns what earlier evaluations left behind.
pub fn status(status: Option<&wire::NodeAutoscalerStatus>) -> Status {
    let Some(status) = status else { return Status::default() };
    Status {
        unneeded_since: status
            .unneeded_since
            .iter()
            .map(|(node, at)| (node.as_str().into(), at.0))
            .collect(),
        last_scale_up_at: status.last_scale_up_at.as_ref().map(|t| t.0),
        last_delete_at: status.last_delete_at.as_ref().map(|t| t.0),
        last_delete_failure_at: status.last_delete_failure_at.as_ref().map(|t| t.0),
        groups: status
            .groups
            .iter()
            .map(|(group, last)| (group.as_str().into(), last_changes(last)))
            .collect(),
        removing: status.removing.iter().map(|node| node.as_str().into()).collect(),
        resting: BTreeMap::new(),
    }
}

fn last_changes(last: &wire::LastChanges) -> LastChanges {
    LastChanges {
        scale_up_at: last.scale_up_at.as_ref().map(|t| t.0),
        delete_at: last.delete_at.as_ref().map(|t| t.0),
        delete_failure_at: last.delete_failure_at.as_ref().map(|t| t.0),
    }
}

fn expander(name: &str) -> Option<Expander> {
    Some(match name {
        "random" => Expander::Random,
        "most-pods" => Expander::MostPods,
        "least-waste" => Expander::LeastWaste,
        "least-nodes" => Expander::LeastNodes,
        "price" => Expander::Price,
        "priority" => Expander::Priority,
        "grpc" => Expander::Grpc,
        _ => return None,
    })
}

fn limits(limits: &wire::Limits) -> Limits {
    let range = |min: Option<&Quantity>, max: Option<&Quantity>| Range {
        min: min.map_or(0, |q| amount("", q)),
        max: max.map_or(i64::MAX, |q| amount("", q)),
    };
    Limits {
        nodes: count(limits.nodes),
        cores: Range { min: limits.cores.min, max: limits.cores.max },
        memory: range(Some(&limits.memory.min), Some(&limits.memory.max)),
        resources: limits
            .resources
            .iter()
            .map(|(name, r)| (name.as_str().into(), range(r.min.as_ref(), r.max.as_ref())))
            .collect(),
    }
}

fn scale_up(from: &wire::ScaleUp) -> ScaleUpSettings {
    let texts = |all: &[String]| all.iter().map(|t| t.as_str().into()).collect();
    ScaleUpSettings {
        new_pod_delay: from.new_pod_delay.0,
        max_provision_time: from.max_provision_time.0,
        max_nodes: count(from.max_nodes),
        balance_similar_groups: from.balance_similar_groups,
        balance_ignore_labels: texts(&from.balance_ignore_labels),
        balance_labels: texts(&from.balance_labels),
        balance_tolerances: Tolerances {
            memory: from.balance_tolerances.memory,
            allocatable: from.balance_tolerances.allocatable,
            free: from.balance_tolerances.free,
        },
        expendable_priority_cutoff: from.expendable_priority_cutoff,
        enforce_min_size: from.enforce_min_size,
        max_node_startup_time: from.max_node_startup_time.0,
        startup_taints: texts(&from.startup_taints),
        startup_taint_prefixes: texts(&from.startup_taint_prefixes),
        status_taints: texts(&from.status_taints),
        force_daemon_sets: from.force_daemon_sets,
        bypassed_schedulers: texts(&from.bypassed_schedulers),
        schedulers: texts(&from.schedulers),
    }
}

fn scale_down(from: &wire::ScaleDown) -> ScaleDownSettings {
    ScaleDownSettings {
        enabled: from.enabled,
        unready_enabled: from.unready_enabled,
        utilization_threshold: from.utilization_threshold,
        gpu_utilization_threshold: from.gpu_utilization_threshold,
        unneeded_for: from.unneeded_for.0,
        unready_for: from.unready_for.0,
        delay_after_add: from.delay_after_add.0,
        delay_after_delete: from.delay_after_delete.0,
        delay_after_failure: from.delay_after_failure.0,
        delays_per_group: from.delays_per_group,
        max_parallel: count(from.max_parallel),
        max_drain_parallel: count(from.max_drain_parallel),
        ignore_daemon_sets_utilization: from.ignore_daemon_sets_utilization,
        ignore_mirror_pods_utilization: from.ignore_mirror_pods_utilization,
        skip_system_pods: from.skip_system_pods,
        skip_local_storage: from.skip_local_storage,
        skip_custom_controller_pods: from.skip_custom_controller_pods,
        min_replica_count: from.min_replica_count,
        system_pod_grace: from.system_pod_grace.0,
        max_graceful_termination: from.max_graceful_termination.0,
    }
}

/// Reads a count that admission keeps from being negative.
pub(super) fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_agree_on_the_defaults() {
        let read = settings(&wire::NodeAutoscalerSpec::default()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{:?}", Settings::default()));
    }
}
