//! Describes the verdict on one policy of a service.

use decide::rules::service::{Fire, Verdict};
use serde_json::{Value, json};

use crate::description::{Description, ObjectName};

/// Describes the verdict on the policy `subject` of a service that has `count` containers.
pub fn describe(subject: &ObjectName, service: &str, count: i64, verdict: &Verdict) -> Description {
    let headline = if verdict.fires {
        format!("fires: {count} -> {}", verdict.to)
    } else {
        format!("does not fire: stays at {count}")
    };
    let decision = Description::about(subject)
        .with("target", json!({"kind": "Service", "name": service}))
        .with("from", count)
        .with("to", verdict.to)
        .with("fires", verdict.fires)
        .with("limited", verdict.limited)
        .line(headline)
        .because(std::slice::from_ref(&verdict.why))
        .with("votes", Vec::<Value>::new());
    let decision = if let Fire::TargetShared { with } = &verdict.why {
        decision.with("sharedWith", with.as_str())
    } else {
        decision
    };
    match verdict.quiet_until {
        Some(until) => decision.with("quietUntil", until.to_string()),
        None => decision,
    }
}
