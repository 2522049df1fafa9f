//! Describes a decision about the size of a policy's target.

use std::fmt;

use api::plimsoll::scaling_policy::ScalingPolicySpec;
use decide::Reason;
use decide::checks::{self, Direction, Outcome, Vote, VoteReason, Voter};
use serde_json::{Map, Value, json};

use crate::description::{Description, ObjectName};

/// Describes the decision of the policy `subject` about its target.
pub fn describe(
    subject: &ObjectName,
    spec: &ScalingPolicySpec,
    decided: &checks::ScalingDecision,
    target: Value,
) -> Description {
    let reasons: Vec<NamedReason> =
        decided.reasons.iter().map(|reason| named_reason(reason, spec)).collect();
    let votes: Vec<Value> = decided.votes.iter().map(|vote| vote_json(vote, spec)).collect();
    let (from, to) = (decided.from, decided.to);
    let held = if decided.limited { ", limited" } else { "" };
    let dry = if spec.dry_run { ", dry run" } else { "" };
    let headline = if from == to {
        format!("stays at {from}{held}{dry}")
    } else {
        format!("{from} -> {to}{held}{dry}")
    };
    let mut decision = Description::about(subject)
        .with("target", target)
        .with("from", from)
        .with("to", to)
        .with("limited", decided.limited)
        .line(headline)
        .because(&reasons)
        .with("votes", votes);
    if spec.dry_run {
        decision = decision.with("dryRun", true);
    }
    let shared_with = decided.reasons.iter().find_map(|reason| {
        let Outcome::TargetShared { with } = reason else { return None };
        Some(with)
    });
    if let Some(with) = shared_with {
        decision = decision.with("sharedWith", with.as_str());
    }
    decided.votes.iter().fold(decision, |decision, vote| decision.line(vote_line(vote, spec)))
}

/// A reason, prefixed with the name of its check or rule.
pub(super) struct NamedReason {
    code: &'static str,
    text: String,
}

impl Reason for NamedReason {
    fn code(&self) -> &'static str {
        self.code
    }
}

impl fmt::Display for NamedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns a reason with the name of its check or rule.
pub(super) fn named_reason(outcome: &Outcome, spec: &ScalingPolicySpec) -> NamedReason {
    let text = match outcome.voter() {
        Some(voter) => format!("{}: {outcome}", name(voter, spec)),
        None => outcome.to_string(),
    };
    NamedReason { code: outcome.code(), text }
}

/// Returns the name of a check, or the name or position of a rule.
pub(super) fn name(voter: Voter, spec: &ScalingPolicySpec) -> String {
    match voter {
        Voter::Check(index) => spec.checks[index].name.clone(),
        Voter::Rule(index) => {
            spec.rules[index].name.clone().unwrap_or_else(|| format!("rules[{index}]"))
        }
    }
}

fn vote_json(vote: &Vote, spec: &ScalingPolicySpec) -> Value {
    let group = match vote.voter() {
        Voter::Check(index) => spec.checks[index].group.as_str(),
        Voter::Rule(index) => spec.rules[index].metric.name(),
    };
    let mut out = Map::new();
    out.insert("check".to_owned(), name(vote.voter(), spec).into());
    out.insert("group".to_owned(), group.into());
    match vote {
        Vote::Cast(_, ballot) => {
            out.insert("direction".to_owned(), ballot.direction.name().into());
            if ballot.direction != Direction::None {
                out.insert("count".to_owned(), ballot.count.into());
            }
        }
        Vote::Absent(..) => {}
        Vote::Doubt(_, why, on_error) => {
            let words = if let VoteReason::Failed { words } = why {
                words.clone()
            } else {
                why.to_string()
            };
            out.insert("error".to_owned(), words.into());
            if *on_error == checks::OnError::Hold {
                out.insert("direction".to_owned(), Direction::None.name().into());
            }
        }
    }
    let why = vote.why();
    out.insert("reason".to_owned(), json!({"code": why.code(), "message": why.to_string()}));
    out.into()
}

fn vote_line(vote: &Vote, spec: &ScalingPolicySpec) -> String {
    let result = match vote {
        Vote::Cast(_, ballot) if ballot.direction == Direction::None => "none".to_owned(),
        Vote::Cast(_, ballot) => format!("{} to {}", ballot.direction.name(), ballot.count),
        Vote::Absent(..) => "no vote".to_owned(),
        Vote::Doubt(_, _, checks::OnError::Hold) => "none, in doubt".to_owned(),
        Vote::Doubt(_, _, checks::OnError::Ignore) => "ignored".to_owned(),
        Vote::Doubt(_, _, checks::OnError::Fail) => "failed".to_owned(),
    };
    format!("vote {}: {result}, because {}", name(vote.voter(), spec), vote.why())
}
