//! Statuses as objects carry them, and as decisions see them.

use decide::workload::Condition;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DeploymentCondition, ReplicaSetCondition};
use k8s_openapi::api::batch::v1::JobCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use serde_json::{Value, json};

/// Returns `count`, and nothing for 0: Kubernetes leaves such counts out.
pub(super) fn nonzero(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}

fn moment(time: Option<&Time>) -> Timestamp {
    time.map(|time| time.0).unwrap_or_default()
}

pub(super) fn from_deployment(condition: &DeploymentCondition) -> Condition {
    Condition {
        kind: condition.type_.clone(),
        status: condition.status.clone(),
        reason: condition.reason.clone().unwrap_or_default(),
        message: condition.message.clone().unwrap_or_default(),
        updated_at: moment(condition.last_update_time.as_ref()),
        transitioned_at: moment(condition.last_transition_time.as_ref()),
    }
}

pub(super) fn to_deployment(condition: &Condition) -> DeploymentCondition {
    DeploymentCondition {
        type_: condition.kind.clone(),
        status: condition.status.clone(),
        reason: Some(condition.reason.clone()),
        message: Some(condition.message.clone()),
        last_update_time: Some(Time(condition.updated_at)),
        last_transition_time: Some(Time(condition.transitioned_at)),
    }
}

pub(super) fn from_set(condition: &ReplicaSetCondition) -> Condition {
    let transitioned_at = moment(condition.last_transition_time.as_ref());
    Condition {
        kind: condition.type_.clone(),
        status: condition.status.clone(),
        reason: condition.reason.clone().unwrap_or_default(),
        message: condition.message.clone().unwrap_or_default(),
        updated_at: transitioned_at,
        transitioned_at,
    }
}

pub(super) fn from_job(condition: &JobCondition) -> Condition {
    Condition {
        kind: condition.type_.clone(),
        status: condition.status.clone(),
        reason: condition.reason.clone().unwrap_or_default(),
        message: condition.message.clone().unwrap_or_default(),
        updated_at: moment(condition.last_probe_time.as_ref()),
        transitioned_at: moment(condition.last_transition_time.as_ref()),
    }
}

pub(super) fn to_job(condition: &Condition) -> JobCondition {
    JobCondition {
        type_: condition.kind.clone(),
        status: condition.status.clone(),
        reason: Some(condition.reason.clone()),
        message: Some(condition.message.clone()),
        last_probe_time: Some(Time(condition.updated_at)),
        last_transition_time: Some(Time(condition.transitioned_at)),
    }
}

/// Returns a merge patch that replaces the whole status; `None` if they are the same.
pub(super) fn status_patch<S: Serialize>(new: &S, old: Option<&S>) -> Option<Value> {
    let json = |status: &S| serde_json::to_value(status).unwrap_or_default();
    let (mut new, old) = (json(new), old.map(json).unwrap_or_else(|| json!({})));
    if new == old {
        return None;
    }
    replace(&mut new, &old);
    Some(json!({"status": new}))
}

/// Sets the members that only the old value has to null, at any depth.
fn replace(new: &mut Value, old: &Value) {
    let (Some(new), Some(old)) = (new.as_object_mut(), old.as_object()) else { return };
    for (name, old) in old {
        match new.get_mut(name) {
            Some(new) => replace(new, old),
            None => drop(new.insert(name.clone(), Value::Null)),
        }
    }
}
