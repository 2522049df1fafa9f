//! Records the result of an evaluation in the statuses of the policies, in events and in the log.

use std::sync::Arc;

use api::Problem;
use api::plimsoll::AutoScalePolicy;
use api::plimsoll::auto_scale_policy::AutoScalePolicyStatus;
use cluster::{Error, EventType, Key};
use decide::rules::service::{Fire, Verdict};

use super::{Evaluation, Services, act};
use crate::conditions::{Finding, merge};
use crate::lister::sentence;
use crate::targets::Outcome;

/// The component that reports events.
const SOURCE: &str = "autoscalepolicy-controller";

/// Writes the statuses after an evaluation, and records events for what has changed.
pub(super) async fn all(
    service: &Key,
    evaluation: &Evaluation,
    outcome: &Outcome,
    all: &Services,
) -> Result<(), Error> {
    let firing = evaluation.firing();
    let is_scaled = matches!(outcome, Outcome::Applied | Outcome::SameSize(_));
    let scaled = firing.filter(|_| is_scaled);
    let count = scaled.map_or(evaluation.count, |place| evaluation.verdicts[place].to);
    all.index.with(service, |memory| memory.count = Some(count));
    for (place, verdict) in evaluation.verdicts.iter().enumerate() {
        let key = Key::from_meta(&evaluation.policies[place].metadata);
        // The pending action was written in the meantime.
        let Some(policy) = all.cx.caches.service_policies.get(&key) else { continue };
        let outcome = if firing == Some(place) { outcome } else { &Outcome::Held };
        let mut status = policy.status.clone().unwrap_or_default();
        record_external_change(&policy, &status, evaluation, all);
        status.current_count = Some(count);
        match outcome {
            Outcome::Applied | Outcome::SameSize(_) => act::applied(&mut status),
            Outcome::Conflict(_) | Outcome::Failed(_) => act::undone(&mut status),
            Outcome::Held | Outcome::DryRun | Outcome::Unknown(_) => {}
        }
        report_outcome(&policy, evaluation.count, verdict, outcome, all);
        let findings = findings(verdict, outcome);
        report_shared(&policy, &findings, all);
        write(&policy, status, &findings, all).await?;
    }
    Ok(())
}

/// Records that the target cannot be read.
pub(super) async fn unable(
    policies: &[Arc<AutoScalePolicy>],
    reason: &'static str,
    message: &str,
    all: &Services,
) -> Result<(), Error> {
    for policy in policies {
        let findings = [Finding::new("AbleToScale", false, reason, message)];
        let status = policy.status.clone().unwrap_or_default();
        let is_reported =
            status.conditions.iter().any(|c| c.type_ == "AbleToScale" && c.reason == reason);
        if !is_reported {
            let text = message.to_owned();
            all.cx.events.record(&**policy, SOURCE, EventType::Warning, reason, text);
        }
        write(policy, status, &findings, all).await?;
    }
    Ok(())
}

/// Records that a policy cannot be read and is ignored.
pub(super) async fn invalid(
    policy: &AutoScalePolicy,
    problems: &[Problem],
    all: &Services,
) -> Result<(), Error> {
    let (reason, text) = ("InvalidPolicy", sentence(problems));
    let findings = [
        Finding::new("ScalingActive", false, reason, text.as_str()),
        Finding::new("TargetShared", false, "NotShared", ""),
    ];
    let status = policy.status.clone().unwrap_or_default();
    if !status.conditions.iter().any(|c| c.type_ == "ScalingActive" && c.reason == reason) {
        tracing::warn!(policy = %Key::from_meta(&policy.metadata), problem = text, "policy cannot be read");
        all.cx.events.record(policy, SOURCE, EventType::Warning, reason, text);
    }
    write(policy, status, &findings, all).await
}

async fn write(
    policy: &AutoScalePolicy,
    mut status: AutoScalePolicyStatus,
    findings: &[Finding],
    all: &Services,
) -> Result<(), Error> {
    let generation = policy.metadata.generation;
    status.observed_generation = generation;
    status.conditions = merge(&status.conditions, findings, generation, all.cx.clock.now());
    act::write(policy, &status, all).await
}

