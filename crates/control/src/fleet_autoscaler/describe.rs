//! Describes a decision about the size of a fleet.

use decide::Reason as _;
use decide::fleet::FleetDecision;
use serde_json::json;

use crate::description::{Description, ObjectName};

/// Describes the decision of the autoscaler `subject` about the fleet `target`.
pub fn describe(subject: &ObjectName, target: &ObjectName, decided: &FleetDecision) -> Description {
    let from = decided.from;
    let description =
        Description::about(subject).with("target", target.to_json()).with("from", from);
    let description = match &decided.outcome {
        Ok(size) => {
            let limited = if size.limited { ", limited" } else { "" };
            let change = if size.to == from {
                format!("{target}: stays at {from}, by {}{limited}", size.applied)
            } else {
                format!("{target}: {from} -> {}, by {}{limited}", size.to, size.applied)
            };
            description
                .line(change)
                .with("to", size.to)
                .with("limited", size.limited)
                .with("appliedPolicy", size.applied.to_string())
        }
        Err(refusal) => description
            .line(format!("{target}: stays at {from}: no size was returned"))
            .line(format!("{}: {refusal}", refusal.code()))
            .with("error", json!({"code": refusal.code(), "message": refusal.to_string()}))
            .with("limited", false)
            .with("appliedPolicy", ""),
    };
    description.because(&decided.reasons).with("votes", json!([]))
}
