//! The settings of all decisions, as a NodeAutoscaler would have them.

use std::collections::BTreeMap;

use api::plimsoll::Span;
use api::plimsoll::node_autoscaler::{
    Backoff, BalanceTolerances, Cores, DrainPriority, GrpcExpander, Health, Limits, Memory,
    NodeAutoscalerSpec, Range, ScaleDown, ScaleUp,
};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::args::cluster_autoscaler::Flags;

/// Returns the settings that the flags ask for.
pub(super) fn spec(flags: &Flags, notices: &mut Vec<String>) -> Result<NodeAutoscalerSpec, String> {
    Ok(NodeAutoscalerSpec {
        expanders: texts(flags, "expander"),
        grpc_expander: grpc_expander(flags)?,
        limits: limits(flags, notices)?,
        scale_up: scale_up(flags),
        scale_down: scale_down(flags)?,
        health: Health {
            max_unready_percent: flags.float("max-total-unready-percentage"),
            ok_unready: flags.int32("ok-total-unready-count"),
        },
        ..NodeAutoscalerSpec::default()
    })
}

/// Returns the server of the expander `grpc`. The certificates that it is trusted by are a file.
fn grpc_expander(flags: &Flags) -> Result<Option<GrpcExpander>, String> {
    let address = flags.text("grpc-expander-url").to_owned();
    if address.is_empty() && flags.list("expander").contains(&"grpc") {
        return Err("--expander=grpc needs --grpc-expander-url".to_owned());
    }
    let expander = GrpcExpander { address, ..GrpcExpander::default() };
    Ok(Some(expander).filter(|expander| !expander.address.is_empty()))
}

/// Checks the settings as those of a NodeAutoscaler are.
pub(super) fn check(spec: &NodeAutoscalerSpec) -> Result<(), String> {
    let checked = api::nodes::settings(spec).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        format!("the flags are not settings of a NodeAutoscaler: {}", problems.join("; "))
    });
    checked.map(drop)
}

fn limits(flags: &Flags, notices: &mut Vec<String>) -> Result<Limits, String> {
    let (min_cores, max_cores) = bounds("cores-total", flags.text("cores-total"))?;
    let (min_memory, max_memory) = bounds("memory-total", flags.text("memory-total"))?;
    let mut resources = BTreeMap::new();
    for limit in flags.list("gpu-total") {
        let (kind, range) = limit.split_once(':').unwrap_or((limit, ""));
        let (min, max) = bounds("gpu-total", range)?;
        if !kind.contains('/') {
            let expected = "is not a resource such as nvidia.com/gpu";
            notices.push(format!("--gpu-total={limit} has no effect: `{kind}` {expected}"));
            continue;
        }
        let quantity = |amount: i64| Some(Quantity(amount.to_string()));
        resources.insert(kind.to_owned(), Range { min: quantity(min), max: quantity(max) });
    }
    let gibibytes = |amount: i64| match amount {
        0 => Quantity("0".to_owned()),
        _ => Quantity(format!("{amount}Gi")),
    };
    Ok(Limits {
        nodes: flags.int32("max-nodes-total"),
        cores: Cores { min: min_cores, max: max_cores },
        memory: Memory { min: gibibytes(min_memory), max: gibibytes(max_memory) },
        resources,
    })
}

/// Reads `MIN:MAX`.
fn bounds(flag: &str, text: &str) -> Result<(i64, i64), String> {
    let parsed = text.split_once(':').and_then(|(min, max)| {
        let (min, max): (i64, i64) = (min.parse().ok()?, max.parse().ok()?);
        (0 <= min && min <= max).then_some((min, max))
    });
    parsed.ok_or_else(|| format!("--{flag}: `{text}` is not MIN:MAX, with 0 <= MIN <= MAX"))
}

