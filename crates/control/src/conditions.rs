//! Conditions of policies, in the words of HorizontalPodAutoscaler.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// A condition before it is written: its type, whether it holds, the reason and a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) type_: &'static str,
    pub(crate) holds: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Finding {
    pub(crate) fn new(
        type_: &'static str,
        holds: bool,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self { type_, holds, reason, message: message.into() }
    }
}

/// Returns the conditions of an object after an evaluation: those that were found, and the others as they were. The time of a condition
/// is that of its last change.
pub(crate) fn merge(
    old: &[Condition],
    found: &[Finding],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let make = |finding: &Finding| {
        let status = if finding.holds { "True" } else { "False" };
        let same = old.iter().find(|c| c.type_ == finding.type_ && c.status == status);
        Condition {
            type_: finding.type_.to_owned(),
            status: status.to_owned(),
            reason: finding.reason.to_owned(),
            message: finding.message.clone(),
            last_transition_time: same.map_or(Time(now), |c| c.last_transition_time.clone()),
            observed_generation: generation,
        }
    };
    let is_found = |condition: &&Condition| found.iter().any(|f| f.type_ == condition.type_);
    let kept = old.iter().filter(|condition| !is_found(condition)).cloned();
    let mut all: Vec<Condition> = found.iter().map(make).chain(kept).collect();
    all.sort_by(|a, b| a.type_.cmp(&b.type_));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_time_until_it_changes() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let able = |holds| Finding::new("AbleToScale", holds, "Reason", "words");
        let limited = Finding::new("ScalingLimited", false, "DesiredWithinRange", "");
        let first = merge(&[], &[able(true), limited], Some(1), at(10));
        let second = merge(&first, &[able(true)], Some(2), at(20));
        let third = merge(&second, &[able(false)], Some(2), at(30));
        let times = |all: &[Condition]| {
            let time = |c: &Condition| c.last_transition_time.0.as_second();
            all.iter().map(time).collect::<Vec<_>>()
        };
        assert_eq!((times(&first), times(&second)), (vec![10, 10], vec![10, 10]));
        assert_eq!(times(&third), [30, 10]);
    }
}
