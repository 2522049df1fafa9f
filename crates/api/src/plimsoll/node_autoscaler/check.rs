//! Validation across the settings of a NodeAutoscaler.

use super::super::Checks;
use super::{Limits, NodeAutoscalerSpec, Range, ScaleDown, ScaleUp};
use crate::Problem;
use crate::quantity::Quantity;

/// The names that `expanders` may hold.
const EXPANDERS: [&str; 7] =
    ["random", "most-pods", "least-waste", "least-nodes", "price", "priority", "grpc"];

/// Checks the settings, field by field.
pub(crate) fn spec(spec: &NodeAutoscalerSpec) -> Result<(), Vec<Problem>> {
    let mut checks = Checks::default();
    expanders(&mut checks, &spec.expanders);
    limits(&mut checks, &spec.limits);
    scale_up(&mut checks, &spec.scale_up);
    scale_down(&mut checks, &spec.scale_down);
    checks.require(
        (0.0..=100.0).contains(&spec.health.max_unready_percent),
        "spec.health.maxUnreadyPercent",
        "must be between 0 and 100",
    );
    checks.require(spec.health.ok_unready >= 0, "spec.health.okUnready", "must not be negative");
    super::providers::check(&mut checks, spec);
    checks.done()
}

fn expanders(checks: &mut Checks, names: &[String]) {
    checks.require(!names.is_empty(), "spec.expanders", "must name at least one expander");
    for (index, name) in names.iter().enumerate() {
        let path = format!("spec.expanders[{index}]");
        let is_known = EXPANDERS.contains(&name.as_str());
        checks.require(is_known, &path, format!("`{name}` is not one of {}", EXPANDERS.join(", ")));
        let before = &names[..index];
        checks.require(!before.contains(name), &path, format!("`{name}` is named twice"));
        let is_reached = !before.iter().any(|b| b == "random") || before.contains(name);
        checks.require(is_reached, &path, "nothing is left to choose after `random`");
    }
}

fn limits(checks: &mut Checks, limits: &Limits) {
    checks.require(limits.nodes >= 0, "spec.limits.nodes", "must not be negative");
    checks.require(limits.cores.min >= 0, "spec.limits.cores.min", "must not be negative");
    checks.require(
        limits.cores.min <= limits.cores.max,
        "spec.limits.cores.max",
        "must not be less than min",
    );
    let memory =
        Range { min: Some(limits.memory.min.clone()), max: Some(limits.memory.max.clone()) };
    range(checks, "spec.limits.memory", &memory);
    for (name, limit) in &limits.resources {
        range(checks, &format!("spec.limits.resources.{name}"), limit);
    }
}

fn range(checks: &mut Checks, path: &str, range: &Range) {
    for (field, quantity) in [("min", &range.min), ("max", &range.max)] {
        quantity.iter().for_each(|q| checks.quantity(&format!("{path}.{field}"), q));
    }
    let read = |q: &Option<_>| {
        let quantity: Option<&k8s_openapi::apimachinery::pkg::api::resource::Quantity> = q.as_ref();
        quantity.and_then(|q| Quantity::parse(&q.0).ok())
    };
    if let (Some(min), Some(max)) = (read(&range.min), read(&range.max)) {
        checks.require(min <= max, &format!("{path}.max"), "must not be less than min");
    }
}

