//! What would be decided about ScalingPolicies and AutoScalePolicies?

mod services;

use std::fmt;

use api::plimsoll::ScalingPolicy;
use api::plimsoll::scaling_policy::ScalingPolicySpec;
use control::Unreadable;
use control::metrics::Recorded;
use control::scaling_policy::observe::{Answers, observe};
use control::scaling_policy::target;
use decide::Reason;
use decide::checks::{self, Direction, Outcome, Vote, Voter, Why};
use serde_json::{Map, Value, json};

use super::decision::Decision;
use super::world::{Object, World};
pub(super) use services::{ServicePolicy, service};

/// Decides about a ScalingPolicy; `None`, with a note on standard error, where the size of its target is not known.
pub(super) fn scaling(object: &Object, world: &World) -> Result<Option<Decision>, Unreadable> {
    // A disabled block of a Nomad file is not even checked, so this is asked before anything is read.
    if object.value()["spec"]["enabled"] == json!(false) {
        return Ok(Some(Decision::about(object).with("disabled", true).line("not enabled")));
    }
    let policy: ScalingPolicy = object.read()?;
    for warning in policy.spec.warnings() {
        eprintln!("{object}: warning: {warning}");
    }
    let namespace = object.namespace.as_deref().unwrap_or("default");
    let size = target::size(&policy.spec.target, namespace, world)?;
    let Some(count) = size.or(world.count.map(i64::from)) else {
        eprintln!("{object}: only validated, since neither its target nor --count is given");
        return Ok(None);
    };
    let recorded = Recorded { world, namespace, now: world.now };
    let answers = Answers::recorded(&policy.spec, &recorded)?;
    let decided = observe(&policy, count, answers)?.decide(world.now);
    let target = target::reference(&policy.spec.target, namespace);
    Ok(Some(describe(object, &policy, &decided, target)))
}

fn describe(
    object: &Object,
    policy: &ScalingPolicy,
    decided: &checks::Decision,
    target: Value,
) -> Decision {
    let spec = &policy.spec;
    let reasons: Vec<Told> = decided.reasons.iter().map(|reason| tell(reason, spec)).collect();
    let votes: Vec<Value> = decided.votes.iter().map(|vote| vote_json(vote, spec)).collect();
    let (from, to) = (decided.from, decided.to);
    let held = if decided.limited { ", limited" } else { "" };
    let dry = if spec.dry_run { ", dry run" } else { "" };
    let headline = if from == to {
        format!("stays at {from}{held}{dry}")
    } else {
        format!("{from} -> {to}{held}{dry}")
    };
    let mut decision = Decision::about(object)
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
    decided.votes.iter().fold(decision, |decision, vote| decision.line(vote_line(vote, spec)))
}

/// A reason with the name of whom it is about.
struct Told {
    code: &'static str,
    text: String,
}

impl Reason for Told {
    fn code(&self) -> &'static str {
        self.code
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn tell(outcome: &Outcome, spec: &ScalingPolicySpec) -> Told {
    let text = match outcome.voter() {
        Some(voter) => format!("{}: {outcome}", name(voter, spec)),
        None => outcome.to_string(),
    };
    Told { code: outcome.code(), text }
}

/// Names a check by its name, and a rule by its name or its place.
fn name(voter: Voter, spec: &ScalingPolicySpec) -> String {
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
            let words =
                if let Why::Failed { words } = why { words.clone() } else { why.to_string() };
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
    let says = match vote {
        Vote::Cast(_, ballot) if ballot.direction == Direction::None => "none".to_owned(),
        Vote::Cast(_, ballot) => format!("{} to {}", ballot.direction.name(), ballot.count),
        Vote::Absent(..) => "no vote".to_owned(),
        Vote::Doubt(_, _, checks::OnError::Hold) => "none, in doubt".to_owned(),
        Vote::Doubt(_, _, checks::OnError::Ignore) => "ignored".to_owned(),
        Vote::Doubt(_, _, checks::OnError::Fail) => "failed".to_owned(),
    };
    format!("vote {}: {says}, because {}", name(vote.voter(), spec), vote.why())
}
