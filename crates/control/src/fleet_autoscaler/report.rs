//! The status and the events of an autoscaler.
//!
//! Pure functions, so that every text can be tested. Events are recorded when something changes, not with every evaluation.

use api::autoscaling::{FleetAutoscaler, FleetAutoscalerStatus};
use cluster::EventType;
use decide::Reason as _;
use decide::fleet::{Applied, FleetDecision, Reason, Refusal, Size};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// An event before it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AutoscalerEvent {
    pub(super) kind: EventType,
    pub(super) reason: &'static str,
    pub(super) text: String,
}

impl AutoscalerEvent {
    pub(super) fn normal(reason: &'static str, text: String) -> Self {
        Self { kind: EventType::Normal, reason, text }
    }

    pub(super) fn warning(reason: &'static str, text: String) -> Self {
        Self { kind: EventType::Warning, reason, text }
    }
}

/// Returns the status after a decision.
pub(super) fn status(
    autoscaler: &FleetAutoscaler,
    current: i32,
    decision: &FleetDecision,
    is_resized: bool,
    now: Timestamp,
) -> FleetAutoscalerStatus {
    let size = match &decision.outcome {
        Ok(size) => size,
        Err(refusal) => {
            let code = refusal.code();
            return unable(autoscaler, code, &with_reasons(refusal, &decision.reasons), now);
        }
    };
    let old = autoscaler.status.clone().unwrap_or_default();
    let scaled_at = if is_resized { Some(Time(now)) } else { old.last_scale_time };
    let words = words(&decision.reasons);
    let limit = limit(&decision.reasons);
    let reason = decision.reasons.last().map_or("Decided", |reason| reason.code());
    FleetAutoscalerStatus {
        current_replicas: current,
        desired_replicas: size.to,
        last_scale_time: scaled_at,
        able_to_scale: true,
        scaling_limited: size.limited,
        last_applied_policy: size.applied.to_string(),
        conditions: vec![
            condition(autoscaler, "AbleToScale", true, reason, &words, now),
            condition(autoscaler, "ScalingLimited", size.limited, limit.0, &limit.1, now),
        ],
    }
}

/// Returns the status of an autoscaler that could not decide a size.
pub(super) fn unable(
    autoscaler: &FleetAutoscaler,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> FleetAutoscalerStatus {
    let old = autoscaler.status.clone().unwrap_or_default();
    FleetAutoscalerStatus {
        last_scale_time: old.last_scale_time,
        conditions: vec![condition(autoscaler, "AbleToScale", false, reason, message, now)],
        ..FleetAutoscalerStatus::default()
    }
}

/// Returns the events for what a decision changed. The event of a resize is not among them.
pub(super) fn events(
    autoscaler: &FleetAutoscaler,
    new: &FleetAutoscalerStatus,
    decision: &FleetDecision,
) -> Vec<AutoscalerEvent> {
    let old = autoscaler.status.clone().unwrap_or_default();
    match &decision.outcome {
        Ok(size) => {
            let chain = chain_event(autoscaler, &old, size);
            chain.into_iter().chain(limit_event(autoscaler, &old, new, decision)).collect()
        }
        Err(_) if !changed(&old, new) => Vec::new(),
        Err(refusal) => {
            let in_chain =
                autoscaler.spec.policy.chain.is_some() && !matches!(refusal, Refusal::Owned { .. });
            let chain =
                in_chain.then(|| AutoscalerEvent::warning("ChainPolicy", chain_failed(autoscaler)));
            let text = format!(
                "Error calculating desired fleet size on FleetAutoscaler {}. Error: {}",
                name(autoscaler),
                with_reasons(refusal, &decision.reasons)
            );
            chain.into_iter().chain([AutoscalerEvent::warning("FleetAutoscaler", text)]).collect()
        }
    }
}

/// Returns whether the condition AbleToScale changed.
pub(super) fn changed(old: &FleetAutoscalerStatus, new: &FleetAutoscalerStatus) -> bool {
    let able = |status: &FleetAutoscalerStatus| {
        let found = status.conditions.iter().find(|c| c.type_ == "AbleToScale");
        found.map(|c| (c.status.clone(), c.reason.clone(), c.message.clone()))
    };
    able(old) != able(new)
}

/// Describes a decision in a sentence.
pub(super) fn sentence(fleet: &str, from: i32, to: i32, reasons: &[Reason]) -> String {
    let words = words(reasons);
    let because = if words.is_empty() { String::new() } else { format!(": {words}") };
    format!("Scaling fleet {fleet} from {from} to {to}{because}")
}

fn chain_event(
    autoscaler: &FleetAutoscaler,
    old: &FleetAutoscalerStatus,
    size: &Size,
) -> Option<AutoscalerEvent> {
    let Applied::Link { id, policy } = &size.applied else { return None };
    let is_new = old.last_applied_policy != size.applied.to_string();
    is_new.then(|| {
        let text = format!(
            "FleetAutoscaler '{}' successfully applied ChainPolicy | ID: {id} | Type: {policy}",
            name(autoscaler)
        );
        AutoscalerEvent::normal("ChainPolicy", text)
    })
}

fn chain_failed(autoscaler: &FleetAutoscaler) -> String {
    let name = name(autoscaler);
    format!("FleetAutoscaler '{name}' failed to apply ChainPolicy | ID: Unknown | Type: Unknown")
}

fn limit_event(
    autoscaler: &FleetAutoscaler,
    old: &FleetAutoscalerStatus,
    new: &FleetAutoscalerStatus,
    decision: &FleetDecision,
) -> Option<AutoscalerEvent> {
    let is_new = !old.scaling_limited || old.desired_replicas != new.desired_replicas;
    if !new.scaling_limited || !is_new {
        return None;
    }
    let (code, why) = limit(&decision.reasons);
    let which = if matches!(code, "AtMaximum" | "OneServer") { "maximum" } else { "minimum" };
    let (fleet, size) = (&autoscaler.spec.fleet_name, new.desired_replicas);
    let text = format!("Scaling fleet {fleet} was limited to {which} size of {size}");
    let text = if why.is_empty() { text } else { format!("{text}: {why}") };
    Some(AutoscalerEvent::warning("ScalingLimited", text))
}

fn name(autoscaler: &FleetAutoscaler) -> &str {
    autoscaler.metadata.name.as_deref().unwrap_or_default()
}

/// Returns the reason of the limit that applied, and its description.
fn limit(reasons: &[Reason]) -> (&'static str, String) {
    let holds = |r: &&Reason| {
        matches!(
            r,
            Reason::AtMinimum { .. }
                | Reason::AtMaximum { .. }
                | Reason::OneServer { .. }
                | Reason::InUse { .. }
                | Reason::NothingAllocated
        )
    };
    match reasons.iter().rfind(holds) {
        Some(reason) => (reason.code(), reason.to_string()),
        None => ("WithinLimits", String::new()),
    }
}

fn words(reasons: &[Reason]) -> String {
    reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn with_reasons(refusal: &Refusal, reasons: &[Reason]) -> String {
    if reasons.is_empty() { refusal.to_string() } else { format!("{refusal} ({})", words(reasons)) }
}

fn condition(
    autoscaler: &FleetAutoscaler,
    type_: &str,
    holds: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> Condition {
    let status = if holds { "True" } else { "False" };
    let mut before = autoscaler.status.iter().flat_map(|s| &s.conditions);
    let same = before.find(|c| c.type_ == type_ && c.status == status);
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: same.map_or(Time(now), |c| c.last_transition_time.clone()),
        observed_generation: autoscaler.metadata.generation,
    }
}