fn scale_up(checks: &mut Checks, scale_up: &ScaleUp) {
    for (field, span) in [
        ("newPodDelay", scale_up.new_pod_delay),
        ("maxProvisionTime", scale_up.max_provision_time),
        ("maxNodeStartupTime", scale_up.max_node_startup_time),
        ("backoff.initial", scale_up.backoff.initial),
        ("backoff.max", scale_up.backoff.max),
        ("backoff.resetAfter", scale_up.backoff.reset_after),
    ] {
        checks.span(&format!("spec.scaleUp.{field}"), span);
    }
    checks.require(scale_up.max_nodes >= 0, "spec.scaleUp.maxNodes", "must not be negative");
    checks.require(
        scale_up.balance_labels.is_empty() || scale_up.balance_ignore_labels.is_empty(),
        "spec.scaleUp.balanceIgnoreLabels",
        "cannot be given together with balanceLabels",
    );
    let tolerances = &scale_up.balance_tolerances;
    for (field, share) in [
        ("memory", tolerances.memory),
        ("allocatable", tolerances.allocatable),
        ("free", tolerances.free),
    ] {
        checks.share(&format!("spec.scaleUp.balanceTolerances.{field}"), share);
    }
    let allowed = &scale_up.schedulers;
    for (index, name) in scale_up.bypassed_schedulers.iter().enumerate() {
        checks.require(
            allowed.is_empty() || allowed.contains(name),
            &format!("spec.scaleUp.bypassedSchedulers[{index}]"),
            format!("`{name}` is not one of `schedulers`"),
        );
    }
}

fn scale_down(checks: &mut Checks, scale_down: &ScaleDown) {
    for (field, share) in [
        ("utilizationThreshold", scale_down.utilization_threshold),
        ("gpuUtilizationThreshold", scale_down.gpu_utilization_threshold),
    ] {
        checks.share(&format!("spec.scaleDown.{field}"), share);
    }
    for (field, span) in [
        ("unneededFor", scale_down.unneeded_for),
        ("unreadyFor", scale_down.unready_for),
        ("delayAfterAdd", scale_down.delay_after_add),
        ("delayAfterDelete", scale_down.delay_after_delete),
        ("delayAfterFailure", scale_down.delay_after_failure),
        ("systemPodGrace", scale_down.system_pod_grace),
        ("maxGracefulTermination", scale_down.max_graceful_termination),
        ("maxEvictionTime", scale_down.max_eviction_time),
        ("delayAfterTaint", scale_down.delay_after_taint),
        ("maxDeletionDelay", scale_down.max_deletion_delay),
        ("batchInterval", scale_down.batch_interval),
    ] {
        checks.span(&format!("spec.scaleDown.{field}"), span);
    }
    for (field, count) in [
        ("maxParallel", scale_down.max_parallel),
        ("maxDrainParallel", scale_down.max_drain_parallel),
        ("minReplicaCount", scale_down.min_replica_count),
        ("maxSoftTaints", scale_down.max_soft_taints),
    ] {
        checks.require(count >= 0, &format!("spec.scaleDown.{field}"), "must not be negative");
    }
    drain_priorities(checks, scale_down);
}

