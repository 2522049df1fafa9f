//! Scales targets, each at the version that the decision was made on.
//!
//! The action is in the status as `Pending` before the target is scaled, and its result is recorded afterwards, so that another process
//! can continue after a crash at any moment.

use std::sync::Arc;
use std::time::Duration;

use api::plimsoll::ScalingPolicy;
use api::plimsoll::scaling_policy::{
    ActionOutcome, HistoryStatus, LastActionStatus, ScalingPolicyStatus,
};
use cluster::write::{PatchTarget, patch};
use cluster::{Error, Key};
use connect::targets::{Target, Version};
use decide::checks::{PendingAction, pending_action};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::Policies;
use super::journal::Evaluation;
use crate::targets::{self, Outcome};

/// Resolves an action that was pending when this or another process stopped: the size of the target shows whether it was applied.
/// Returns the policy with its updated status.
pub(super) async fn resolve_pending(
    policy: Arc<ScalingPolicy>,
    count: i64,
    all: &Policies,
) -> Result<Arc<ScalingPolicy>, Error> {
    if !is_pending(&policy) {
        return Ok(policy);
    }
    let mut status = policy.status.clone().unwrap_or_default();
    let Some(pending) = &status.last_action else { return Ok(policy) };
    let (from, to) = (pending.from, pending.to);
    let result = pending_action(from, to, count);
    tracing::info!(policy = ?policy.metadata.name, from, to, count, ?result, "resolved a pending action");
    match result {
        PendingAction::Applied => applied(&mut status),
        PendingAction::NotApplied => undone(&mut status),
    }
    write(&policy, &status, all).await?;
    let key = Key::from_meta(&policy.metadata);
    Ok(all.cx.caches.policies.get(&key).unwrap_or(policy))
}

/// Scales the target to the size that was decided.
pub(super) async fn scale(
    evaluation: &Evaluation,
    target: &Arc<dyn Target>,
    version: &Version,
    interval: Duration,
    all: &Policies,
) -> Result<Outcome, Error> {
    let Evaluation { policy, decision, .. } = evaluation;
    if decision.to == decision.from {
        return Ok(Outcome::Held);
    }
    if policy.spec.dry_run {
        return Ok(Outcome::DryRun);
    }
    let mut status = policy.status.clone().unwrap_or_default();
    begin(&mut status, evaluation);
    write(policy, &status, all).await?;
    let key = Key::from_meta(&policy.metadata);
    // A policy that was deleted in the meantime scales nothing.
    if !all.cx.caches.policies.get(&key).is_some_and(|policy| is_pending(&policy)) {
        return Ok(Outcome::Held);
    }
    // The watch of the target may deliver the new size before the answer comes.
    let known = all.index.with(&key, |memory| memory.count.replace(decision.to));
    let outcome = targets::scale(&**target, decision.to, version, interval).await;
    if !matches!(outcome, Outcome::Applied | Outcome::SameSize(_)) {
        all.index.with(&key, |memory| memory.count = known);
    }
    Ok(outcome)
}

/// Whether the result of the newest action is not known.
pub(super) fn is_pending(policy: &ScalingPolicy) -> bool {
    let action = policy.status.as_ref().and_then(|status| status.last_action.as_ref());
    action.is_some_and(|action| action.outcome == Some(ActionOutcome::Pending))
}

/// Adds an action that is about to be carried out.
fn begin(status: &mut ScalingPolicyStatus, evaluation: &Evaluation) {
    let decision = &evaluation.decision;
    status.previous_action = status.last_action.take();
    status.last_action = Some(LastActionStatus {
        at: Time(evaluation.at),
        from: decision.from,
        to: decision.to,
        outcome: Some(ActionOutcome::Pending),
    });
    status.original_count.get_or_insert(decision.from);
    status.history = evaluation.history(decision.to);
}

/// Marks the newest action as carried out.
pub(super) fn applied(status: &mut ScalingPolicyStatus) {
    status.previous_action = None;
    if let Some(action) = &mut status.last_action {
        action.outcome = Some(ActionOutcome::Applied);
        status.current_count = Some(action.to);
    }
}

/// Removes the newest action, which was not carried out. The previous one becomes the newest again.
pub(super) fn undone(status: &mut ScalingPolicyStatus) {
    let undone = status.last_action.take();
    status.last_action = status.previous_action.take();
    if let Some(action) = &mut status.last_action {
        action.outcome = Some(ActionOutcome::Applied);
    }
    let is_it = |past: &HistoryStatus| undone.as_ref().is_some_and(|action| action.at == past.at);
    status.history.retain(|past| !is_it(past));
}

/// Writes the status of a policy if it has changed, at the version that was observed.
pub(super) async fn write(
    policy: &ScalingPolicy,
    status: &ScalingPolicyStatus,
    all: &Policies,
) -> Result<(), Error> {
    if policy.status.as_ref() == Some(status) {
        return Ok(());
    }
    let mut fields = json!(status);
    // A merge patch removes a field only if it names it.
    for field in
        ["lastAction", "previousAction", "history", "desiredCount", "currentCount", "originalCount"]
    {
        if fields[field].is_null() {
            fields[field] = Value::Null;
        }
    }
    let change = json!({"status": fields});
    let (client, cache) = (&all.cx.client, &all.cx.caches.policies);
    patch(client, cache, policy, PatchTarget::Status, change, "write the policy's status").await
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn action(second: i64, outcome: ActionOutcome) -> LastActionStatus {
        let at = Time(Timestamp::from_second(second).unwrap());
        LastActionStatus { at, from: 2, to: 4, outcome: Some(outcome) }
    }

    #[test]
    fn an_action_that_was_not_carried_out_leaves_the_one_before() {
        let past = |second: i64| HistoryStatus {
            at: Time(Timestamp::from_second(second).unwrap()),
            wanted: 4,
            from: 2,
            to: 4,
        };
        let before = ScalingPolicyStatus {
            last_action: Some(action(20, ActionOutcome::Pending)),
            previous_action: Some(action(10, ActionOutcome::Applied)),
            history: vec![past(10), past(20)],
            ..ScalingPolicyStatus::default()
        };
        let mut status = before.clone();
        undone(&mut status);
        assert_eq!(status.last_action, Some(action(10, ActionOutcome::Applied)));
        assert_eq!((status.previous_action, status.history), (None, vec![past(10)]));
        let mut status = before;
        applied(&mut status);
        assert_eq!(status.last_action, Some(action(20, ActionOutcome::Applied)));
        assert_eq!((status.previous_action, status.current_count), (None, Some(4)));
        assert_eq!(status.history.len(), 2);
    }
}