/// Returns the conditions after an evaluation.
fn findings(verdict: &Verdict, outcome: &Outcome) -> Vec<Finding> {
    let able = match outcome {
        Outcome::Failed(why) | Outcome::Unknown(why) => {
            Finding::new("AbleToScale", false, "FailedUpdateScale", why.as_str())
        }
        Outcome::Applied => {
            let text = format!("scaled to {}", verdict.to);
            Finding::new("AbleToScale", true, "SucceededRescale", text)
        }
        Outcome::Held | Outcome::DryRun | Outcome::Conflict(_) | Outcome::SameSize(_) => {
            if let Fire::Quiet { until, .. } = &verdict.why {
                Finding::new("AbleToScale", false, "Quiet", format!("quiet until {until}"))
            } else {
                Finding::new("AbleToScale", true, "ReadyForNewScale", "")
            }
        }
    };
    let why = verdict.why.to_string();
    let shared = if matches!(verdict.why, Fire::TargetShared { .. }) {
        Finding::new("TargetShared", true, "TargetShared", why.as_str())
    } else {
        Finding::new("TargetShared", false, "NotShared", "")
    };
    let doubt = match &verdict.why {
        Fire::TargetShared { .. } => Some("TargetShared"),
        Fire::NoData => Some("NoData"),
        Fire::Stale { .. } => Some("StaleData"),
        Fire::Failed { .. } => Some("FailedGetMetric"),
        Fire::WindowNotFull => Some("WindowNotFull"),
        Fire::Crossed { .. }
        | Fire::NotCrossed { .. }
        | Fire::Quiet { .. }
        | Fire::AtLimit { .. }
        | Fire::Refused { .. }
        | Fire::Outvoted => None,
    };
    let active = match doubt {
        Some(reason) => Finding::new("ScalingActive", false, reason, why),
        None => Finding::new("ScalingActive", true, "ValidMetricFound", ""),
    };
    let reason = if verdict.limited { "AtLimit" } else { "DesiredWithinRange" };
    vec![able, active, Finding::new("ScalingLimited", verdict.limited, reason, ""), shared]
}

fn report_outcome(
    policy: &AutoScalePolicy,
    from: i64,
    verdict: &Verdict,
    outcome: &Outcome,
    all: &Services,
) {
    let (key, to, why) = (Key::from_meta(&policy.metadata), verdict.to, &verdict.why);
    match outcome {
        Outcome::Applied => {
            tracing::info!(policy = %key, from, to, %why, "scaled");
            let text = format!("scaled from {from} to {to}: {why}");
            all.cx.events.record(policy, SOURCE, EventType::Normal, "SuccessfulRescale", text);
        }
        Outcome::Failed(error) | Outcome::Unknown(error) => {
            tracing::warn!(policy = %key, from, to, error, "could not scale; will retry");
            let text = format!("could not scale from {from} to {to}: {error}");
            all.cx.events.record(policy, SOURCE, EventType::Warning, "FailedRescale", text);
        }
        Outcome::Held | Outcome::DryRun | Outcome::Conflict(_) | Outcome::SameSize(_) => {}
    }
}

/// Records an event when another autoscaler of the same target appears.
fn report_shared(policy: &AutoScalePolicy, findings: &[Finding], all: &Services) {
    let shared = findings.iter().find(|f| f.type_ == "TargetShared" && f.holds);
    let mut before = policy.status.iter().flat_map(|status| &status.conditions);
    let was_shared = before.any(|c| c.type_ == "TargetShared" && c.status == "True");
    if let Some(shared) = shared.filter(|_| !was_shared) {
        let text = shared.message.clone();
        all.cx.events.record(policy, SOURCE, EventType::Warning, "TargetShared", text);
    }
}

/// Records that another client has changed the size since the last evaluation.
fn record_external_change(
    policy: &AutoScalePolicy,
    status: &AutoScalePolicyStatus,
    evaluation: &Evaluation,
    all: &Services,
) {
    let is = evaluation.count;
    if let Some(was) = status.current_count.filter(|was| *was != is) {
        let text = format!("the size was changed from {was} to {is} by another client");
        all.cx.events.record(policy, SOURCE, EventType::Normal, "SizeChangedByOthers", text);
    }
}
