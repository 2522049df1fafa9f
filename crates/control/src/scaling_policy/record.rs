//! Records the result of an evaluation in the status of the policy, in events and in the log.

use std::sync::Arc;

use api::plimsoll::ScalingPolicy;
use api::plimsoll::scaling_policy::{LastActionStatus, ScalingPolicyStatus};
use cluster::{Error, EventType, Key};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::journal::Evaluation;
use super::{Policies, act, report};
use crate::conditions::{Finding, merge};
use crate::targets::Outcome;

/// The component that reports events.
const SOURCE: &str = "scalingpolicy-controller";

/// Writes the status after an evaluation, and records events for what has changed.
pub(super) async fn all(
    evaluation: &Evaluation,
    outcome: &Outcome,
    all: &Policies,
) -> Result<(), Error> {
    let key = Key::from_meta(&evaluation.policy.metadata);
    // The pending action was written in the meantime.
    let Some(policy) = all.cx.caches.policies.get(&key) else { return Ok(()) };
    let decision = &evaluation.decision;
    let words = report::words(&policy.spec, decision);
    report_outcome(&policy, evaluation, outcome, &words, all);
    let mut status = policy.status.clone().unwrap_or_default();
    record_external_change(&policy, evaluation, &mut status, all);
    status.original_count.get_or_insert(decision.from);
    status.current_count = Some(decision.from);
    status.desired_count = Some(decision.to);
    match outcome {
        Outcome::Held | Outcome::DryRun => status.history = evaluation.history(decision.from),
        Outcome::Applied | Outcome::SameSize(_) => act::applied(&mut status),
        Outcome::Conflict(_) | Outcome::Failed(_) => act::undone(&mut status),
        // It stays pending until the size of the target is known.
        Outcome::Unknown(_) => {}
    }
    let is_scaled = matches!(outcome, Outcome::Applied | Outcome::SameSize(_));
    let count = if is_scaled { decision.to } else { decision.from };
    all.index.with(&key, |memory| memory.count = Some(count));
    let findings = report::findings(&policy.spec, decision, outcome);
    report_findings(&policy, &findings, all);
    write(&policy, status, &findings, all).await
}

/// Records that the target cannot be read.
pub(super) async fn unable(
    policy: &Arc<ScalingPolicy>,
    reason: &'static str,
    message: &str,
    all: &Policies,
) -> Result<(), Error> {
    let findings = [Finding::new("AbleToScale", false, reason, message)];
    report_findings(policy, &findings, all);
    write(policy, policy.status.clone().unwrap_or_default(), &findings, all).await
}

/// Records that the policy is not evaluated.
pub(super) async fn inactive(
    policy: &Arc<ScalingPolicy>,
    reason: &'static str,
    message: &str,
    all: &Policies,
) -> Result<(), Error> {
    let findings = [
        Finding::new("ScalingActive", false, reason, message),
        Finding::new("TargetShared", false, "NotShared", ""),
    ];
    report_findings(policy, &findings, all);
    write(policy, policy.status.clone().unwrap_or_default(), &findings, all).await
}

async fn write(
    policy: &Arc<ScalingPolicy>,
    mut status: ScalingPolicyStatus,
    findings: &[Finding],
    all: &Policies,
) -> Result<(), Error> {
    let generation = policy.metadata.generation;
    status.observed_generation = generation;
    status.conditions = merge(&status.conditions, findings, generation, all.cx.clock.now());
    match act::write(policy, &status, all).await {
        // After a conflict the next evaluation writes the status again, unless an action is pending.
        Err(error) if error.is_conflict() && !act::is_pending(policy) => Ok(()),
        done => done,
    }
}

/// Records that another client has changed the size since the last evaluation.
fn record_external_change(
    policy: &ScalingPolicy,
    evaluation: &Evaluation,
    status: &mut ScalingPolicyStatus,
    all: &Policies,
) {
    let (was, is) = (status.current_count, evaluation.decision.from);
    let Some(was) = was.filter(|was| *was != is) else { return };
    let change = LastActionStatus { at: Time(evaluation.at), from: was, to: is, outcome: None };
    status.last_change_by_others = Some(change);
    let text = format!("the size was changed from {was} to {is} by another client");
    tracing::info!(policy = ?policy.metadata.name, from = was, to = is, "size changed by another client");
    all.cx.events.record(policy, SOURCE, EventType::Normal, "SizeChangedByOthers", text);
}

fn report_outcome(
    policy: &ScalingPolicy,
    evaluation: &Evaluation,
    outcome: &Outcome,
    words: &str,
    all: &Policies,
) {
    let decision = &evaluation.decision;
    let (from, to) = (decision.from, decision.to);
    let key = Key::from_meta(&policy.metadata);
    match outcome {
        Outcome::Applied => {
            tracing::info!(policy = %key, from, to, because = words, "scaled");
            let text = format!("scaled from {from} to {to}: {words}");
            all.cx.events.record(policy, SOURCE, EventType::Normal, "SuccessfulRescale", text);
        }
        Outcome::Failed(why) | Outcome::Unknown(why) => {
            tracing::warn!(policy = %key, from, to, why, "could not scale; will retry");
            let text = format!("could not scale from {from} to {to}: {why}");
            all.cx.events.record(policy, SOURCE, EventType::Warning, "FailedRescale", text);
        }
        Outcome::Conflict(why) | Outcome::SameSize(why) => {
            tracing::debug!(policy = %key, why, "evaluating again")
        }
        Outcome::Held | Outcome::DryRun => {}
    }
}

/// Records an event for each condition that has become a problem, once.
fn report_findings(policy: &ScalingPolicy, findings: &[Finding], all: &Policies) {
    let key = Key::from_meta(&policy.metadata);
    for finding in findings {
        let is_bad = match finding.type_ {
            "TargetShared" => finding.holds,
            "ScalingActive" => {
                let bad = [report::NO_DATA, report::STALE_DATA, report::FAILED_GET_METRIC];
                !finding.holds
                    && (bad.contains(&finding.reason) || finding.reason == "InvalidPolicy")
            }
            "AbleToScale" => !finding.holds && finding.reason != "CoolingDown",
            _ => false,
        };
        let reason = if is_bad { finding.reason } else { "" };
        let was =
            all.index.with(&key, |memory| memory.reported.insert(finding.type_, reason.to_owned()));
        // An earlier process has already reported its condition.
        let was = was.unwrap_or_else(|| reported_reason(policy, finding));
        if is_bad && was != reason && finding.reason != "FailedUpdateScale" {
            let (reason, text) = (finding.reason, finding.message.clone());
            all.cx.events.record(policy, SOURCE, EventType::Warning, reason, text);
        }
    }
}

fn reported_reason(policy: &ScalingPolicy, finding: &Finding) -> String {
    let conditions = policy.status.iter().flat_map(|status| &status.conditions);
    let status = if finding.holds { "True" } else { "False" };
    let mut same = conditions.filter(|c| c.type_ == finding.type_ && c.status == status);
    same.next().map(|condition| condition.reason.clone()).unwrap_or_default()
}