fn scale_up(flags: &Flags) -> ScaleUp {
    let mut startup_taints = texts(flags, "startup-taint");
    startup_taints.extend(texts(flags, "ignore-taint"));
    ScaleUp {
        new_pod_delay: span(flags, "new-pod-scale-up-delay"),
        max_provision_time: span(flags, "max-node-provision-time"),
        max_nodes: flags.int32("max-nodes-per-scaleup"),
        balance_similar_groups: flags.bool("balance-similar-node-groups"),
        balance_ignore_labels: texts(flags, "balancing-ignore-label"),
        balance_labels: texts(flags, "balancing-label"),
        balance_tolerances: BalanceTolerances {
            memory: flags.float("memory-difference-ratio"),
            allocatable: flags.float("max-allocatable-difference-ratio"),
            free: flags.float("max-free-difference-ratio"),
        },
        expendable_priority_cutoff: flags.int32("expendable-pods-priority-cutoff"),
        enforce_min_size: flags.bool("enforce-node-group-min-size"),
        max_node_startup_time: span(flags, "max-node-startup-time"),
        startup_taints,
        startup_taint_prefixes: texts(flags, "startup-taint-prefix"),
        status_taints: texts(flags, "status-taint"),
        force_daemon_sets: flags.bool("force-ds"),
        bypassed_schedulers: texts(flags, "bypassed-scheduler-names"),
        schedulers: texts(flags, "allowed-scheduler-names"),
        backoff: Backoff {
            initial: span(flags, "initial-node-group-backoff-duration"),
            max: span(flags, "max-node-group-backoff-duration"),
            reset_after: span(flags, "node-group-backoff-reset-timeout"),
        },
    }
}

fn scale_down(flags: &Flags) -> Result<ScaleDown, String> {
    Ok(ScaleDown {
        enabled: flags.bool("scale-down-enabled"),
        unready_enabled: flags.bool("scale-down-unready-enabled"),
        utilization_threshold: flags.float("scale-down-utilization-threshold"),
        gpu_utilization_threshold: flags.float("scale-down-gpu-utilization-threshold"),
        unneeded_for: span(flags, "scale-down-unneeded-time"),
        unready_for: span(flags, "scale-down-unready-time"),
        delay_after_add: span(flags, "scale-down-delay-after-add"),
        delay_after_delete: span(flags, "scale-down-delay-after-delete"),
        delay_after_failure: span(flags, "scale-down-delay-after-failure"),
        delays_per_group: flags.bool("scale-down-delay-type-local"),
        max_parallel: flags.int32("max-scale-down-parallelism"),
        max_drain_parallel: flags.int32("max-drain-parallelism"),
        ignore_daemon_sets_utilization: flags.bool("ignore-daemonsets-utilization"),
        ignore_mirror_pods_utilization: flags.bool("ignore-mirror-pods-utilization"),
        skip_system_pods: flags.bool("skip-nodes-with-system-pods"),
        skip_local_storage: flags.bool("skip-nodes-with-local-storage"),
        skip_custom_controller_pods: flags.bool("skip-nodes-with-custom-controller-pods"),
        min_replica_count: flags.int32("min-replica-count"),
        system_pod_grace: span(flags, "blocking-system-pod-distruption-timeout"),
        max_graceful_termination: seconds(i64::from(flags.int32("max-graceful-termination-sec"))),
        drain_priorities: drain_priorities(flags)?,
        max_eviction_time: span(flags, "max-pod-eviction-time"),
        cordon: flags.bool("cordon-node-before-terminating"),
        delay_after_taint: span(flags, "node-delete-delay-after-taint"),
        evict_daemon_sets_of_empty_nodes: flags.bool("daemonset-eviction-for-empty-nodes"),
        evict_daemon_sets_of_occupied_nodes: flags.bool("daemonset-eviction-for-occupied-nodes"),
        max_deletion_delay: span(flags, "node-deletion-delay-timeout"),
        batch_interval: span(flags, "node-deletion-batcher-interval"),
        max_soft_taints: flags.int32("max-bulk-soft-taint-count"),
    })
}

/// Reads `PRIORITY:SECONDS,…`.
fn drain_priorities(flags: &Flags) -> Result<Vec<DrainPriority>, String> {
    let text = flags.text("drain-priority-config");
    if text.is_empty() {
        return Ok(Vec::new());
    }
    if flags.has("max-graceful-termination-sec") {
        let problem = "cannot be given together with --max-graceful-termination-sec";
        return Err(format!("--drain-priority-config: {problem}"));
    }
    let step = |step: &str| {
        let parsed = step.split_once(':').and_then(|(priority, grace)| {
            let (priority, grace) = (priority.trim().parse().ok()?, grace.trim().parse().ok()?);
            Some(DrainPriority { priority, grace: seconds(grace) })
        });
        parsed.ok_or_else(|| {
            format!("--drain-priority-config: `{step}` in `{text}` is not PRIORITY:SECONDS")
        })
    };
    text.split(',').map(step).collect()
}

fn span(flags: &Flags, name: &str) -> Span {
    Span(flags.duration(name))
}

fn seconds(seconds: i64) -> Span {
    Span(SignedDuration::from_secs(seconds))
}

fn texts(flags: &Flags, name: &str) -> Vec<String> {
    flags.list(name).into_iter().map(str::to_owned).collect()
}
