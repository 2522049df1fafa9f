//! Scales services.
//!
//! As for scaling policies, the action is in the status of the policy that fires as `Pending` before the service is scaled, and its
//! result is recorded afterwards.

use std::sync::Arc;
use std::time::Duration;

use api::plimsoll::AutoScalePolicy;
use api::plimsoll::auto_scale_policy::AutoScalePolicyStatus;
use api::plimsoll::scaling_policy::{ActionOutcome, LastActionStatus};
use cluster::write::{PatchTarget, patch};
use cluster::{Error, Key};
use connect::targets::{Target, Version};
use decide::checks::{PendingAction, pending_action};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::{Evaluation, Services};
use crate::targets::{self, Outcome};

/// Resolves actions that were pending when this or another process stopped: the size of the service shows whether they were applied.
/// Returns the policies with their updated statuses.
pub(super) async fn resolve_pending(
    mut policies: Vec<Arc<AutoScalePolicy>>,
    count: i64,
    all: &Services,
) -> Result<Vec<Arc<AutoScalePolicy>>, Error> {
    for policy in &mut policies {
        let Some(mut status) = policy.status.clone() else { continue };
        let Some(pending) = pending(&status) else { continue };
        match pending_action(pending.from, pending.to, count) {
            PendingAction::Applied => applied(&mut status),
            PendingAction::NotApplied => undone(&mut status),
        }
        write(policy, &status, all).await?;
        let key = Key::from_meta(&policy.metadata);
        if let Some(updated) = all.cx.caches.service_policies.get(&key) {
            *policy = updated;
        }
    }
    Ok(policies)
}

fn pending(status: &AutoScalePolicyStatus) -> Option<&LastActionStatus> {
    let action = status.last_action.as_ref();
    action.filter(|action| action.outcome == Some(ActionOutcome::Pending))
}

/// Scales the service to the size of the policy that fires.
pub(super) async fn scale(
    service: &Key,
    evaluation: &Evaluation,
    target: &Arc<dyn Target>,
    version: &Version,
    interval: Duration,
    all: &Services,
) -> Result<Outcome, Error> {
    let Some(place) = evaluation.firing() else { return Ok(Outcome::Held) };
    let (policy, to) = (&evaluation.policies[place], evaluation.verdicts[place].to);
    let mut status = policy.status.clone().unwrap_or_default();
    status.previous_action = status.last_action.take();
    status.last_action = Some(LastActionStatus {
        at: Time(evaluation.at),
        from: evaluation.count,
        to,
        outcome: Some(ActionOutcome::Pending),
    });
    write(policy, &status, all).await?;
    // A policy that was deleted in the meantime scales nothing.
    let written = all.cx.caches.service_policies.get(&Key::from_meta(&policy.metadata));
    let is_written =
        |policy: &Arc<AutoScalePolicy>| policy.status.as_ref().and_then(pending).is_some();
    if !written.as_ref().is_some_and(is_written) {
        return Ok(Outcome::Held);
    }
    // The watch of the target may deliver the new size before the answer comes.
    let known = all.index.with(service, |memory| memory.count.replace(to));
    let outcome = targets::scale(&**target, to, version, interval).await;
    if !matches!(outcome, Outcome::Applied | Outcome::SameSize(_)) {
        all.index.with(service, |memory| memory.count = known);
    }
    Ok(outcome)
}

/// Marks the newest action as carried out.
pub(super) fn applied(status: &mut AutoScalePolicyStatus) {
    status.previous_action = None;
    if let Some(action) = &mut status.last_action {
        action.outcome = Some(ActionOutcome::Applied);
        status.current_count = Some(action.to);
        status.last_executed = Some(action.at.0.as_second());
    }
}

/// Removes the newest action, which was not carried out.
pub(super) fn undone(status: &mut AutoScalePolicyStatus) {
    status.last_action = status.previous_action.take();
    if let Some(action) = &mut status.last_action {
        action.outcome = Some(ActionOutcome::Applied);
    }
}

/// Writes the status of a policy if it has changed, at the version that was observed.
pub(super) async fn write(
    policy: &AutoScalePolicy,
    status: &AutoScalePolicyStatus,
    all: &Services,
) -> Result<(), Error> {
    if policy.status.as_ref() == Some(status) {
        return Ok(());
    }
    let mut fields = json!(status);
    // A merge patch removes a field only if it names it.
    for field in ["lastAction", "previousAction", "lastExecuted", "currentCount"] {
        if fields[field].is_null() {
            fields[field] = Value::Null;
        }
    }
    let change = json!({"status": fields});
    let (client, cache) = (&all.cx.client, &all.cx.caches.service_policies);
    patch(client, cache, policy, PatchTarget::Status, change, "write the policy's status").await
}
