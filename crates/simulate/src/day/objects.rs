//! The objects of a simulated day: fleets with their autoscalers, and a group of nodes.

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::Day;

/// The node group.
pub(super) const GROUP: &str = "machines";

pub(super) fn node_autoscaler(day: &Day) -> Value {
    json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "NodeAutoscaler",
        "metadata": {"name": "default"}, "spec": {"fleets": {"aware": day.aware}},
    })
}

/// Machines with room for eight game servers each.
pub(super) fn node_group(day: &Day) -> Value {
    let start_after = format!("{}s", day.node_start.as_secs());
    json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "NodeGroup",
        "metadata": {"name": GROUP},
        "spec": {
            "max": 100, "provider": {"simulated": {"startAfter": start_after}},
            "template": {"capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
        },
    })
}

/// Returns the name of a fleet and of its autoscaler.
fn name(fleet: usize) -> String {
    format!("game-{fleet}")
}

pub(super) fn fleet(fleet: usize, buffer: i32) -> Value {
    let container = json!({
        "name": "game", "image": "game:1", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    });
    let pod = json!({
        "metadata": {"annotations": {crate::game::ANNOTATION: "ready=5s"}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    });
    json!({
        "apiVersion": "agones.dev/v1", "kind": "Fleet",
        "metadata": {"name": name(fleet), "namespace": "default"},
        "spec": {"replicas": buffer, "scheduling": "Packed", "template": {"spec": {
            "ports": [{"name": "game", "containerPort": 7654}],
            "health": {"disabled": true},
            "template": pod,
        }}},
    })
}

/// An autoscaler that keeps a buffer, and for the first fleet a larger one for an hour around an event. `begins_at` is the start of the day.
pub(super) fn fleet_autoscaler(day: &Day, fleet: usize, begins_at: Timestamp) -> Value {
    let buffer = |id: &str, size: i32| {
        let buffer = json!({"bufferSize": size, "minReplicas": size, "maxReplicas": 700});
        json!({"id": id, "type": "Buffer", "buffer": buffer})
    };
    let mut chain = Vec::new();
    if let Some((after, size)) = day.scheduled_buffer.filter(|_| fleet == 0) {
        let period = json!({
            "startCron": cron(begins_at, after), "duration": "1h", "timezone": "UTC",
        });
        let mut policy = buffer("", size);
        policy.as_object_mut().into_iter().for_each(|policy| drop(policy.remove("id")));
        let schedule = json!({"activePeriod": period, "policy": policy});
        chain.push(json!({"id": "event", "type": "Schedule", "schedule": schedule}));
    }
    chain.push(buffer("usually", day.buffers[fleet]));
    json!({
        "apiVersion": "autoscaling.agones.dev/v1", "kind": "FleetAutoscaler",
        "metadata": {"name": name(fleet), "namespace": "default"},
        "spec": {"fleetName": name(fleet), "policy": {"type": "Chain", "chain": chain}},
    })
}

/// Returns the schedule of a time of the day.
fn cron(begins_at: Timestamp, after: Duration) -> String {
    let after = SignedDuration::try_from(after).unwrap_or_default();
    let at = (begins_at + after).to_zoned(TimeZone::UTC);
    format!("{} {} * * *", at.minute(), at.hour())
}

pub(super) fn allocation(fleet: usize) -> Value {
    json!({
        "apiVersion": "allocation.agones.dev/v1", "kind": "GameServerAllocation",
        "metadata": {"namespace": "default"},
        "spec": {"selectors": [{"matchLabels": {"agones.dev/fleet": name(fleet)}}]},
    })
}