fn drain_priorities(checks: &mut Checks, scale_down: &ScaleDown) {
    let steps = &scale_down.drain_priorities;
    for (index, step) in steps.iter().enumerate() {
        let path = format!("spec.scaleDown.drainPriorities[{index}]");
        checks.span(&format!("{path}.grace"), step.grace);
        let is_new = steps[..index].iter().all(|before| before.priority != step.priority);
        let problem = format!("{} is given twice", step.priority);
        checks.require(is_new, &format!("{path}.priority"), problem);
    }
    let is_usual =
        scale_down.max_graceful_termination == ScaleDown::default().max_graceful_termination;
    checks.require(
        steps.is_empty() || is_usual,
        "spec.scaleDown.maxGracefulTermination",
        "cannot be given together with drainPriorities, whose steps have a grace each",
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn problems(mut body: Value) -> Vec<String> {
        let mut value = json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "NodeAutoscaler",
            "metadata": {"name": "default"}
        });
        value.as_object_mut().unwrap().append(body.as_object_mut().unwrap());
        let now = jiff::Timestamp::UNIX_EPOCH;
        let found = (super::super::KIND.admit)(&mut value, &crate::Admission { old: None, now });
        found.err().unwrap_or_default().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_mistake_is_refused_by_its_field() {
        for (body, wanted) in [
            (
                json!({"spec": {"scaledown": {}}}),
                "spec.scaledown: unknown field, did you mean `scaleDown`?",
            ),
            (
                json!({"spec": {"scaleDown": {"unneededForr": "5m"}}}),
                "spec.scaleDown.unneededForr: unknown field, did you mean `unneededFor`?",
            ),
            (
                json!({"spec": {"expanders": ["most-pod"]}}),
                "spec.expanders[0]: `most-pod` is not one of random, most-pods, least-waste, least-nodes, price, priority, grpc",
            ),
            (
                json!({"spec": {"expanders": ["grpc"]}}),
                "spec.grpcExpander: required by the expander `grpc`",
            ),
            (
                json!({"spec": {"grpcExpander": {"address": "h"}}}),
                "spec.grpcExpander.address: `h` is not an address; write it like `host:8086`",
            ),
            (json!({"spec": {"expanders": []}}), "spec.expanders: must name at least one expander"),
            (
                json!({"spec": {"expanders": ["price", "price"]}}),
                "spec.expanders[1]: `price` is named twice",
            ),
            (
                json!({"spec": {"expanders": ["random", "price"]}}),
                "spec.expanders[1]: nothing is left to choose after `random`",
            ),
            (
                json!({"spec": {"limits": {"cores": {"min": 5, "max": 4}}}}),
                "spec.limits.cores.max: must not be less than min",
            ),
            (
                json!({"spec": {"limits": {"memory": {"min": "5Gi", "max": "4Gi"}}}}),
                "spec.limits.memory.max: must not be less than min",
            ),
            (
                json!({"spec": {"limits": {"resources": {"nvidia.com/gpu": {"max": -1}}}}}),
                "spec.limits.resources.nvidia.com/gpu.max: must not be negative",
            ),
            (
                json!({"spec": {"scaleDown": {"unneededFor": "-1s"}}}),
                "spec.scaleDown.unneededFor: must not be negative",
            ),
            (
                json!({"spec": {"scaleUp": {"balanceLabels": ["a"], "balanceIgnoreLabels": ["b"]}}}),
                "spec.scaleUp.balanceIgnoreLabels: cannot be given together with balanceLabels",
            ),
            (
                json!({"spec": {"scaleUp": {"bypassedSchedulers": ["a"], "schedulers": ["b"]}}}),
                "spec.scaleUp.bypassedSchedulers[0]: `a` is not one of `schedulers`",
            ),
            (
                json!({"spec": {"scaleUp": {"balanceTolerances": {"free": 2}}}}),
                "spec.scaleUp.balanceTolerances.free: must be between 0 and 1",
            ),
            (
                json!({"spec": {}, "status": {"lastDeletedAt": "2026-01-01T00:00:00Z"}}),
                "status.lastDeletedAt: unknown field, did you mean `lastDeleteAt`?",
            ),
        ] {
            assert_eq!(problems(body.clone()), [wanted], "{body}");
        }
    }

    #[test]
    fn a_mistake_in_a_connection_is_refused_by_its_field() {
        for (body, wanted) in [
            (
                json!({"spec": {"providers": {"externalGRPC": {}}}}),
                "spec.providers.externalGRPC: unknown field, did you mean `externalGrpc`?",
            ),
            (
                json!({"spec": {"providers": {"externalGrpc": {"address": "host"}}}}),
                "spec.providers.externalGrpc.address: `host` is not an address; write it like `host:8086`",
            ),
            (
                json!({"spec": {"providers": {"externalGrpc": {"address": "h:1", "timeout": "0s"}}}}),
                "spec.providers.externalGrpc.timeout: must be positive",
            ),
            (
                json!({"spec": {"providers": {"aws": {"discover": [{}]}}}}),
                "spec.providers.aws.discover[0].tags: must name at least one tag, or every group of the account would match",
            ),
        ] {
            assert_eq!(problems(body.clone()), [wanted], "{body}");
        }
    }

    #[test]
    fn connections_are_kept_as_their_drivers_read_them() {
        let providers = json!({
            "externalGrpc": {
                "address": "127.0.0.1:8086", "discover": true, "timeout": "5s",
                "tls": {"caFrom": {"name": "grpc", "key": "ca.crt"}},
            },
            "clusterApi": {
                "kubeconfigFrom": {"name": "management", "key": "value"},
                "discover": [{"namespace": "n", "clusterName": "c", "labels": {"pool": "a"}}],
            },
            "aws": {
                "region": "eu-west-1", "endpoints": {"ec2": "http://127.0.0.1:5000"},
                "discover": [{"tags": {"k8s.io/cluster-autoscaler/enabled": ""}}],
            },
        });
        let body = json!({"spec": {"providers": providers}});
        assert_eq!(problems(body.clone()), Vec::<String>::new());
        let spec: NodeAutoscalerSpec = serde_json::from_value(body["spec"].clone()).unwrap();
        assert_eq!(Value::Object(spec.providers.connections()), providers);
        for provider in ["externalGrpc", "clusterApi", "aws"] {
            assert!(spec.providers.discovers(provider), "{provider}");
        }
        assert!(!spec.providers.discovers("simulated"));
    }

    #[test]
    fn the_steps_of_a_drain_are_checked() {
        for (body, wanted) in [
            (
                json!({"spec": {"scaleDown": {"drainPriorities": [{"priority": 1}, {"priority": 1}]}}}),
                "spec.scaleDown.drainPriorities[1].priority: 1 is given twice",
            ),
            (
                json!({"spec": {"scaleDown": {
                    "drainPriorities": [{"grace": "9s"}], "maxGracefulTermination": "9s",
                }}}),
                "spec.scaleDown.maxGracefulTermination: cannot be given together with drainPriorities, whose steps have a grace each",
            ),
        ] {
            assert_eq!(problems(body.clone()), [wanted], "{body}");
        }
    }

    #[test]
    fn left_out_settings_have_todays_defaults() {
        assert_eq!(problems(json!({})), Vec::<String>::new());
        let spec: NodeAutoscalerSpec = serde_json::from_value(json!({})).unwrap();
        assert_eq!(spec, NodeAutoscalerSpec::default());
        let printed = serde_json::to_value(&spec).unwrap();
        assert_eq!(
            printed,
            json!({
                "expanders": ["least-waste"], "seed": 0, "fleets": {"aware": true},
                "limits": {
                    "nodes": 0, "cores": {"min": 0, "max": 320_000},
                    "memory": {"min": "0", "max": "6400000Gi"}, "resources": {}
                },
                "scaleUp": {
                    "newPodDelay": "0s", "maxProvisionTime": "15m0s", "maxNodes": 1000,
                    "balanceSimilarGroups": false, "balanceIgnoreLabels": [], "balanceLabels": [],
                    "expendablePriorityCutoff": -10, "enforceMinSize": false,
                    "maxNodeStartupTime": "15m0s", "startupTaints": [], "statusTaints": [],
                    "forceDaemonSets": false, "startupTaintPrefixes": [],
                    "bypassedSchedulers": [], "schedulers": [],
                    "balanceTolerances": {"memory": 0.015, "allocatable": 0.05, "free": 0.05},
                    "backoff": {"initial": "5m0s", "max": "30m0s", "resetAfter": "3h0m0s"}
                },
                "scaleDown": {
                    "enabled": true, "unreadyEnabled": true, "utilizationThreshold": 0.5,
                    "gpuUtilizationThreshold": 0.5, "unneededFor": "10m0s", "unreadyFor": "20m0s",
                    "delayAfterAdd": "10m0s", "delayAfterDelete": "0s", "delayAfterFailure": "3m0s", "delaysPerGroup": false,
                    "maxParallel": 10, "maxDrainParallel": 1, "ignoreDaemonSetsUtilization": false,
                    "ignoreMirrorPodsUtilization": false, "skipSystemPods": true,
                    "skipLocalStorage": true, "skipCustomControllerPods": true,
                    "minReplicaCount": 0, "systemPodGrace": "1h0m0s",
                    "maxGracefulTermination": "10m0s", "maxEvictionTime": "2m0s", "cordon": true,
                    "delayAfterTaint": "1s", "evictDaemonSetsOfEmptyNodes": false,
                    "evictDaemonSetsOfOccupiedNodes": true, "maxDeletionDelay": "2m0s",
                    "batchInterval": "0s", "maxSoftTaints": 10
                },
                "health": {"maxUnreadyPercent": 45.0, "okUnready": 3}
            })
        );
    }
}
