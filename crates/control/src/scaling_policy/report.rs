//! The conditions of a policy, as pure functions.

use decide::Reason as _;
use decide::checks::{Outcome as Because, ScalingDecision, Vote, VoteReason};

use super::describe::named_reason;
use crate::conditions::Finding;
use crate::targets::Outcome;
use api::plimsoll::scaling_policy::ScalingPolicySpec;

/// The reasons of a policy that is not active because its checks have no numbers.
pub(super) const NO_DATA: &str = "NoData";
pub(super) const STALE_DATA: &str = "StaleData";
pub(super) const FAILED_GET_METRIC: &str = "FailedGetMetric";

/// Returns the conditions after an evaluation.
pub(super) fn findings(
    spec: &ScalingPolicySpec,
    decision: &ScalingDecision,
    outcome: &Outcome,
) -> Vec<Finding> {
    vec![able(spec, decision, outcome), active(spec, decision), limited(decision), shared(decision)]
}

/// Returns the reasons of a decision in one sentence.
pub(super) fn words(spec: &ScalingPolicySpec, decision: &ScalingDecision) -> String {
    let reasons = decision.reasons.iter().map(|reason| named_reason(reason, spec).to_string());
    reasons.collect::<Vec<_>>().join("; ")
}

fn able(spec: &ScalingPolicySpec, decision: &ScalingDecision, outcome: &Outcome) -> Finding {
    let (holds, reason, message) = match outcome {
        Outcome::Failed(why) | Outcome::Unknown(why) => (false, "FailedUpdateScale", why.clone()),
        Outcome::Applied => {
            let (to, why) = (decision.to, words(spec, decision));
            (true, "SucceededRescale", format!("scaled to {to}: {why}"))
        }
        Outcome::DryRun => (true, "DryRun", format!("a dry run would scale to {}", decision.to)),
        Outcome::Held | Outcome::Conflict(_) | Outcome::SameSize(_) => match cooling(decision) {
            Some(cooling) => (false, "CoolingDown", cooling.to_string()),
            None => (true, "ReadyForNewScale", String::new()),
        },
    };
    Finding::new("AbleToScale", holds, reason, message)
}

fn cooling(decision: &ScalingDecision) -> Option<&Because> {
    decision.reasons.iter().find(|reason| matches!(reason, Because::CoolingDown { .. }))
}

fn active(spec: &ScalingPolicySpec, decision: &ScalingDecision) -> Finding {
    let found =
        |holds, reason, message: String| Finding::new("ScalingActive", holds, reason, message);
    if let Some(
        reason @ (Because::Disabled | Because::OutsideSchedule | Because::TargetShared { .. }),
    ) = decision.reasons.first()
    {
        return found(false, reason.code(), reason.to_string());
    }
    let doubts: Vec<(Doubt, String)> =
        decision.votes.iter().filter_map(|vote| doubt(spec, vote)).collect();
    let Some(worst) = doubts.iter().map(|(doubt, _)| *doubt).max() else {
        return found(true, "ValidMetricFound", String::new());
    };
    let words: Vec<String> = doubts.into_iter().map(|(_, words)| words).collect();
    found(false, worst.reason(), words.join("; "))
}

/// Why a check or rule has no numbers; the last one is the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Doubt {
    NoData,
    Stale,
    Failed,
}

impl Doubt {
    fn reason(self) -> &'static str {
        match self {
            Self::NoData => NO_DATA,
            Self::Stale => STALE_DATA,
            Self::Failed => FAILED_GET_METRIC,
        }
    }
}

/// Returns why a check or rule has no numbers.
fn doubt(spec: &ScalingPolicySpec, vote: &Vote) -> Option<(Doubt, String)> {
    let Vote::Doubt(voter, why, _) = vote else { return None };
    let doubt = match why {
        VoteReason::Failed { .. } => Doubt::Failed,
        VoteReason::Stale { .. } => Doubt::Stale,
        VoteReason::Factor { .. }
        | VoteReason::InBounds { .. }
        | VoteReason::TooFewInBounds { .. }
        | VoteReason::Metric { .. }
        | VoteReason::Fixed { .. }
        | VoteReason::RuleHolds
        | VoteReason::RuleDoesNotHold
        | VoteReason::SpanNotFull
        | VoteReason::NoOriginalCount
        | VoteReason::OutsideSchedule
        | VoteReason::NoData => Doubt::NoData,
    };
    Some((doubt, format!("{}: {why}", super::describe::name(*voter, spec))))
}

fn limited(decision: &ScalingDecision) -> Finding {
    let limit = decision.reasons.last().filter(|_| decision.limited);
    match limit {
        Some(limit) => Finding::new("ScalingLimited", true, limit.code(), limit.to_string()),
        None => Finding::new("ScalingLimited", false, "DesiredWithinRange", ""),
    }
}

fn shared(decision: &ScalingDecision) -> Finding {
    let found = decision.reasons.iter().find(|r| matches!(r, Because::TargetShared { .. }));
    match found {
        Some(reason) => Finding::new("TargetShared", true, "TargetShared", reason.to_string()),
        None => Finding::new("TargetShared", false, "NotShared", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use decide::checks::{OnError, Voter};
    use serde_json::json;

    fn reason(doubts: &[VoteReason]) -> (bool, &'static str) {
        let check = |index: usize| {
            json!({
                "name": format!("c{index}"), "query": "q", "strategy": {"passThrough": {}},
            })
        };
        let checks: Vec<_> = (0..doubts.len()).map(check).collect();
        let spec: ScalingPolicySpec = serde_json::from_value(json!({
            "target": {"kind": "Deployment", "name": "web"}, "max": 9, "checks": checks,
        }))
        .unwrap();
        let vote = |(index, why): (usize, &VoteReason)| {
            Vote::Doubt(Voter::Check(index), why.clone(), OnError::Hold)
        };
        let decision = ScalingDecision {
            from: 2,
            to: 2,
            wanted: 2,
            limited: false,
            reasons: Vec::new(),
            votes: doubts.iter().enumerate().map(vote).collect(),
        };
        let finding = active(&spec, &decision);
        (finding.holds, finding.reason)
    }

    #[test]
    fn no_data_stale_data_and_errors_are_distinct_and_the_worst_is_the_reason() {
        let stale = VoteReason::Stale { newest_at: jiff::Timestamp::UNIX_EPOCH };
        let failed = VoteReason::Failed { words: "refused".to_owned() };
        assert_eq!(reason(&[]), (true, "ValidMetricFound"));
        assert_eq!(reason(&[VoteReason::NoData]), (false, "NoData"));
        assert_eq!(reason(&[stale.clone(), VoteReason::NoData]), (false, "StaleData"));
        assert_eq!(reason(&[failed, stale, VoteReason::NoData]), (false, "FailedGetMetric"));
    }
}
